//! Strangers: digests that the remote has and the filter has no slots for. What reads them refuses
//! to go on, and leaves filter and remote as they were.

use alloc::vec::Vec;

use super::*;
use crate::filter::Adapted;
use crate::line::cells::Line;

/// The keys of one bucket, in a filter with one line for each 41 keys of its capacity.
fn in_bucket(text: &str, bucket: usize, keys: usize, rng: &mut Rng) -> Filled {
    let (mut filter, mut remote) = (filter(text, 400), Strict::default());
    let keys: Vec<Digest> = (0..keys).map(|_| digest_in(&filter.table, bucket, rng)).collect();
    for &key in &keys {
        assert!(filter.insert(key, &mut remote).expect("room"), "{text}");
    }
    Filled { filter, remote, keys }
}

impl Filled {
    /// New digests of some buckets, which only the remote has.
    fn strangers(&mut self, buckets: impl IntoIterator<Item = usize>, rng: &mut Rng) {
        for bucket in buckets {
            let stranger = digest_in(&self.filter.table, bucket, rng);
            self.remote.set.insert(stranger).expect("in memory");
        }
    }

    /// This fails because of strangers, and changes nothing.
    fn refuses<T: core::fmt::Debug>(
        &mut self,
        operation: impl FnOnce(&mut LineFilter, &mut Strict) -> crate::Result<T>,
        what: &str,
    ) {
        let (before, stored) = (self.filter.save(), self.remote.set.len());
        let error = operation(&mut self.filter, &mut self.remote).expect_err(what).to_string();
        assert!(error.contains("keys that were added without a remote"), "{what}: {error}");
        assert_eq!(self.filter.save(), before, "{what}");
        assert_eq!(self.remote.set.len(), stored, "{what}");
    }
}

#[test]
fn a_run_is_not_written_from_more_digests_than_it_has_slots() {
    let mut rng = Rng::new(21);
    for text in FILTERS {
        let mut play = in_bucket(text, 3, 2, &mut rng);
        let query = false_positive(&play.filter, play.keys[0], &mut rng).expect("many tries");
        play.strangers([3], &mut rng);
        play.refuses(|filter, remote| filter.adapt(query, remote), text);
    }
}

/// A run that is out of selectors has its whole line read. As many strangers as a line has slots are
/// in buckets of the line that have no keys.
#[test]
fn a_line_is_not_redrawn_from_more_digests_than_it_has_slots() {
    let mut rng = Rng::new(22);
    for text in FILTERS {
        let mut play = in_bucket(text, 3, 2, &mut rng);
        let strangers = play.filter.table.shape.slots;
        play.strangers((10..36).cycle().take(strangers), &mut rng);
        let selectors = play.filter.table.shape.selectors();
        // Each false positive takes one selector or more; 0 is the first.
        let mut fixed = 0;
        let query = loop {
            let query = false_positive(&play.filter, play.keys[0], &mut rng).expect("many tries");
            let mut after = play.filter.clone();
            match after.adapt(query, &mut play.remote) {
                Ok(outcome) => assert_eq!(outcome, Adapted::Fixed, "{text}"),
                Err(_) => break query,
            }
            play.filter = after;
            fixed += 1;
            assert!(fixed < selectors, "{text}: the line was redrawn");
        };
        play.refuses(|filter, remote| filter.adapt(query, remote), text);
    }
}

/// A full line between two that have no keys and other hash functions: its first bucket or its last
/// has to move, and is read for that.
#[test]
fn a_bucket_does_not_move_to_other_hash_functions_with_more_digests_than_it_has_slots() {
    let mut rng = Rng::new(23);
    for text in FILTERS {
        let mut play = in_bucket(text, 0, 0, &mut rng);
        let table = &mut play.filter.table;
        let (shape, first) = (table.shape, table.first_bucket(3));
        let other = Line::empty(table.epoch.another(1), &shape);
        (table.lines[2], table.lines[4]) = (other, other);
        for slot in 0..shape.slots {
            let key = digest_in(&play.filter.table, first + slot % shape.buckets, &mut rng);
            assert!(play.filter.insert(key, &mut play.remote).expect("room"), "{text}");
            play.keys.push(key);
        }
        play.check(text);
        let newcomer = digest_in(&play.filter.table, first + 7, &mut rng);
        let mut without = play.filter.clone();
        let inserted = without.insert(newcomer, &mut play.remote.clone());
        assert!(inserted.expect("the neighbours have room") && without.stats().kicks > 0, "{text}");
        // Each bucket has one key or two, and so is never the whole of what is there.
        let ends = [0, 1, 2, shape.buckets - 3, shape.buckets - 2, shape.buckets - 1];
        play.strangers(ends.map(|end| first + end), &mut rng);
        play.refuses(|filter, remote| filter.insert(newcomer, remote), text);
    }
}

/// A bucket with more keys than a line has slots, which needs a larger filter. It is built from all
/// digests; strangers are in it from the start.
#[test]
fn a_larger_filter_is_not_built_from_more_digests_than_there_are_slots() {
    let mut rng = Rng::new(24);
    for text in FILTERS.map(|text| alloc::format!("{text},full=grow")) {
        let slots = filter(&text, 400).table.shape.slots;
        let mut play = in_bucket(&text, 3, slots, &mut rng);
        let newcomer = digest_in(&play.filter.table, 3, &mut rng);
        let mut without = play.filter.clone();
        let inserted = without.insert(newcomer, &mut play.remote.clone());
        assert!(inserted.expect("it grows") && without.stats().capacity > 400, "{text}");
        play.strangers([100], &mut rng);
        play.refuses(|filter, remote| filter.insert(newcomer, remote), &text);
    }
}
