//! What false positives do, how often there are any, and which come back.
//!
//! Bounds come from the stated distributions, and were written before any number was seen. Each
//! test fails with a probability below 10^-6 if the filter is as designed.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::filter::Adapted;
use crate::line::drift::selected;
use crate::line::fingerprint::Epoch;
use crate::line::lanes::Portable;
use crate::params::Kind as _;

/// False positives to find, which takes 128 times as long with 16 bits as with 9.
fn fewer(text: &str, count: usize) -> usize {
    if text == "line:f=16" { count / 10 } else { count }
}

fn selector(table: &Table, digest: Digest) -> u32 {
    let bucket = table.find(digest);
    table.selector(bucket, table.lines[bucket.line].run(Portable, bucket.index, &table.shape))
}

/// Slots of a key's bucket.
fn slots(play: &Filled, key: Digest) -> u32 {
    let table = &play.filter.table;
    let bucket = table.find(key);
    table.lines[bucket.line].run(Portable, bucket.index, &table.shape).count_ones()
}

fn epoch(table: &Table, digest: Digest) -> Epoch {
    table.lines[table.find(digest).line].epoch()
}

/// One false positive in the bucket of each of these keys, and the filter adapted to it.
fn adapted(play: &mut Filled, keys: &[Digest], rng: &mut Rng) -> Vec<Digest> {
    let mut fixed = Vec::new();
    for &key in keys {
        let Some(query) = false_positive(&play.filter, key, rng) else { continue };
        let before = play.filter.stats().adaptations;
        let outcome = play.filter.adapt(query, &mut play.remote).expect("in memory");
        assert_eq!(outcome, Adapted::Fixed);
        assert_eq!(play.filter.stats().adaptations, before + 1);
        assert!(!play.filter.contains(query), "a query that is fixed");
        fixed.push(query);
    }
    fixed
}

/// Binomial: each absent digest is a false positive with the probability of the formula, which
/// the keys of one filter change by less than 0.1 %. The bound is 5.5 standard deviations of
/// means from 380 to 4,100.
#[test]
fn the_first_pass_rate_is_that_of_the_formula() {
    let mut rng = Rng::new(1);
    let samples = [2_000_000, 4_000_000, 6_000_000, 10_000_000, 40_000_000];
    for (text, samples) in FILTERS.into_iter().zip(samples) {
        let mut keys = random_digests(20_000, &mut rng);
        keys.sort_unstable();
        let params = text.parse().expect("parameters");
        let filter = LineFilter::from_sorted(&params, 20_000, keys).expect("room");
        let load = filter.stats().load();
        let rate = params.shape().first_pass_rate(load);
        let (mut count, mut batch) = (0, vec![Digest::default(); 2000]);
        let mut found = vec![false; 2000];
        for _ in 0..samples / 2000 {
            batch.fill_with(|| Digest::new([rng.next(), rng.next()]));
            filter.contains_many(&batch, &mut found);
            count += found.iter().filter(|&&found| found).count();
        }
        let mean = f64::from(samples) * rate;
        let off = (count as f64 - mean) / libm::sqrt(mean * (1.0 - rate));
        assert!(off.abs() < 5.5, "{text}: {count} where {mean:.0} are expected, {off:.1} sigma");
    }
}

/// As long as a line is not redrawn and a bucket gets no key, what it was adapted to stays fixed:
/// all of it, also when the bucket moves to another line.
#[test]
fn a_fixed_query_stays_fixed_when_other_buckets_get_keys() {
    let mut rng = Rng::new(2);
    for text in FILTERS {
        let mut play = filled(text, 3000, 2400, &mut rng);
        let some: Vec<Digest> = play.keys[..fewer(text, 300)].to_vec();
        let fixed = adapted(&mut play, &some, &mut rng);
        let kicks = play.filter.stats().kicks;
        let mut buckets: Vec<usize> =
            fixed.iter().map(|&query| bucket_of(&play.filter.table, query)).collect();
        buckets.sort_unstable();
        while play.keys.len() < 3000 {
            let key = random_digests(1, &mut rng)[0];
            if buckets.binary_search(&bucket_of(&play.filter.table, key)).is_err() {
                assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
                play.keys.push(key);
            }
        }
        assert!(play.filter.stats().kicks > kicks + 100, "{text}: nothing moved");
        let table = &play.filter.table;
        let (kept, redrawn): (Vec<Digest>, Vec<Digest>) =
            fixed.iter().partition(|&&query| epoch(table, query) == Epoch::FIRST);
        assert!(kept.len() > 4 * redrawn.len(), "{text}: {} lines were redrawn", redrawn.len());
        let back = kept.iter().filter(|&&query| play.filter.contains(query)).count();
        assert_eq!(back, 0, "{text}: of {}", kept.len());
        play.check(text);
    }
}

