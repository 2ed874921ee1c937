//! Windows that move, and what a full filter does.

use alloc::vec::Vec;

use super::*;
use crate::line::drift::Side;
use crate::line::shape::{MOST_BUCKETS, MOST_DRIFT};

fn drifts(table: &Table) -> impl Iterator<Item = i32> {
    table.lines.iter().map(super::super::cells::Line::drift)
}

/// A filter that stays as full as it was made for, while one key after the other is replaced.
#[test]
fn windows_tile_after_every_insertion_and_removal_at_full_load() {
    let mut rng = Rng::new(1);
    for text in FILTERS {
        let capacity = 600;
        let mut play = filled(text, capacity, 0, &mut rng);
        let (mut left, mut right) = (false, false);
        for step in 0..capacity + 1500 {
            if step >= capacity {
                let key = play.keys.swap_remove(rng.below(capacity as u64) as usize);
                assert!(play.filter.remove(key, &mut play.remote).expect("in memory"), "{text}");
                play.filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
            }
            let key = random_digests(1, &mut rng)[0];
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
            play.filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
            left |= drifts(&play.filter.table).any(|drift| drift < 0);
            right |= drifts(&play.filter.table).any(|drift| drift > 0);
            if step % 100 == 0 {
                play.check(text);
            }
        }
        play.check(text);
        assert!(left && right, "{text}: chains to both sides");
    }
}

/// All keys in a few buckets, at both ends of the filter and in its middle, until one is refused:
/// windows tile throughout, and the refusal changes nothing.
///
/// Two of the buckets do not fit one line before a key is refused, so with three of them at an end
/// the third is two lines from home, and a window starts `2 Q - 2` buckets from its line's. Four
/// would need `3 Q - 3`, which is more than is allowed.
#[test]
fn a_pile_drifts_as_far_as_it_may_and_no_farther() {
    let mut rng = Rng::new(2);
    for text in FILTERS {
        for width in [1, 3, 4, 8, 60] {
            for place in 0..3 {
                let mut filter = filter(text, 600);
                let shape = filter.table.shape;
                let all = filter.table.count * shape.buckets;
                let first = [0, all / 2, all - width][place];
                let mut keys = Vec::new();
                loop {
                    let bucket = first + rng.below(width as u64) as usize;
                    let key = digest_in(&filter.table, bucket, &mut rng);
                    let before = filter.table.lines.clone();
                    let added = filter.add(key);
                    filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
                    if !added {
                        assert!(filter.table.lines == before, "{text}: a refusal changes nothing");
                        break;
                    }
                    keys.push(key);
                    assert!(filter.contains(key), "{text}: a false negative");
                }
                assert!(keys.iter().all(|&key| filter.contains(key)), "{text}: a false negative");
                let farthest = drifts(&filter.table).map(i32::abs).max().expect("a line");
                assert!(farthest <= MOST_DRIFT, "{text}: {farthest}");
                if width == 3 && place != 1 {
                    let least = 2 * shape.buckets as i32 - 2;
                    assert!(farthest >= least, "{text}: {farthest}, {width} at {place}");
                }
                let sign = |drift: i32| [drift >= 0, true, drift <= 0][place];
                assert!(
                    width == 60 || drifts(&filter.table).all(sign),
                    "{text}: {width} at {place}"
                );
                for key in keys {
                    assert!(filter.delete(key), "{text}: {width} at {place}");
                    filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
                }
            }
        }
    }
}

/// With half of the keys a line is full with a probability below 10^-9, so no bucket has a reason
/// to be away; what is left is in lines from which no key was removed.
#[test]
fn buckets_come_home_when_there_is_room() {
    let mut rng = Rng::new(3);
    for text in FILTERS {
        let mut filter = filter(text, 20_000);
        let keys = random_digests(20_000, &mut rng);
        assert!(keys.iter().all(|&key| filter.add(key)), "{text}");
        let full = filter.lines_per_query();
        assert!(full > 1.02, "{text}: {full} lines, nothing to bring home");
        for &key in &keys[..10_000] {
            assert!(filter.delete(key), "{text}");
        }
        filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
        let half = filter.lines_per_query();
        assert!(half < 1.01, "{text}: {half} lines per query, {full} before");
    }
}

/// 12,000 fills of each shape with capacities from 1 to 300, and a few larger ones. If the
/// probability of a refusal, averaged over these capacities, were above 1.2e-3 in any shape, this
/// would fail with a probability above 1 - 10^-6: (1 - 1.2e-3)^12000 = 5.5e-7. That is all that
/// it claims; 10^-6 for each capacity would take 10^10 fills.
#[test]
fn a_filter_has_room_for_the_keys_it_was_made_for() {
    let mut rng = Rng::new(4);
    let small = (1..=300).flat_map(|capacity| [capacity; 40]);
    let large = [[1000; 20], [3000; 20], [10_000; 20]].concat();
    for capacity in small.chain(large).chain([100_000]) {
        for text in FILTERS {
            let mut filter = filter(text, capacity);
            for count in 0..capacity {
                let key = Digest::new([rng.next(), rng.next()]);
                assert!(filter.add(key), "{text}: key {count} of {capacity}");
            }
        }
    }
}

