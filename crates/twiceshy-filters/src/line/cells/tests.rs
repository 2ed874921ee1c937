//! The packed line against a slow, obvious one: every bit, after every operation.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::digest::Digest;
use crate::line::fingerprint::Hash;
use crate::line::lanes::Portable;
use crate::line::tests::shapes;
use crate::rng::Rng;

/// The number of operations of a long history, in all shapes together.
const LONG: usize = if cfg!(miri) { 500 } else { 60_000 };

/// The slots of a bucket: a remainder each, and a bit each in every plane. In a group that has
/// adapted, those of the first plane are the bits of the selector, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    remainders: Vec<u8>,
    planes: Vec<Vec<bool>>,
}

impl Bucket {
    fn empty(shape: &Shape) -> Self {
        Bucket { remainders: Vec::new(), planes: vec![Vec::new(); shape.planes] }
    }

    fn len(&self) -> usize {
        self.remainders.len()
    }

    fn random(len: usize, shape: &Shape, rng: &mut Rng) -> Self {
        let mut bucket = Self::empty(shape);
        (0..len).for_each(|_| bucket.insert_at(0, false, fingerprint(rng, shape)));
        bucket
    }

    fn insert_at(&mut self, at: usize, adapted: bool, fingerprint: Fingerprint) {
        self.remainders.insert(at, fingerprint.remainder());
        for (plane, bits) in self.planes.iter_mut().enumerate() {
            if adapted && plane == 0 {
                bits.push(false);
            } else {
                bits.insert(at, fingerprint.plane(plane) & 1 == 1);
            }
        }
    }

    fn remove(&mut self, adapted: bool, slot: usize) {
        self.remainders.remove(slot);
        for (plane, bits) in self.planes.iter_mut().enumerate() {
            bits.remove(if adapted && plane == 0 { bits.len() - 1 } else { slot });
        }
    }

    fn run(&self) -> Run {
        let mut run = Run { len: self.len(), ..Run::EMPTY };
        run.remainders[..self.len()].copy_from_slice(&self.remainders);
        for (bits, plane) in run.planes.iter_mut().zip(&self.planes) {
            *bits = number(plane);
        }
        run
    }
}

/// The number with these bits, the lowest first.
fn number(bits: &[bool]) -> u64 {
    bits.iter().rev().fold(0, |number, &bit| 2 * number + u64::from(bit))
}

fn fingerprint(rng: &mut Rng, shape: &Shape) -> Fingerprint {
    Hash::of(Digest::new([0, rng.next()]), Epoch::FIRST).select(0, shape)
}

/// A line as one would draw it.
#[derive(Clone, Debug)]
struct Slow {
    shape: Shape,
    buckets: Vec<Bucket>,
    /// The number of the first bucket in the filter, which decides about its group.
    first: usize,
    states: [bool; GROUPS],
    drift: i32,
    epoch: Epoch,
}

impl Slow {
    fn random(lengths: &[usize], shape: &Shape, rng: &mut Rng) -> Self {
        Slow {
            shape: *shape,
            buckets: lengths.iter().map(|&len| Bucket::random(len, shape, rng)).collect(),
            first: 1000 + rng.below(8) as usize,
            states: core::array::from_fn(|_| rng.below(3) == 0),
            drift: rng.below(201) as i32 - 100,
            epoch: Epoch::of(rng.next() as u8),
        }
    }

    fn used(&self) -> usize {
        self.buckets.iter().map(Bucket::len).sum()
    }

    fn start(&self, index: usize) -> usize {
        self.buckets[..index].iter().map(Bucket::len).sum()
    }

    fn is_adapted(&self, index: usize) -> bool {
        self.states[(self.first + index) % GROUPS]
    }

