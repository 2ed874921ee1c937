//! Every twin against the bits themselves, and on whole tables against a list of digests.

use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::bits::word::low_bits;
use crate::filter::DigestFilter as _;
use crate::line::LineFilter;
use crate::line::cells::Writing;
use crate::line::drift::selected;
use crate::line::fingerprint::{Epoch, Hash};
use crate::line::shape::{GROUPS, MOST_BUCKETS, MOST_DRIFT, MOST_SLOTS};
use crate::line::table::Table;
use crate::line::tests::{FILTERS, false_positive, filter, shapes};
use crate::remote::MemorySet;
use crate::rng::Rng;

/// Compares each function of a twin with counting bit by bit.
pub(super) fn compare(lanes: impl Lanes) {
    let mut rng = Rng::new(1);
    for index in 0..1024 {
        let bits = (0..64).filter(|&bit| bit < (index & 0xff));
        assert_eq!(lanes.below(index), bits.fold(0, |word, bit| word | 1 << bit), "{index}");
    }
    compare_runs(lanes, &mut rng);
    for round in 0..if cfg!(miri) { 20 } else { 2000 } {
        let word = match round % 3 {
            0 => rng.next() & rng.next() & rng.next(),
            1 => rng.next(),
            _ => round,
        };
        let set = (0..64).filter(|bit| word >> bit & 1 == 1);
        for (number, bit) in (0..).zip(set) {
            assert_eq!(lanes.select(word, number), bit, "{word:x} {number}");
        }
        compare_compressed(lanes, word, &mut rng);
        compare_matches(lanes, &mut rng);
    }
}

/// Windows of up to seven buckets whose runs have one or two slots, all of them, and long random
/// ones; bits above the runs are set at random.
fn compare_runs(lanes: impl Lanes, rng: &mut Rng) {
    let mut compare = |lengths: &[u32]| {
        let (mut occupied, mut starts, mut slot) = (1 << lengths.len(), 1, 0);
        let mut runs = Vec::new();
        for (index, &len) in lengths.iter().enumerate() {
            occupied |= u64::from(len > 0) << index;
            runs.push(low_bits(len) << slot);
            slot += len;
            starts |= 1 << slot;
        }
        starts |= rng.next() & !low_bits(slot + 1);
        for (index, &run) in runs.iter().enumerate() {
            let below = lanes.below(index as u32);
            assert_eq!(lanes.run(below, occupied, starts), run, "{lengths:?} {index}");
        }
    };
    let window = if cfg!(miri) { 3 } else { 7 };
    for number in 0..3u32.pow(window) {
        let lengths: Vec<u32> = (0..window).map(|at| number / 3u32.pow(at) % 3).collect();
        compare(&lengths);
    }
    let mut rng = Rng::new(2);
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let mut lengths = vec![0; 1 + rng.below(MOST_BUCKETS as u64) as usize];
        for _ in 0..rng.below(MOST_SLOTS as u64 + 1) {
            let index = rng.below(lengths.len() as u64) as usize;
            lengths[index] += 1;
        }
        compare(&lengths);
    }
}

/// A mask is one piece, and may be empty.
fn compare_compressed(lanes: impl Lanes, word: u64, rng: &mut Rng) {
    let start = rng.below(64) as u32;
    let end = start + rng.below(u64::from(65 - start)) as u32;
    let mask = low_bits(end) & !low_bits(start);
    let bits = (start..end).enumerate();
    let slow = bits.fold(0, |bits, (at, bit)| bits | (word >> bit & 1) << at);
    assert_eq!(lanes.compress(word, mask), slow, "{word:x} {mask:x}");
}

/// Any slots, of a line in which a third of the bytes are alike.
fn compare_matches(lanes: impl Lanes, rng: &mut Rng) {
    let mut line = [0; 64];
    line.iter_mut().for_each(|byte| *byte = (rng.below(3) * 127) as u8);
    let slots = rng.next() & low_bits(MOST_SLOTS as u32);
    for remainder in [0, 127, 254, 1] {
        let same = (0..MOST_SLOTS).filter(|&slot| line[slot] == remainder);
        let slow = same.fold(0, |bits, slot| bits | 1 << slot) & slots;
        assert_eq!(lanes.matches(&line, remainder, slots), slow, "{line:?} {slots:x}");
    }
}

#[test]
fn the_portable_twin_agrees_with_counting_bit_by_bit() {
    compare(Portable);
}

