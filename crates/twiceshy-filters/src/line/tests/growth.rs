//! Filters that grow: all at once, and key by key.

use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::filter::Adapted;
use crate::line::cells::Line;
use crate::line::fingerprint::Epoch;
use crate::line::growing::{Growing, Retired};
use crate::line::table::LAST;

/// A filter that has just begun to grow, with queries that it was adapted to.
fn about_to_grow(text: &str, capacity: usize, rng: &mut Rng) -> (Filled, Vec<Digest>) {
    let mut play = filled(&format!("{text},full=grow"), capacity, capacity - 1, rng);
    let mut fixed = Vec::new();
    for key in play.keys.clone().into_iter().step_by(if text == "line:f=16" { 40 } else { 4 }) {
        let Some(query) = false_positive(&play.filter, key, rng) else { continue };
        let outcome = play.filter.adapt(query, &mut play.remote).expect("in memory");
        assert_eq!(outcome, Adapted::Fixed, "{text}");
        fixed.push(query);
    }
    fixed.retain(|&query| !play.filter.contains(query));
    (play, fixed)
}

/// A grown filter has other hash functions. A query that was fixed is beside a key or two, so it is
/// positive again with a probability of at most (1 + keys per bucket) / 2^f on average: Poisson.
fn assert_few_are_back(filter: &LineFilter, fixed: &[Digest], what: &str) {
    let shape = filter.table.shape;
    let keys = 1.0 + shape.slots as f64 / shape.buckets as f64;
    let rate = keys * libm::exp2(-f64::from(shape.fingerprint_bits()));
    let bound = poisson_bound(fixed.len() as f64 * rate);
    let back = fixed.iter().filter(|&&query| filter.contains(query)).count();
    assert!(back <= bound, "{what}: {back} of {} are back, {bound} may be", fixed.len());
}

#[test]
fn what_was_fixed_is_as_good_as_any_query_after_growth_and_rebuilding() {
    let mut rng = Rng::new(1);
    for text in FILTERS {
        let (mut play, fixed) = about_to_grow(text, 3000, &mut rng);
        play.filter.rebuild(&mut play.remote).expect("room");
        play.check(text);
        assert_few_are_back(&play.filter, &fixed, text);
        for capacity in [3001, 4500, 100_000] {
            play.filter.grow(capacity, &mut play.remote).expect("room");
            play.check(text);
            assert_few_are_back(&play.filter, &fixed, text);
        }
        // Not enough room, and nothing changes.
        let before = play.filter.save();
        let refused = play.filter.grow(1000, &mut play.remote);
        assert!(matches!(refused, Err(Error::Spec { .. })), "{text}: {refused:?}");
        assert_eq!(play.filter.save(), before, "{text}");
    }
}

/// While a frontier moves, every insertion leaves a sound filter that answers alike one by one and
/// in batches, and that can be saved and read. Behind the frontier all that was fixed stays so.
#[test]
fn a_frontier_leaves_a_sound_filter_wherever_it_stops() {
    let mut rng = Rng::new(2);
    for text in FILTERS {
        let (mut play, fixed) = about_to_grow(text, 2000, &mut rng);
        let mut steps = 0;
        while play.filter.capacity == 2000 {
            let key = random_digests(1, &mut rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("it grows"), "{text}");
            play.keys.push(key);
            steps += usize::from(play.filter.growing.is_some());
            play.check(text);
            let mut found = vec![false; play.keys.len()];
            play.filter.contains_many(&play.keys, &mut found);
            assert!(found.iter().all(|&found| found), "{text}: a false negative in a batch");
            if let Some(growing) = &play.filter.growing {
                let is_back = |query: &&Digest| {
                    let bucket = bucket_of(&play.filter.table, **query);
                    **query >= growing.frontier
                        && play.filter.contains(**query)
                        && bucket_of(&play.filter.table, key) != bucket
                };
                assert!(fixed.iter().filter(is_back).count() < 3, "{text}: they were fixed");
            }
            let loaded = LineFilter::load(&play.filter.save()).expect("its own bytes");
            assert_eq!(loaded.save(), play.filter.save(), "{text}");
            for query in play.keys.iter().chain(&fixed) {
                assert_eq!(loaded.contains(*query), play.filter.contains(*query), "{text}");
            }
        }
        assert!(steps > 10, "{text}: {steps} steps");
        assert_few_are_back(&play.filter, &fixed, text);
        // Where it was read while it grew, it goes on growing.
        assert!(play.filter.growing.is_none() && play.filter.stats().capacity > 2000, "{text}");
    }
}