    /// Bit by bit, as `shape.rs` draws it.
    fn packed(&self) -> Line {
        let (shape, mut bytes) = (&self.shape, [0u8; 64]);
        let mut set = |bit: usize, to: bool| bytes[bit / 8] |= u8::from(to) << (bit % 8);
        let mut slot = 0;
        set(8 * shape.slots, true);
        for bucket in &self.buckets {
            for of_bucket in 0..bucket.len() {
                for bit in 0..8 {
                    set(8 * slot + bit, bucket.remainders[of_bucket] >> bit & 1 == 1);
                }
                set(8 * shape.slots + 1 + slot, of_bucket + 1 == bucket.len());
                for (plane, bits) in bucket.planes.iter().enumerate() {
                    set((9 + plane) * shape.slots + 1 + slot, bits[of_bucket]);
                }
                slot += 1;
            }
        }
        for bit in 0..8 {
            set(440 + bit, self.epoch.byte() >> bit & 1 == 1);
            set(448 + bit, self.drift as i8 >> bit & 1 == 1);
            set(456 + bit, self.states[bit]);
        }
        for (index, bucket) in self.buckets.iter().enumerate() {
            set(464 + index, bucket.len() > 0);
        }
        set(464 + self.buckets.len(), true);
        Line::from_file(bytes, &self.shape)
    }

    /// All that can be asked of the packed line.
    fn compare(&self, line: &Line, what: &str) {
        let shape = &self.shape;
        assert!(*line == self.packed(), "{what}: {self:?}");
        assert!(Line::from_file(line.to_file(shape), shape) == *line, "{what}: {self:?}");
        assert!(line.is_sound(shape), "{what}: {self:?}");
        assert_eq!(line.used(shape), self.used());
        assert_eq!(line.window(), self.buckets.len());
        assert_eq!((line.drift(), line.epoch()), (self.drift, self.epoch));
        let lengths: Vec<usize> = self.buckets.iter().map(Bucket::len).collect();
        assert!(line.lengths(shape).eq(lengths.iter().copied()), "{what}");
        assert!(line.lengths(shape).rev().eq(lengths.iter().rev().copied()), "{what}");
        for (index, &len) in lengths.iter().enumerate() {
            let run = line.run(Portable, index as u32, shape);
            assert_eq!(run, low_bits(len as u32) << self.start(index), "{what}: {index}");
        }
    }
}

/// Something that happens to a line.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(usize),
    Remove(usize, usize),
    TakeFirst,
    TakeLast,
    PutFirst(usize),
    PutLast(usize),
    Overwrite(usize),
    Resize(usize, usize),
    Adapt(usize),
}

/// All that can happen to a line, where a bucket that comes has up to three slots.
fn possible(slow: &Slow) -> Vec<Change> {
    let window = slow.buckets.len();
    let room = slow.shape.slots - slow.used();
    let mut all: Vec<Change> = (0..GROUPS).map(Change::Adapt).collect();
    for (index, bucket) in slow.buckets.iter().enumerate() {
        if room > 0 {
            all.push(Change::Insert(index));
        }
        all.extend((0..bucket.len()).map(|slot| Change::Remove(index, slot)));
        if bucket.len() > 0 {
            all.push(Change::Overwrite(index));
        }
        if slow.is_adapted(index) {
            let most = bucket.len() + room.min(3);
            all.extend((0..=most).map(|len| Change::Resize(index, len)));
        }
    }
    if window > 0 && slow.drift > -100 {
        all.push(Change::TakeFirst);
    }
    if window > 0 {
        all.push(Change::TakeLast);
    }
    if window < MOST_BUCKETS && slow.drift < 100 {
        all.extend((0..=room.min(3)).map(Change::PutFirst));
    }
    if window < MOST_BUCKETS {
        all.extend((0..=room.min(3)).map(Change::PutLast));
    }
    all
}