/// A table as a list: the digests of each bucket, the selector of each bucket, and which line has
/// it. Its lines are of any windows, epochs and states, also ones that no history leads to.
struct Slow {
    shape: Shape,
    buckets: Vec<Vec<Digest>>,
    selectors: Vec<u32>,
    /// The window of each line, and its epoch and states.
    windows: Vec<(core::ops::Range<usize>, Epoch, u8)>,
}

impl Slow {
    /// Random windows; with `room`, no line is full.
    fn random(count: usize, room: bool, shape: &Shape, alike: &[u64], rng: &mut Rng) -> Self {
        let all = count * shape.buckets;
        let most = MOST_DRIFT as usize;
        let mut borders = vec![0];
        for line in 1..count {
            // Borders near their homes or anywhere, as long as the windows behind can tile.
            let home = line * shape.buckets;
            let off = if rng.below(2) == 0 { 5 } else { most };
            let last = borders[line - 1];
            let lowest = home.saturating_sub(off).clamp(last, last + MOST_BUCKETS);
            let lowest = lowest.max(all.saturating_sub((count - line) * MOST_BUCKETS));
            let highest = (home + off).min(last + MOST_BUCKETS).min(all).max(lowest);
            borders.push(lowest + rng.below((highest - lowest + 1) as u64) as usize);
        }
        borders.push(all);
        let mut slow = Slow {
            shape: *shape,
            buckets: vec![Vec::new(); all],
            selectors: vec![0; all],
            windows: Vec::new(),
        };
        for line in 0..count {
            let window = borders[line]..borders[line + 1];
            let epoch = if rng.below(2) == 0 { Epoch::FIRST } else { second_epoch() };
            let states = if rng.below(3) == 0 { 0 } else { rng.next() as u8 };
            let slots = shape.slots - usize::from(room);
            let keys = if window.is_empty() { 0 } else { rng.below(slots as u64 + 1) };
            for _ in 0..keys {
                let bucket = window.start + rng.below(window.len() as u64) as usize;
                let digest = slow.digest_in(bucket, alike, rng);
                slow.buckets[bucket].push(digest);
            }
            for bucket in window.clone().filter(|bucket| states >> (bucket % GROUPS) & 1 == 1) {
                let most = (1u64 << slow.buckets[bucket].len()).min(shape.selectors().into());
                slow.selectors[bucket] = rng.below(most) as u32;
            }
            slow.windows.push((window, epoch, states));
        }
        slow
    }

    /// A digest of a bucket with a second word that many others have.
    fn digest_in(&self, bucket: usize, alike: &[u64], rng: &mut Rng) -> Digest {
        let start = ((bucket as u128) << 64).div_ceil(self.buckets.len() as u128);
        let second = alike[rng.below(alike.len() as u64) as usize];
        Digest::new([start as u64 + rng.below(1000), second])
    }

    fn bucket_of(&self, digest: Digest) -> usize {
        ((u128::from(digest.word(0)) * self.buckets.len() as u128) >> 64) as usize
    }

    fn line_of(&self, bucket: usize) -> usize {
        self.windows.iter().position(|(window, ..)| window.contains(&bucket)).expect("a line")
    }

    fn is_adapted(&self, bucket: usize) -> bool {
        self.windows[self.line_of(bucket)].2 >> (bucket % GROUPS) & 1 == 1
    }

    /// The first key of a digest's bucket that looks like it.
    fn position(&self, digest: Digest) -> Option<usize> {
        let bucket = self.bucket_of(digest);
        let epoch = self.windows[self.line_of(bucket)].1;
        let first = usize::from(self.is_adapted(bucket));
        let fingerprint =
            |digest| Hash::of(digest, epoch).select(self.selectors[bucket], &self.shape);
        let own = fingerprint(digest);
        self.buckets[bucket]
            .iter()
            .position(|&key| fingerprint(key).equals(own, first, &self.shape))
    }

    fn used(&self, line: usize) -> usize {
        self.buckets[self.windows[line].0.clone()].iter().map(Vec::len).sum()
    }