/// One full line, redrawn again and again. Every false positive is fixed: eight epochs in a row
/// that do not tell a query from the two keys of a bucket have probability 10^-19.
#[test]
fn a_line_that_is_redrawn_often_keeps_every_key() {
    let mut rng = Rng::new(3);
    for text in FILTERS {
        let slots = filter(text, 1).table.shape.slots;
        let mut play = filled(text, slots, slots, &mut rng);
        let mut epochs = vec![Epoch::FIRST];
        for _ in 0..fewer(text, 1500) {
            let key = play.keys[rng.below(slots as u64) as usize];
            adapted(&mut play, &[key], &mut rng);
            play.check(text);
            epochs.push(epoch(&play.filter.table, key));
        }
        epochs.sort_unstable();
        epochs.dedup();
        let (epochs, spent) = (epochs.len() as u64, play.filter.stats().spent);
        assert!(epochs > 5 && spent >= epochs - 1, "{text}: {epochs} epochs, {spent} spent");
    }
}

/// Slots whose keys the remote does not have any more go when they cause a false positive, be it
/// one by one, by a new selector for what is left of a run, or by a line that is redrawn.
#[test]
fn slots_without_a_key_are_dropped() {
    let mut rng = Rng::new(4);
    for text in FILTERS {
        let mut play = filled(text, 500, 500, &mut rng);
        let some: Vec<Digest> = play.keys[100..100 + fewer(text, 200)].to_vec();
        adapted(&mut play, &some, &mut rng);
        let orphans: Vec<Digest> = play.keys.drain(..200).collect();
        for &key in &orphans {
            assert!(play.remote.remove(key).expect("in memory"));
        }
        assert_eq!(play.filter.stats().len, 500, "{text}");
        for key in orphans {
            let before = play.filter.contains(key);
            let outcome = play.filter.adapt(key, &mut play.remote).expect("in memory");
            let wanted = if before { Adapted::Fixed } else { Adapted::Absent };
            assert_eq!(outcome, wanted, "{text}");
            assert!(!play.filter.contains(key), "{text}");
            play.filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
            assert!(play.keys.iter().all(|&key| play.filter.contains(key)), "{text}");
        }
        LineFilter::load(&play.filter.save()).expect("its own bytes");
        play.filter.rebuild(&mut play.remote).expect("room");
        play.check(text);
    }
}

/// Two keys in a bucket, and a selector of two bits. Without one of the keys, the other gets a copy
/// and the selector stays: nothing comes back.
#[test]
fn a_removal_leaves_the_selector_as_it_is() {
    let mut rng = Rng::new(5);
    for text in FILTERS {
        let mut trials = 0;
        while trials < fewer(text, 200) {
            let mut play = filled(text, 20, 15, &mut rng);
            let twins = [(); 2].map(|()| digest_in(&play.filter.table, 17, &mut rng));
            for key in twins {
                assert!(play.filter.insert(key, &mut play.remote).expect("room"));
                play.keys.push(key);
            }
            let mut queries = Vec::new();
            while selector(&play.filter.table, twins[0]) < 2 && play.filter.stats().spent == 0 {
                queries.extend(adapted(&mut play, &twins[..1], &mut rng));
            }
            let (before, len) = (selector(&play.filter.table, twins[0]), slots(&play, twins[0]));
            if play.filter.stats().spent > 0 || len != 2 {
                continue;
            }
            trials += 1;
            let is_back = |play: &Filled| {
                queries.iter().filter(|&&query| play.filter.contains(query)).count()
            };
            let back = is_back(&play);
            play.keys.retain(|&key| key != twins[1]);
            assert!(play.filter.remove(twins[1], &mut play.remote).expect("in memory"));
            assert_eq!(selector(&play.filter.table, twins[0]), before, "{text}");
            assert_eq!(slots(&play, twins[0]), 2, "{text}: a key and its copy");
            assert!(!play.filter.contains(twins[1]), "{text}: the key that is gone");
            assert!(is_back(&play) <= back, "{text}");
            play.check(text);
        }
    }
}