/// A line whose last bucket has moved away, and to which none can come since its neighbour has
/// other hash functions, has no bucket at all. A chain of moves that comes by finds no room there
/// either, for a bucket that is larger than any line.
#[test]
fn a_line_without_a_bucket_is_no_place_for_one_that_fits_no_line() {
    let mut rng = Rng::new(5);
    for text in FILTERS {
        let mut play = filled(text, 1000, 0, &mut rng);
        let shape = play.filter.table.shape;
        // No two of these fit one line, so each is in a line of its own: 20 to 23 in 0 to 3.
        for bucket in 20..24 {
            for _ in 0..shape.slots - 2 {
                let key = digest_in(&play.filter.table, bucket, &mut rng);
                assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
                play.keys.push(key);
            }
        }
        let of_bucket = |play: &Filled, bucket| -> Vec<Digest> {
            let is_there = |key: &Digest| bucket_of(&play.filter.table, *key) == bucket;
            play.keys.iter().copied().filter(is_there).collect()
        };
        let line_of =
            |play: &Filled, bucket| play.filter.table.find(of_bucket(play, bucket)[0]).line;
        assert_eq!([20, 21, 22, 23].map(|bucket| line_of(&play, bucket)), [0, 1, 2, 3], "{text}");
        // Other hash functions for line 3.
        let key = of_bucket(&play, 23)[0];
        while play.filter.stats().spent == 0 {
            let query = false_positive(&play.filter, key, &mut rng).expect("in a long run");
            play.filter.adapt(query, &mut play.remote).expect("in memory");
        }
        for key in of_bucket(&play, 21) {
            assert!(play.filter.remove(key, &mut play.remote).expect("in memory"), "{text}");
            play.keys.retain(|&other| other != key);
        }
        assert_eq!(play.filter.table.lines[2].window(), 0, "{text}");
        play.check(text);
        for count in shape.slots - 2..=shape.slots {
            let key = digest_in(&play.filter.table, 22, &mut rng);
            match play.filter.insert(key, &mut play.remote) {
                Ok(_) => play.keys.push(key),
                Err(Error::Full { .. }) => assert_eq!(count, shape.slots, "{text}"),
                Err(error) => panic!("{text}: {error}"),
            }
        }
        play.check(text);
    }
}

/// Lets the empty buckets of a filter move to one side, until the window of this line starts so
/// many buckets from its home.
fn drifted(table: &mut Table, line: usize, side: Side, drift: usize) {
    let count = table.lines.len();
    for _ in 0..drift {
        for turn in 1..count {
            let (from, to) = match side {
                Side::Right => (count - 1 - turn, count - turn),
                Side::Left => (turn, turn - 1),
            };
            if table.lines[from].window() > 0 && table.lines[to].window() < MOST_BUCKETS {
                table.move_bucket(from, side, None);
            }
        }
    }
    table.check().expect("windows tile");
    assert_eq!(table.lines[line].drift().unsigned_abs() as usize, drift);
}

/// A full line hands on a bucket at a border that is one bucket short of the bound, and none at one
/// that has reached it: then its buckets go to the other side.
#[test]
fn a_border_drifts_up_to_its_bound() {
    let mut rng = Rng::new(6);
    for (text, side) in
        FILTERS.into_iter().flat_map(|text| [(text, Side::Right), (text, Side::Left)])
    {
        let mut filter = filter(text, 1000);
        let shape = filter.table.shape;
        // The border is where this line starts.
        let line = if side == Side::Right { 3 } else { filter.table.count - 4 };
        drifted(&mut filter.table, line, side, MOST_DRIFT as usize - 1);
        let start = filter.table.first_bucket(line);
        // Those at the border, of the line that will be full.
        let buckets = match side {
            Side::Right => [start - 1, start - 2, start - 3],
            Side::Left => [start, start + 1, start + 2],
        };
        let mut add = |filter: &mut LineFilter, bucket| {
            assert!(filter.add(digest_in(&filter.table, bucket, &mut rng)), "{text}, {side:?}");
        };
        if side == Side::Left {
            // No room at the other border for a bucket as large as a line.
            let other = filter.table.first_bucket(line + 1);
            add(&mut filter, other);
            add(&mut filter, other);
        }
        add(&mut filter, buckets[0]);
        add(&mut filter, buckets[1]);
        for _ in 2..shape.slots {
            add(&mut filter, buckets[2]);
        }
        let drift = |filter: &LineFilter| filter.table.lines[line].drift().abs();
        assert_eq!(drift(&filter), MOST_DRIFT - 1, "{text}, {side:?}: nothing had to move");
        for _ in 0..2 {
            add(&mut filter, buckets[2]);
            assert_eq!(drift(&filter), MOST_DRIFT, "{text}, {side:?}");
            filter.table.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
        }
    }
}