    fn table(&self) -> Table {
        let shape = &self.shape;
        let mut table = Table::new(self.windows.len(), Epoch::FIRST, *shape);
        for (line, (window, epoch, states)) in self.windows.iter().enumerate() {
            let drift = (line * shape.buckets) as i32 - window.start as i32;
            let mut writing = Writing::start(window.len(), drift, *epoch);
            for (index, bucket) in window.clone().enumerate() {
                for &digest in &self.buckets[bucket] {
                    let hash = Hash::of(digest, *epoch);
                    writing.push(index, hash.select(self.selectors[bucket], shape), shape);
                }
            }
            let mut whole = writing.finish(shape);
            for group in (0..GROUPS).filter(|group| states >> group & 1 == 1) {
                whole.adapt_group(group, window.start, shape);
            }
            for (index, bucket) in window.clone().enumerate() {
                let run = whole.run(Portable, index as u32, shape);
                if states >> (bucket % GROUPS) & 1 == 1 && run != 0 {
                    let keys = &self.buckets[bucket];
                    let selector = self.selectors[bucket];
                    let new = selected(keys, *epoch, selector, shape);
                    whole.overwrite(run, &new, shape);
                }
            }
            table.lines[line] = whole;
            table.counts.len += self.used(line);
        }
        table.count_adapted();
        table.check().expect("windows tile");
        table
    }

    /// Digests of all buckets, most of which look like a stored one.
    fn queries(&self, alike: &[u64], rng: &mut Rng) -> Vec<Digest> {
        let stored = self.buckets.iter().flatten().copied();
        let mut queries: Vec<Digest> = stored.collect();
        for bucket in 0..self.buckets.len() {
            queries.extend((0..6).map(|_| self.digest_in(bucket, alike, rng)));
        }
        queries
    }
}

/// The other epoch of these tables.
fn second_epoch() -> Epoch {
    Epoch::FIRST.another(40)
}

/// Second words of digests whose remainders are few, in both epochs.
fn alike(rng: &mut Rng) -> Vec<u64> {
    let is_small = |word: u64, epoch| {
        let shape = Shape::with_planes::<1>();
        Hash::of(Digest::new([0, word]), epoch).select(0, &shape).remainder() < 4
    };
    let words = core::iter::repeat_with(|| rng.next());
    let small = words
        .filter(|&word| [Epoch::FIRST, second_epoch()].iter().all(|&epoch| is_small(word, epoch)));
    small.take(if cfg!(miri) { 4 } else { 32 }).collect()
}

/// All twins and both forms, in tables of any windows, one by one and in batches.
#[test]
fn every_twin_finds_what_a_list_has() {
    let mut rng = Rng::new(3);
    let alike = alike(&mut rng);
    let (mut positive, mut negative) = (0, 0);
    for shape in shapes() {
        for round in 0..if cfg!(miri) { 2 } else { 60 } {
            let slow = Slow::random(1 + round % 12, false, &shape, &alike, &mut rng);
            let table = slow.table();
            let queries = slow.queries(&alike, &mut rng);
            let answers: Vec<bool> =
                queries.iter().map(|&query| slow.position(query).is_some()).collect();
            positive += answers.iter().filter(|&&answer| answer).count();
            negative += answers.iter().filter(|&&answer| !answer).count();
            for (number, twin) in Twin::all(&shape).into_iter().enumerate() {
                compare_queries(&twin, &table, &queries, &answers, number);
            }
        }
    }
    assert!(cfg!(miri) || (positive > 10_000 && negative > 10_000), "{positive} {negative}");
}

fn compare_queries(
    twin: &Twin,
    table: &Table,
    queries: &[Digest],
    answers: &[bool],
    number: usize,
) {
    let (lines, count) = (&table.lines, table.count);
    for (&query, &answer) in queries.iter().zip(answers) {
        for form in twin.forms {
            // SAFETY: `Twin::all` gives those of this processor.
            let found = unsafe { form(lines, count, query.word(0), query.word(1)) };
            assert_eq!(found, answer, "twin {number}: {query:?}");
        }
    }
    for size in [1, 63, 64, 65, 129, queries.len()] {
        let mut found = vec![false; queries.len()];
        for (some, found) in queries.chunks(size).zip(found.chunks_mut(size)) {
            twin.contains_many(lines, count, some, found);
        }
        assert_eq!(found, answers, "twin {number}: {size} at a time");
    }
}

