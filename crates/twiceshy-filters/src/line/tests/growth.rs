//! Filters that grow: all at once, and key by key.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::error::Error;
use crate::filter::Adapted;

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
                Err(Error::Full { .. } | Error::Remote(_)) => {}
                Err(error) => panic!("{text}: {error}"),
            }
            if play.filter.growing.is_none() {
                break;
            }
            if step % (if text == "line:f=16" { 40 } else { 2 }) == 0 && !piled.is_empty() {
                let near = piled[rng.below(piled.len() as u64) as usize];
                if let Some(query) = false_positive(&play.filter, near, &mut rng) {
                    // A read that starts at the frontier fails.
                    _ = play.filter.adapt(query, &mut play.remote);
                }
            }
            if step % 5 == 4 && !piled.is_empty() {
                let gone = piled.swap_remove(rng.below(piled.len() as u64) as usize);
                if play.filter.remove(gone, &mut play.remote).unwrap_or(false) {
                    play.keys.retain(|&key| key != gone);
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