/// A remote that fails at the frontier holds it where it is. Keys pile up before it and behind
/// it, adapt and go, and no read asks for digests on the other side.
#[test]
fn keys_pile_up_on_both_sides_of_a_frontier_that_stands_still() {
    let mut rng = Rng::new(3);
    for text in FILTERS {
        let (mut play, _) = about_to_grow(text, 1000, &mut rng);
        for _ in 0..8 {
            let key = random_digests(1, &mut rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("it grows"), "{text}");
            play.keys.push(key);
        }
        let frontier = play.filter.growing.as_ref().expect("it grows").frontier;
        play.remote.fails_at = Some(frontier);
        // The last digest before it, and the first behind it.
        let edges = [frontier.number() - 1, frontier.number()].map(Digest::from_number);
        for key in edges {
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
        }
        let mut piled = Vec::new();
        for step in 0..400 {
            // Within a few buckets of the frontier.
            let off = rng.next() >> 54 << 47;
            let first = frontier.word(0);
            let word = if step % 3 == 0 { first + off } else { first - 1 - off };
            let key = Digest::new([word, rng.next()]);
            match play.filter.insert(key, &mut play.remote) {
                Ok(new) => {
                    assert!(new, "{text}");
                    piled.push(key);
                    play.keys.push(key);
                }
                Err(Error::Full { .. }) => {}
                Err(error) => assert_unplugged(&error),
            }
            if play.filter.growing.is_none() {
                break;
            }
            if step % (if text == "line:f=16" { 40 } else { 2 }) == 0 && !piled.is_empty() {
                let near = piled[rng.below(piled.len() as u64) as usize];
                if let Some(query) = false_positive(&play.filter, near, &mut rng) {
                    // A read that starts at the frontier fails.
                    if let Err(error) = play.filter.adapt(query, &mut play.remote) {
                        assert_unplugged(&error);
                    }
                }
            }
            if step % 5 == 4 && !piled.is_empty() {
                let gone = piled.swap_remove(rng.below(piled.len() as u64) as usize);
                match play.filter.remove(gone, &mut play.remote) {
                    Ok(removed) => {
                        assert!(removed, "{text}");
                        play.keys.retain(|&key| key != gone);
                    }
                    Err(error) => assert_unplugged(&error),
                }
            }
            play.check(text);
            LineFilter::load(&play.filter.save()).expect("its own bytes");
        }
        play.remote.fails_at = None;
        for key in random_digests(100, &mut rng) {
            assert!(play.filter.insert(key, &mut play.remote).expect("it grows"), "{text}");
            play.keys.push(key);
            play.check(text);
        }
        assert!(play.filter.growing.is_none(), "{text}: the frontier moves on");
    }
}

/// A table of more lines than are made ahead of the frontier.
#[test]
fn lines_are_made_before_the_frontier_comes() {
    let mut rng = Rng::new(8);
    for text in FILTERS {
        let mut play = filled(&format!("{text},full=grow"), 12_000, 12_000, &mut rng);
        let smaller = play.filter.table.lines.len();
        let (mut steps, mut lines) = (0, Vec::new());
        while let Some(growing) = &play.filter.growing {
            lines.push(growing.table.lines.len());
            let key = random_digests(1, &mut rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("it grows"), "{text}");
            play.keys.push(key);
            if steps % 20 == 0 {
                play.check(text);
            }
            steps += 1;
        }
        play.check(text);
        let (first, last) = (lines[0], play.filter.table.count);
        assert!(first < last, "{text}: {first} of {last} lines at first");
        // Two lines with each insertion, and the first two with the last of the keys.
        assert_eq!(steps, smaller.div_ceil(2) - 1, "{text}");
    }
}