/// A key alone in its bucket, in a line with room, tells as many false positives apart as there
/// are selectors, before its line is redrawn: each selector that is skipped takes one of them,
/// which happens with probability 2^-8 at most.
#[test]
fn copies_give_a_key_all_selectors() {
    let mut rng = Rng::new(9);
    for text in FILTERS {
        let selectors = filter(text, 1).table.shape.selectors() as usize;
        let (mut fixed, trials) = (0, fewer(text, 200));
        for _ in 0..trials {
            let mut play = filled(text, 20, 0, &mut rng);
            let key = random_digests(1, &mut rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("room"));
            play.keys.push(key);
            let mut queries = Vec::new();
            while play.filter.stats().spent == 0 {
                assert!(slots(&play, key) <= 3, "{text}: seven selectors have three bits");
                queries.extend(adapted(&mut play, &[key], &mut rng));
                play.check(text);
            }
            assert_eq!(slots(&play, key), 1, "{text}: a redrawn line has no copies");
            fixed += queries.len();
        }
        // The last of them redrew the line. Skipped ones are Poisson.
        let most = trials * selectors;
        let skipped = poisson_bound(most as f64 / 256.0);
        assert!((most - skipped..=most).contains(&fixed), "{text}: {fixed} of {most}");
    }
}

/// Copies never keep a key out: a table full of them takes as many keys as one without.
#[test]
fn copies_make_room_for_keys() {
    let mut rng = Rng::new(10);
    for text in FILTERS {
        let mut play = filled(text, 400, 350, &mut rng);
        let mut copies = 0;
        while play.keys.len() < 400 {
            for _ in 0..fewer(text, 100) {
                let key = play.keys[rng.below(play.keys.len() as u64) as usize];
                adapted(&mut play, &[key], &mut rng);
            }
            let table = &play.filter.table;
            let used = table.lines.iter().map(|line| line.used(&table.shape)).sum::<usize>();
            copies = copies.max(used - play.keys.len());
            let key = random_digests(1, &mut rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
            play.check(text);
        }
        assert!(copies > 0, "{text}: there were no copies");
    }
}

/// Around a key that needs room, the lines that have copies lose them: 32 on either side. No other
/// line changes, also none that has adapted and has no copies.
#[test]
fn lines_around_a_full_one_lose_their_copies() {
    let mut rng = Rng::new(14);
    for text in FILTERS {
        let mut play = filled(text, 4000, 2000, &mut rng);
        let lines = play.filter.table.lines.len();
        let lines_of = |play: &Filled| -> Vec<usize> {
            play.keys.iter().map(|&key| play.filter.table.find(key).line).collect()
        };
        let of_keys = lines_of(&play);
        // A key that has adapted in each line, with a copy in four of five.
        for line in 0..lines {
            let is_alone = |&at: &usize| of_keys[at] == line && slots(&play, play.keys[at]) == 1;
            let at = (0..play.keys.len()).find(is_alone).expect("a key alone in its bucket");
            let key = play.keys[at];
            let least = if line % 5 == 1 { 1 } else { 2 };
            while selector(&play.filter.table, key) == 0 || slots(&play, key) < least {
                adapted(&mut play, &[key], &mut rng);
            }
        }
        assert_eq!(play.filter.stats().spent, 0, "{text}: no line was redrawn");
        assert!(lines_of(&play) == of_keys, "{text}: no bucket has moved");
        let own = lines / 2;
        let own = (own..).find(|line| line % 5 == 0).expect("one line in five");
        let key = play.keys[of_keys.iter().position(|&line| line == own).expect("a key")];
        let before = play.filter.table.lines.clone();
        let shape = play.filter.table.shape;
        for turn in 0..2 {
            let dropped = play.filter.table.drop_copies(key, &mut play.remote).expect("in memory");
            assert_eq!(dropped, turn == 0, "{text}");
            for (at, (line, before)) in play.filter.table.lines.iter().zip(&before).enumerate() {
                let keys = of_keys.iter().filter(|&&line| line == at).count();
                if at % 5 != 1 && at.abs_diff(own) <= 32 {
                    assert!(before.used(&shape) > keys, "{text}: line {at} had a copy");
                    assert_eq!(line.used(&shape), keys, "{text}: line {at}");
                } else {
                    assert!(line == before, "{text}: line {at}");
                }
            }
        }
        play.check(text);
    }
}

/// A key that was alone in its bucket returns to the selector that it had: of what it was adapted
/// to, nothing comes back. (Three are out at a time, and 16 at least are remembered.)
#[test]
fn a_key_that_returns_brings_no_false_positive_back() {
    let mut rng = Rng::new(6);
    for text in FILTERS {
        let mut play = filled(text, 2000, 1800, &mut rng);
        let table = &play.filter.table;
        let mut buckets: Vec<usize> = play.keys.iter().map(|&key| bucket_of(table, key)).collect();
        buckets.sort_unstable();
        let is_alone = |key: &Digest| {
            let bucket = bucket_of(table, *key);
            buckets.partition_point(|&other| other <= bucket)
                - buckets.partition_point(|&other| other < bucket)
                == 1
        };
        let alone: Vec<Digest> = play.keys.iter().copied().filter(is_alone).collect();
        let alone = alone[..fewer(text, 300)].to_vec();
        let fixed = adapted(&mut play, &alone, &mut rng);
        for some in alone.chunks(3) {
            for &key in some {
                assert!(play.filter.remove(key, &mut play.remote).expect("in memory"), "{text}");
            }
            for &key in some {
                assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            }
        }
        play.check(text);
        let table = &play.filter.table;
        let kept = fixed.iter().filter(|&&query| epoch(table, query) == Epoch::FIRST);
        let kept: Vec<Digest> = kept.copied().collect();
        assert!(kept.len() * 10 > alone.len() * 8, "{text}: {} lines are not redrawn", kept.len());
        let back = kept.iter().filter(|&&query| play.filter.contains(query)).count();
        assert_eq!(back, 0, "{text}: of {}", kept.len());
    }
}

/// In a full filter, where keys have copies, known false positives are no more likely to come back
/// than others are to be found: with at most 0.4 %, the rate where all groups have adapted. Of
/// `asked` known ones, at most `m = asked / 250` on average (Poisson); `m + 7 sqrt(m)` have a
/// probability below 10^-8 for the 5,000 or more that there are.
#[test]
fn keys_that_return_to_a_full_filter_bring_back_what_chance_does() {
    let mut rng = Rng::new(12);
    let mut play = filled("line", 20_000, 20_000, &mut rng);
    let (mut known, mut asked, mut back) = (Vec::new(), 0, 0);
    for _ in 0..5 {
        for query in random_digests(200_000, &mut rng) {
            if play.filter.contains(query) {
                play.filter.adapt(query, &mut play.remote).expect("in memory");
                known.push(query);
            }
        }
        for &key in &play.keys {
            assert!(play.filter.remove(key, &mut play.remote).expect("in memory"));
            assert!(play.filter.insert(key, &mut play.remote).expect("room"));
        }
        for &query in &known {
            asked += 1;
            if play.filter.contains(query) {
                back += 1;
                play.filter.adapt(query, &mut play.remote).expect("in memory");
            }
        }
    }
    play.check("returned");
    let mean = f64::from(asked) / 250.0;
    assert!(asked >= 5000 && f64::from(back) < mean + 7.0 * mean.sqrt(), "{back} of {asked}");
}

/// Removals and insertions of any stored keys, at full load and between lines of many epochs, in
/// a filter that keeps adapting: nothing is denied.
#[test]
fn nothing_is_denied_in_a_filter_that_adapts_all_the_time() {
    let mut rng = Rng::new(7);
    for text in FILTERS {
        let mut play = filled(text, 250, 250, &mut rng);
        for round in 0..fewer(text, 1500) {
            let at = rng.below(play.keys.len() as u64) as usize;
            let key = play.keys[at];
            adapted(&mut play, &[key], &mut rng);
            if round % 2 == 0 {
                assert!(play.filter.remove(key, &mut play.remote).expect("in memory"), "{text}");
                play.keys.swap_remove(at);
                play.filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
                // The same key, or one beside it.
                let new =
                    digest_in(&play.filter.table, bucket_of(&play.filter.table, key), &mut rng);
                let key = if round % 4 == 0 { key } else { new };
                if let Ok(true) = play.filter.insert(key, &mut play.remote) {
                    play.keys.push(key);
                }
            }
            play.check(text);
        }
        assert!(play.filter.stats().spent > 0, "{text}: {:?}", play.filter.stats());
    }
}

/// A file with a selector that no filter writes is refused: queries count on small ones.
#[test]
fn a_selector_that_there_is_not_is_found() {
    let mut rng = Rng::new(8);
    for text in FILTERS {
        let mut filter = filter(text, 20);
        let shape = filter.table.shape;
        let keys: Vec<Digest> = (0..20).map(|_| digest_in(&filter.table, 3, &mut rng)).collect();
        assert!(keys.iter().all(|&key| filter.add(key)), "{text}");
        let line = &mut filter.table.lines[0];
        let run = line.run(Portable, 3, &shape);
        line.adapt_group(3, 0, &shape);
        for selector in [shape.selectors() - 1, shape.selectors(), (1 << 20) - 1] {
            let mut slots = selected(&keys, Epoch::FIRST, shape.selectors() - 1, &shape);
            slots.planes[0] = selector.into();
            filter.table.lines[0].overwrite(run, &slots, &shape);
            filter.table.count_adapted();
            let loaded = LineFilter::load(&filter.save());
            assert_eq!(loaded.is_ok(), selector < shape.selectors(), "{text}: {selector}");
        }
    }
}

/// A full line has handed its last bucket to the next. When a key goes, that bucket comes home,
/// unless the key's run had copies: they need the room when it returns.
#[test]
fn a_bucket_comes_home_when_an_adapted_key_goes() {
    let mut rng = Rng::new(13);
    let mut trials = 0;
    for (text, copies) in FILTERS.into_iter().flat_map(|text| [(text, false), (text, true)]) {
        let mut play = filled(text, 200, 0, &mut rng);
        let shape = play.filter.table.shape;
        let insert = |play: &mut Filled, bucket, rng: &mut Rng| {
            let key = digest_in(&play.filter.table, bucket, rng);
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
        };
        // One key in the last bucket of the first line, and the others before it.
        for number in 0..shape.slots - usize::from(copies) {
            let bucket = shape.buckets - 1 - number % shape.buckets;
            insert(&mut play, bucket, &mut rng);
        }
        let key = play.keys[20];
        while selector(&play.filter.table, key) < 1 + u32::from(copies) {
            adapted(&mut play, &[key], &mut rng);
        }
        if play.filter.stats().spent > 0 {
            continue;
        }
        trials += 1;
        assert_eq!(slots(&play, key), 1 + u32::from(copies), "{text}");
        assert_eq!(play.filter.table.lines[0].used(&shape), shape.slots, "{text}");
        insert(&mut play, shape.buckets / 2, &mut rng);
        assert!(play.filter.table.lines[1].drift() > 0, "{text}: its last bucket has moved");
        assert!(play.filter.remove(key, &mut play.remote).expect("in memory"), "{text}");
        play.keys.retain(|&other| other != key);
        assert_eq!(play.filter.table.lines[1].drift() > 0, copies, "{text}");
        play.check(text);
    }
    assert!(trials >= 8, "{trials} trials, the others redrew a line");
}