/// Lets it happen to both.
fn apply(change: Change, slow: &mut Slow, line: &mut Line, rng: &mut Rng) {
    let shape = slow.shape;
    let run_at = |line: &Line, index: usize| line.run(Portable, index as u32, &shape);
    match change {
        Change::Insert(index) => {
            let new = fingerprint(rng, &shape);
            let (at, adapted) = (slow.start(index), slow.is_adapted(index));
            line.insert(index as u32, at, adapted, new, &shape);
            slow.buckets[index].insert_at(0, adapted, new);
        }
        Change::Remove(index, slot) => {
            let (at, adapted) = (slow.start(index) + slot, slow.is_adapted(index));
            let run = run_at(line, index);
            line.remove(index as u32, run, at, adapted, &shape);
            slow.buckets[index].remove(adapted, slot);
        }
        Change::TakeFirst | Change::TakeLast => {
            let (run, taken) = if matches!(change, Change::TakeFirst) {
                slow.first += 1;
                slow.drift -= 1;
                (line.take_first(&shape), slow.buckets.remove(0))
            } else {
                (line.take_last(&shape), slow.buckets.pop().expect("a bucket"))
            };
            let wanted = taken.run();
            assert_eq!(run.len, wanted.len, "{change:?}");
            assert_eq!(run.remainders[..run.len], wanted.remainders[..run.len], "{change:?}");
            assert_eq!(run.planes, wanted.planes, "{change:?}");
        }
        Change::PutFirst(len) => {
            let bucket = Bucket::random(len, &shape, rng);
            line.put_first(&bucket.run(), &shape);
            slow.first -= 1;
            slow.drift += 1;
            slow.buckets.insert(0, bucket);
        }
        Change::PutLast(len) => {
            let bucket = Bucket::random(len, &shape, rng);
            line.put_last(&bucket.run(), &shape);
            slow.buckets.push(bucket);
        }
        Change::Overwrite(index) => {
            let bucket = Bucket::random(slow.buckets[index].len(), &shape, rng);
            let run = run_at(line, index);
            line.overwrite(run, &bucket.run(), &shape);
            slow.buckets[index] = bucket;
        }
        Change::Resize(index, len) => {
            line.resize(index as u32, len, &shape);
            let bucket = &mut slow.buckets[index];
            while bucket.len() < len {
                bucket.insert_at(0, true, Fingerprint::NONE);
            }
            while bucket.len() > len {
                bucket.remove(true, 0);
            }
        }
        Change::Adapt(group) => {
            line.adapt_group(group, slow.first, &shape);
            if !slow.states[group] {
                slow.states[group] = true;
                for (bucket, number) in slow.buckets.iter_mut().zip(slow.first..) {
                    if number % GROUPS == group {
                        bucket.planes[0].fill(false);
                    }
                }
            }
        }
    }
}

/// Windows of up to three buckets with up to three slots each, once in front and once behind a
/// bucket that fills nearly all of the line: every change of each. A line has no memory, so any
/// history is made of such steps.
#[test]
fn every_change_of_every_small_window() {
    let mut rng = Rng::new(1);
    for shape in shapes() {
        let most = if cfg!(miri) { 1 } else { 3 };
        let mut small = vec![vec![]];
        for window in 1..=3 {
            let of_window = (0..(most + 1usize).pow(window)).map(|number| {
                (0..window).map(|at| number / (most + 1).pow(at) % (most + 1)).collect()
            });
            small.extend(of_window.collect::<Vec<Vec<usize>>>());
        }
        for lengths in small {
            let left: usize = shape.slots - lengths.iter().sum::<usize>();
            let beside = [0, left - 1, left].map(|len| vec![len]);
            let behind = beside.iter().map(|big| [&big[..], &lengths].concat());
            let before = beside.iter().map(|big| [&lengths, &big[..]].concat());
            for lengths in [lengths.clone()].into_iter().chain(behind).chain(before) {
                let slow = Slow::random(&lengths, &shape, &mut rng);
                let line = slow.packed();
                slow.compare(&line, "as it is");
                for change in possible(&slow) {
                    // A long run is removed from at its ends.
                    let inner = 2..slow.shape.slots.saturating_sub(12);
                    if matches!(change, Change::Remove(_, slot) if inner.contains(&slot)) {
                        continue;
                    }
                    let (mut slow, mut line) = (slow.clone(), line);
                    apply(change, &mut slow, &mut line, &mut rng);
                    slow.compare(&line, "after a change");
                }
            }
        }
    }
}