/// The remote takes a key and fails where the first line is to move: growth has begun, and no key
/// has moved.
#[test]
fn a_filter_that_could_only_begin_to_grow_is_saved_and_read() {
    let mut rng = Rng::new(4);
    for text in FILTERS {
        let (mut play, _) = about_to_grow(text, 300, &mut rng);
        play.remote.fuse = 2;
        let insert = |play: &mut Filled, rng: &mut Rng| {
            let key = random_digests(1, rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
        };
        insert(&mut play, &mut rng);
        assert!(play.filter.growing.is_some() && play.filter.table.first == 0, "{text}");
        play.check(text);
        let saved = play.filter.save();
        play.filter = LineFilter::load(&saved).expect("its own bytes");
        assert_eq!(play.filter.save(), saved, "{text}");
        while play.filter.growing.is_some() {
            insert(&mut play, &mut rng);
            play.check(text);
        }
        assert_eq!(play.filter.table.first, 0, "{text}: the larger table is all there is");
    }
}

/// A line at the frontier whose buckets have all come home to its right neighbour.
#[test]
fn a_frontier_may_be_at_a_line_without_a_bucket() {
    let mut rng = Rng::new(5);
    for text in FILTERS {
        let mut play = filled(&format!("{text},full=grow"), 1000, 0, &mut rng);
        let (shape, count) = (play.filter.table.shape, play.filter.table.count);
        // No two of these fit one line, so the last lines have one each.
        let all = count * shape.buckets;
        for bucket in all - 23..all - 20 {
            for _ in 0..shape.slots - 2 {
                let key = digest_in(&play.filter.table, bucket, &mut rng);
                assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
                play.keys.push(key);
            }
        }
        assert_eq!(play.filter.table.buckets(count - 2), all - 22..all - 21, "{text}");
        // The keys that it has are those that it was made for.
        play.filter.capacity = play.keys.len();
        let frontier = *play.filter.table.range(all - 22..all - 21).start();
        play.remote.fails_at = Some(frontier);
        for _ in 0..count / 2 {
            let key = Digest::new([rng.next() >> 2, rng.next()]);
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
        }
        assert_eq!(play.filter.table.first, count - 2, "{text}");
        let last: Vec<Digest> = play.keys.iter().copied().filter(|key| *key >= frontier).collect();
        let is_behind = |key: &&Digest| bucket_of(&play.filter.table, **key) > all - 22;
        let behind: Vec<Digest> = last.iter().filter(is_behind).copied().collect();
        for key in behind {
            assert!(play.filter.remove(key, &mut play.remote).expect("in memory"), "{text}");
            play.keys.retain(|&other| other != key);
        }
        assert_eq!(play.filter.table.lines[count - 2].window(), 0, "{text}");
        play.check(text);
        let saved = play.filter.save();
        play.filter = LineFilter::load(&saved).expect("its own bytes");
        assert_eq!(play.filter.save(), saved, "{text}");
        play.remote.fails_at = None;
        // The larger table has no room for so many keys in one place.
        for key in last.into_iter().skip(5) {
            if play.filter.remove(key, &mut play.remote).expect("in memory") {
                play.keys.retain(|&other| other != key);
            }
        }
        for key in random_digests(2, &mut rng) {
            assert!(play.filter.insert(key, &mut play.remote).expect("it grows"), "{text}");
            play.keys.push(key);
        }
        assert!(play.filter.growing.is_none(), "{text}");
        play.check(text);
    }
}

/// A larger table that has no room for one key of a line gives back the others: also one that
/// began a run in a group that had adapted, and that looks like a key which had copies.
#[test]
fn a_line_that_cannot_move_leaves_nothing_in_the_larger_table() {
    let mut rng = Rng::new(6);
    for text in FILTERS {
        let mut play = filled(&format!("{text},full=grow"), 300, 0, &mut rng);
        let shape = play.filter.table.shape;
        let [moves, stays] = [2, 30].map(|bucket| digest_in(&play.filter.table, bucket, &mut rng));
        for key in [moves, stays] {
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
        }
        let smaller = &mut play.filter.table;
        let mut growing = Growing::new(2 * smaller.count, 600, Epoch::FIRST.another(1), smaller);
        let larger = &mut growing.table;
        let (free, full) = (larger.find(moves), larger.find(stays));
        assert_eq!((free.line, full.line), (0, 1), "{text}");
        for _ in 0..shape.slots {
            assert!(larger.add(Digest::new([stays.word(0), rng.next()])), "{text}");
        }
        // No bucket moves without its digests to lines of another epoch.
        for line in [0, 2] {
            larger.lines[line] = larger.lines[line].emptied(Epoch::FIRST, &shape);
        }
        larger.change(0, |line| line.adapt_group(free.group, 0, &shape));
        larger.departed.remember(moves, Epoch::FIRST.byte(), 2, 1);
        let before = larger.lines.clone();
        let moved = growing.step(smaller, &mut play.remote);
        assert!(matches!(moved, Ok(false)), "{text}");
        assert!(growing.table.lines == before, "{text}: something was left behind");
        assert_eq!(growing.table.counts.len, shape.slots, "{text}");
        assert!([moves, stays].iter().all(|&key| smaller.contains(key)), "{text}");
    }
}

/// What is wrong with a filter that grows.
type Change = fn(&mut LineFilter, &mut Growing);

/// Files of filters that no insertion leads to. The first would lose keys when it grows for the
/// second time, the next two ask for lines that are not there.
#[test]
fn tables_that_do_not_belong_together_are_found() {
    let mut rng = Rng::new(7);
    let changes: [(&str, Change); 6] = [
        ("have moved", |_, growing| growing.table.first = 1),
        ("are missing", |filter, _| filter.table.count += 1),
        ("lines grow to", |_, growing| {
            growing.table.count = 2000;
            let line = Line::empty(growing.table.epoch, &growing.table.shape);
            growing.table.lines.resize(1500, line);
        }),
        ("lines are missing where", |_, growing| {
            growing.table.count = 300;
            growing.table.lines.truncate(200);
        }),
        ("frontier", |_, growing| {
            growing.frontier = Digest::new([growing.frontier.word(0) + 1, 0])
        }),
        ("frontier", |filter, _| filter.table.first -= 1),
    ];
    for text in FILTERS {
        // None in the first lines of the larger table, and none in the lines that move last.
        let mut play = filled(&format!("{text},full=grow"), 300, 0, &mut rng);
        for _ in 0..100 {
            let key = Digest::new([(1 << 62) + (rng.next() >> 3), rng.next()]);
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
        }
        play.filter.capacity = 100;
        for _ in 0..2 {
            let key = Digest::new([1 << 62, rng.next()]);
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
        }
        play.filter.check(&mut play.remote).expect("all is well");
        for (what, change) in changes {
            let mut filter = play.filter.clone();
            let mut growing = filter.growing.take().expect("it grows");
            change(&mut filter, &mut growing);
            filter.growing = Some(growing);
            let broken = filter.check(&mut play.remote).expect_err(what);
            assert!(broken.contains(what), "{text}: {what}: {broken}");
            let refused = LineFilter::load(&filter.save()).err().expect(what).to_string();
            assert!(refused.contains(what), "{text}: {what}: {refused}");
        }
    }
}

/// Lines move only while a filter grows, and a filter has room for the keys it was made for.
#[test]
fn one_table_that_cannot_be_is_found() {
    type Damage = fn(&mut LineFilter);
    let changes: [(&str, Damage); 4] = [
        ("that does not grow", |filter| filter.table.first = 1),
        ("no capacity of 0", |filter| filter.capacity = 0),
        ("no capacity of", |filter| {
            filter.capacity = filter.table.count * filter.table.shape.slots + 1;
        }),
        ("that no digest is mapped to", |filter| filter.table.first = filter.table.count + 1),
    ];
    for text in FILTERS {
        for (what, change) in changes {
            let mut filter = filter(text, 300);
            filter.check_tables().expect("all is well");
            change(&mut filter);
            let broken = filter.check_tables().expect_err(what);
            assert!(broken.contains(what), "{text}: {what}: {broken}");
        }
    }
}

/// A filter gives back the memory that it has grown out of piece by piece; a clone has none of it.
#[test]
fn a_clone_has_no_memory_to_give_back() {
    let mut filter = filter("line:full=grow", 100);
    let bits = filter.stats().bits;
    filter.retired = Retired::new(Vec::with_capacity(10_000));
    let retired = filter.retired.bits();
    filter.retired.release_some();
    assert!(filter.stats().bits > bits && filter.retired.bits() < retired);
    assert_eq!(filter.clone().stats().bits, bits);
}

/// While a table is filled it has the keys up to its last digest, and its remote is asked for no
/// others.
#[test]
fn what_is_behind_the_last_digest_of_a_table_is_not_read() {
    let mut table = filter("line:f=9", 1000).table;
    let (first, last) = table.range(5..6).into_inner();
    let mut remote = Strict::default();
    for digest in [first, last] {
        remote.insert(digest).expect("in memory");
    }
    for (end, stored) in [
        (LAST, vec![first, last]),
        (last, vec![first, last]),
        (first, vec![first]),
        (Digest::from_number(first.number() - 1), vec![]),
    ] {
        table.last = end;
        assert_eq!(table.digests(5..6, &mut remote).expect("in memory"), stored);
        assert_eq!(table.digests(5..5, &mut remote).expect("in memory"), vec![]);
    }
    assert_eq!(remote.accesses().reads, 3, "the last range is empty");
}