/// Insertions and deletions within lines: all twins write the same bytes, and what a list says
/// that they mean.
#[test]
fn every_twin_inserts_and_deletes_like_a_list() {
    let mut rng = Rng::new(4);
    let alike = alike(&mut rng);
    let [mut inserted, mut deleted, mut refused] = [0; 3];
    for shape in shapes() {
        for round in 0..if cfg!(miri) { 1 } else { 30 } {
            let mut slow = Slow::random(1 + round % 6, round % 2 == 0, &shape, &alike, &mut rng);
            let mut lines: Vec<_> =
                Twin::all(&shape).into_iter().map(|twin| (twin, slow.table().lines)).collect();
            for _ in 0..if cfg!(miri) { 20 } else { 500 } {
                let bucket = rng.below(slow.buckets.len() as u64) as usize;
                let (digest, count) =
                    (slow.digest_in(bucket, &alike, &mut rng), slow.windows.len());
                let (line, adapted) = (slow.line_of(bucket), slow.is_adapted(bucket));
                if rng.below(2) == 0 {
                    let has_room = slow.used(line) < shape.slots;
                    let fits = has_room && !(adapted && slow.buckets[bucket].is_empty());
                    for (twin, lines) in &mut lines {
                        assert_eq!(twin.insert(lines, count, digest), fits, "{digest:?}");
                    }
                    if fits {
                        slow.buckets[bucket].push(digest);
                    }
                    inserted += usize::from(fits);
                    refused += usize::from(!fits);
                } else {
                    let position = slow.position(digest).filter(|_| !adapted);
                    for (twin, lines) in &mut lines {
                        let found = twin.delete(lines, count, digest);
                        assert_eq!(found, position.map(|_| line), "{digest:?}");
                    }
                    if let Some(position) = position {
                        slow.buckets[bucket].remove(position);
                    }
                    deleted += usize::from(position.is_some());
                }
                let (first, others) = lines.split_first().expect("the portable twin");
                assert!(others.iter().all(|(_, lines)| *lines == first.1), "other bytes");
            }
            let mut table = slow.table();
            table.lines = lines.swap_remove(0).1;
            table.check().expect("every line is sound");
            for query in slow.queries(&alike, &mut rng) {
                assert_eq!(table.contains(query), slow.position(query).is_some(), "{query:?}");
            }
        }
    }
    let least = [inserted, deleted, refused].into_iter().min().expect("three counts");
    assert!(cfg!(miri) || least > 1000, "{inserted} {deleted} {refused} prove little");
}

/// The same history with each twin: insertions that drift, removals, many adaptations and several
/// epochs. Every line is the same at every moment.
#[test]
fn every_twin_has_the_same_history() {
    for text in FILTERS {
        let mut rng = Rng::new(5);
        let shape = filter(text, 1).table.shape;
        let capacity = if cfg!(miri) { 50 } else { 300 };
        let mut plays: Vec<_> = Twin::all(&shape)
            .into_iter()
            .map(|twin| {
                let mut filter = filter(text, capacity);
                filter.table.twin = twin;
                (filter, MemorySet::new())
            })
            .collect();
        let mut keys = Vec::new();
        let steps = if cfg!(miri) {
            60
        } else if text == "line:f=16" {
            700
        } else {
            1500
        };
        for step in 0..steps {
            let turn = if step < capacity { 0 } else { rng.below(4) };
            let digest = match turn {
                0 => Digest::new([rng.next(), rng.next()]),
                1 => keys.swap_remove(rng.below(keys.len() as u64) as usize),
                _ => {
                    let near = keys[rng.below(keys.len() as u64) as usize];
                    let Some(found) = false_positive(&plays[0].0, near, &mut rng) else { continue };
                    found
                }
            };
            let mut outcomes = plays.iter_mut().map(|(filter, remote)| match turn {
                0 => format!("{:?}", filter.insert(digest, remote)),
                1 => format!("{:?}", filter.remove(digest, remote)),
                _ => format!("{:?}", filter.adapt(digest, remote)),
            });
            let first = outcomes.next().expect("the portable twin");
            assert!(outcomes.all(|outcome| outcome == first), "{text}: {digest:?}");
            if turn == 0 && first == "Ok(true)" {
                keys.push(digest);
            }
            let lines = |play: &(LineFilter, MemorySet)| play.0.table.lines.clone();
            let lines_of_first = lines(&plays[0]);
            assert!(plays[1..].iter().all(|play| lines(play) == lines_of_first), "{text}: lines");
        }
        for (filter, remote) in &mut plays {
            filter.check(remote).unwrap_or_else(|broken| panic!("{text}: {broken}"));
            assert!(keys.iter().all(|&key| filter.contains(key)), "{text}: a false negative");
        }
        let stats = plays[0].0.stats();
        assert!(cfg!(miri) || (stats.spent > 2 && stats.kicks > 10), "{text}: {stats:?}");
    }
}