/// Most of the time the lines are full or nearly so, with windows of all lengths.
#[test]
fn long_histories_of_full_lines() {
    let mut rng = Rng::new(2);
    for shape in shapes() {
        let mut slow = Slow::random(&vec![0; shape.buckets], &shape, &mut rng);
        let mut line = slow.packed();
        let (mut was_full, mut was_long) = (0, 0);
        for _ in 0..LONG / 5 {
            let all = possible(&slow);
            let mut change = all[rng.below(all.len() as u64) as usize];
            // Insertions, as long as there is room, outweigh the many ways to remove.
            if rng.below(2) == 0 && slow.used() < shape.slots && !slow.buckets.is_empty() {
                change = Change::Insert(rng.below(slow.buckets.len() as u64) as usize);
            }
            apply(change, &mut slow, &mut line, &mut rng);
            slow.compare(&line, "in a history");
            was_full += usize::from(slow.used() == shape.slots);
            was_long += usize::from(slow.buckets.len() == MOST_BUCKETS);
            // Groups that have adapted would all stay so.
            if rng.below(50) == 0 {
                let lengths: Vec<usize> = slow.buckets.iter().map(Bucket::len).collect();
                slow = Slow::random(&lengths, &shape, &mut rng);
                line = slow.packed();
            }
        }
        assert!(cfg!(miri) || was_full > LONG / 100, "{was_full} full lines prove little");
        assert!(cfg!(miri) || was_long > 0, "the longest window never came");
    }
}

#[test]
fn a_line_is_written_bucket_by_bucket() {
    let mut rng = Rng::new(3);
    for shape in shapes() {
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let mut slow = Slow { states: [false; 8], ..random_line(&shape, &mut rng) };
            let mut writing = Writing::start(slow.buckets.len(), slow.drift, slow.epoch);
            for (index, bucket) in slow.buckets.iter_mut().enumerate() {
                let len = bucket.len();
                *bucket = Bucket::empty(&shape);
                for _ in 0..len {
                    let new = fingerprint(&mut rng, &shape);
                    writing.push(index, new, &shape);
                    bucket.insert_at(bucket.len(), false, new);
                }
            }
            assert_eq!(writing.used(), slow.used());
            let line = writing.finish(&shape);
            slow.compare(&line, "written");
            slow.buckets.iter_mut().for_each(|bucket| *bucket = Bucket::empty(&shape));
            slow.compare(&line.emptied(slow.epoch, &shape), "emptied");
        }
    }
}

/// A window of any length with any number of slots.
fn random_line(shape: &Shape, rng: &mut Rng) -> Slow {
    let mut lengths = vec![0; rng.below(MOST_BUCKETS as u64 + 1) as usize];
    for _ in 0..if lengths.is_empty() { 0 } else { rng.below(shape.slots as u64 + 1) } {
        let index = rng.below(lengths.len() as u64) as usize;
        lengths[index] += 1;
    }
    Slow::random(&lengths, shape, rng)
}

/// A flipped bit goes unnoticed only where any bit is as good as any other: in slots that are
/// used, in the epoch, in the states, and in the drift, which the neighbours' windows decide about.
#[test]
fn every_flipped_bit_that_a_line_alone_can_know_is_found() {
    let mut rng = Rng::new(4);
    for shape in shapes() {
        for _ in 0..if cfg!(miri) { 1 } else { 100 } {
            let slow = random_line(&shape, &mut rng);
            let (line, used) = (slow.packed(), slow.used());
            for bit in 0..512 {
                let in_plane = |plane: usize| {
                    let start = (9 + plane) * shape.slots + 1;
                    (start..start + used).contains(&bit)
                };
                let is_free =
                    bit < 8 * used || (0..shape.planes).any(in_plane) || (441..464).contains(&bit);
                let mut flipped = line;
                flipped.0[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(flipped.is_sound(&shape), is_free, "bit {bit} of {slow:?}");
            }
        }
    }
}
