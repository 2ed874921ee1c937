//! The guard against a map, with a store that is counted and one that fails.

#[path = "../../twiceshy-filters/tests/harness/random.rs"]
mod random;
mod stores;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use random::Random;
use stores::{Call, Hooked, SPECS, When, hasher, is_adaptive, spec, stored_count, stored_value};
use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, GuardStats, Header, MemoryStore, Opened, Store};
use twiceshy_filters::{Adapted, Error, KeyHasher, RemoteError};

fn options(text: &str, capacity: usize, shard_bits: u32) -> GuardOptions {
    GuardOptions { spec: spec(text), capacity, shard_bits }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// A guard, the map that it should agree with, and snapshots of both kinds.
struct Play {
    store: Arc<MemoryStore>,
    guard: Guard<Arc<MemoryStore>>,
    options: GuardOptions,
    oracle: HashMap<Vec<u8>, Vec<u8>>,
    /// A snapshot of the store as it is, and one of the store as it was.
    fresh: Option<Vec<u8>>,
    stale: Option<Vec<u8>>,
    random: Random,
    universe: u64,
    /// Counts of the guards that were closed.
    before: GuardStats,
    reopened: [u32; 4],
}

impl Play {
    fn new(options: GuardOptions, seed: u64) -> Self {
        let store = Arc::new(MemoryStore::default());
        let guard = Guard::open(store.clone(), hasher(), &options).expect("an empty store");
        assert_eq!(*guard.opened(), Opened::Empty);
        Play {
            store,
            guard,
            options,
            oracle: HashMap::new(),
            fresh: None,
            stale: None,
            random: Random(seed),
            universe: 4 * options.capacity as u64 + 20,
            before: GuardStats::default(),
            reopened: [0; 4],
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next() % limit
    }

    fn key(&mut self) -> Vec<u8> {
        key(self.below(self.universe))
    }

    fn record(&mut self) -> (Vec<u8>, Vec<u8>) {
        let length = self.below(20) as usize;
        (self.key(), self.random.bytes(length))
    }

    /// The store has changed: no snapshot is of it any more.
    fn changed(&mut self) {
        self.stale = self.fresh.take().or(self.stale.take());
    }

    fn step(&mut self) {
        match self.below(1000) {
            0..300 => self.put(),
            300..340 => self.put_many(),
            340..500 => self.remove(),
            500..800 => self.get(),
            800..900 => self.contains(),
            900..960 => self.get_many(),
            960..975 => self.snapshot(),
            975..985 => self.reopen(),
            985..990 => self.check(),
            _ => {
                let text = self.key();
                let outcome = self.guard.disprove(&text).expect("in memory");
                assert_eq!(outcome == Adapted::Stored, self.oracle.contains_key(&text));
            }
        }
    }

    /// Each snapshot takes the place of the one before.
    fn snapshot(&mut self) {
        self.changed();
        self.fresh = Some(self.guard.snapshot().expect("in memory"));
    }

    fn put(&mut self) {
        let (key, value) = self.record();
        let new = self.guard.put(&key, &value).expect("in memory");
        assert_eq!(new, self.oracle.insert(key, value).is_none());
        self.changed();
    }

    /// Also with a key that is there twice: the last value counts.
    fn put_many(&mut self) {
        let count = self.below(20);
        let mut records: Vec<_> = (0..count).map(|_| self.record()).collect();
        if let Some((key, _)) = records.first().cloned() {
            records.push((key, b"again".to_vec()));
        }
        let new = self.guard.put_many(&records).expect("in memory");
        let before = self.oracle.len();
        let changes = !records.is_empty();
        self.oracle.extend(records);
        assert_eq!(new, self.oracle.len() - before);
        if changes {
            self.changed();
        }
    }

    fn remove(&mut self) {
        let key = self.key();
        let was = self.guard.remove(&key).expect("in memory");
        assert_eq!(was, self.oracle.remove(&key).is_some());
        if was {
            self.changed();
        }
    }

    fn get(&mut self) {
        let key = self.key();
        assert_eq!(self.guard.get(&key).expect("in memory").as_ref(), self.oracle.get(&key));
    }

    fn contains(&mut self) {
        let key = self.key();
        assert_eq!(self.guard.contains(&key).expect("in memory"), self.oracle.contains_key(&key));
    }

    fn get_many(&mut self) {
        let keys: Vec<_> = (0..self.below(40)).map(|_| self.key()).collect();
        let found = self.guard.get_many(&keys).expect("in memory");
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.as_ref(), self.oracle.get(key));
        }
    }

    /// Closes the guard and opens another, with or without a snapshot.
    fn reopen(&mut self) {
        let way = self.below(4) as usize;
        let snapshot = match way {
            0 => {
                if self.fresh.is_none() {
                    self.snapshot();
                }
                self.fresh.clone()
            }
            1 => self.stale.clone(),
            2 => self.fresh.clone().or(self.stale.clone()).map(|mut bytes| {
                let bit = self.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            }),
            _ => None,
        };
        let given = snapshot.is_some();
        let count = self.oracle.len() as u64;
        let mut last = (0, 0);
        let guard = Guard::open_with(
            self.store.clone(),
            hasher(),
            &self.options,
            snapshot.as_deref(),
            &mut |done, total| last = (done, total),
        );
        let old = std::mem::replace(&mut self.guard, guard.expect("in memory"));
        add(&mut self.before, &old.stats());
        let used = *self.guard.opened() == Opened::Snapshot;
        assert_eq!(used, way == 0 && given, "way {way}: {:?}", self.guard.opened());
        if !used {
            assert_eq!(last, (count, count), "progress ends with all keys");
            let empty = *self.guard.opened() == Opened::Empty;
            assert_eq!(empty, self.oracle.is_empty());
        }
        self.reopened[way] += u32::from(given || way == 3);
    }

    fn check(&mut self) {
        assert_eq!(self.guard.check(), Ok(0), "{}", self.guard.spec());
        assert_eq!(self.guard.stats().keys, self.oracle.len() as u64);
        for (key, value) in &self.oracle {
            assert!(self.guard.may_contain(key), "false negative");
            assert_eq!(self.guard.get(key).expect("in memory").as_ref(), Some(value));
        }
    }
}

fn add(sum: &mut GuardStats, stats: &GuardStats) {
    sum.false_positives += stats.false_positives;
    sum.fixed += stats.fixed;
    sum.postponed += stats.postponed;
    sum.spent += stats.spent;
    sum.growths += stats.growths;
}

/// Eight plays for each filter, each of 3,000 operations.
#[test]
fn every_guard_agrees_with_a_map() {
    for (which, text) in SPECS.iter().enumerate() {
        let mut sum = GuardStats::default();
        let mut reopened = [0; 4];
        for play in 0..8 {
            let capacity = [1, 8, 60, 300][play % 4];
            let shard_bits = (play / 2 % 4) as u32;
            let seed = (which * 100 + play) as u64;
            let mut play = Play::new(options(text, capacity, shard_bits), seed);
            for _ in 0..3000 {
                play.step();
            }
            play.check();
            add(&mut sum, &play.before);
            add(&mut sum, &play.guard.stats());
            (0..4).for_each(|way| reopened[way] += play.reopened[way]);
        }
        // The test proves little where nothing of it happened.
        assert!(sum.false_positives > 100 && sum.growths > 8, "{text}: {sum:?}");
        assert_eq!(sum.postponed, 0, "{text}: nobody else is there");
        assert_eq!(sum.fixed > 100, is_adaptive(text), "{text}: {sum:?}");
        assert!(reopened.iter().all(|&count| count > 5), "{text}: {reopened:?}");
        if text.starts_with("telescoping") || text.starts_with("extension") {
            assert!(sum.spent > 20, "{text}: {sum:?}");
        }
    }
}

/// From room for a few keys to thousands, one by one: also filters of partial keys
/// whose fingerprints are too short for the load that they were made for.
#[test]
fn every_guard_grows_as_far_as_it_has_to() {
    for text in SPECS {
        let options = options(text, 4, 0);
        let guard = Guard::open(MemoryStore::default(), hasher(), &options).expect("empty");
        for number in 0..4000 {
            guard.put(key(number), "value").unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        assert_eq!(guard.check(), Ok(0), "{text}");
        assert!(guard.stats().growths > 10, "{text}");
    }
}

/// What each operation reads. A miss that passes the filter: one range, and
/// adapting nothing more but one range for each block whose budget is spent
/// (quotient filters) or one range that is swept (broom).
#[test]
fn a_miss_that_passes_the_filter_is_one_read_and_adapting_none() {
    for text in ["telescoping:f=8", "telescoping:f=8,spent=reseed"].iter().chain(SPECS) {
        let store = Arc::new(MemoryStore::default());
        let guard = Guard::open(store.clone(), hasher(), &options(text, 2000, 2)).expect("empty");
        for number in 0..2000 {
            guard.put(key(number), "value").expect("in memory");
        }
        let reads = || store.accesses().reads;
        let asked = |key: &[u8]| {
            let (before, stats) = (reads(), guard.stats());
            let found = guard.contains(key).expect("in memory");
            let (extra, now) = (reads() - before, guard.stats());
            assert_eq!(now.store_reads - stats.store_reads, extra, "each read is counted");
            (found, extra, now.fixed - stats.fixed, now.spent - stats.spent)
        };
        let (mut passed, mut free, mut fixes) = (0, 0, 0);
        for number in 0..20_000 {
            if number < 2000 {
                assert_eq!(asked(&key(number)), (true, 1, 0, 0), "{text}");
            }
            let missing = key(1_000_000 + number);
            let maybe = guard.may_contain(&missing);
            let (found, made, fixed, spent) = asked(&missing);
            assert!(!found);
            if !maybe {
                assert_eq!((made, fixed, spent), (0, 0, 0), "{text}: a known miss reads nothing");
                continue;
            }
            let most = if text.starts_with("broom") { 1 } else { spent };
            assert!((1..=1 + most).contains(&made), "{text}: {made} reads, {spent} spent");
            passed += 1;
            free += u64::from(made == 1);
            fixes += fixed;
            if fixed == 1 {
                assert_eq!(asked(&missing), (false, 0, 0, 0), "{text}: the same miss again");
            }
        }
        assert!(passed > 20, "{text}: {passed}");
        match is_adaptive(text) {
            true => assert!(20 * fixes > 19 * passed, "{text}: {fixes} of {passed}"),
            false => assert_eq!(fixes, 0, "{text}"),
        }
        // A broom filter sweeps with every adaptation.
        assert!(free > 20 || text.starts_with("broom"), "{text}: {free} of {passed}");
        assert_eq!(guard.check(), Ok(0));
    }
}

/// A list of keys is one read and one write of the store, however long it is and
/// in how many shards; a removal reads once more, when the records are gone.
#[test]
fn a_list_is_one_read_and_one_write() {
    // Where two keys collide a broom filter sweeps, which reads.
    for text in SPECS.iter().filter(|text| !text.starts_with("broom")) {
        let store = Arc::new(MemoryStore::default());
        let guard = Guard::open(store.clone(), hasher(), &options(text, 4000, 2)).expect("empty");
        let accesses = |work: &dyn Fn() -> usize| {
            let before = store.accesses();
            let count = work();
            let after = store.accesses();
            (count, after.reads - before.reads, after.writes - before.writes)
        };
        let records = |numbers: Range<u64>| -> Vec<_> {
            numbers.map(|number| (key(number), key(number + 7))).collect()
        };
        let put = |numbers: Range<u64>| {
            accesses(&|| guard.put_many(&records(numbers.clone())).expect("in memory"))
        };
        let remove = |numbers: Range<u64>| {
            let keys: Vec<_> = numbers.map(key).collect();
            accesses(&|| guard.remove_many(&keys).expect("in memory"))
        };
        assert_eq!(put(0..1000), (1000, 1, 1), "{text}");
        assert_eq!(put(500..1500), (500, 1, 1), "{text}: half of them are new");
        assert_eq!(put(0..0), (0, 0, 0), "{text}");
        assert_eq!(remove(0..600), (600, 2, 1), "{text}");
        let (gone, reads, writes) = remove(0..600);
        assert!(gone == 0 && reads <= 1 && writes == 0, "{text}: {reads} reads, {writes} writes");
        assert_eq!(guard.stats().store_reads, store.accesses().reads - 4, "{text}: a read a shard");
        assert_eq!(guard.check(), Ok(0), "{text}");
        assert!(
            (0..1500).all(|number| guard.contains(key(number)).expect("read") == (number >= 600))
        );
    }
}

/// Of two values of a key in a list the last counts, and the key counts once.
#[test]
fn a_key_that_is_twice_in_a_list_has_the_last_value() {
    for text in SPECS {
        let guard =
            Guard::open(MemoryStore::default(), hasher(), &options(text, 100, 1)).expect("empty");
        let list = [(key(1), "first"), (key(2), "other"), (key(1), "second"), (key(1), "last")];
        assert_eq!(guard.put_many(&list).expect("in memory"), 2, "{text}");
        assert_eq!(guard.stats().keys, 2, "{text}");
        assert_eq!(guard.get(key(1)).expect("in memory").as_deref(), Some(&b"last"[..]), "{text}");
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

/// A missing key that is there twice in a list is read for once.
#[test]
fn the_same_miss_twice_in_a_list_is_one_read() {
    let store = Arc::new(MemoryStore::default());
    let options = options("telescoping:f=2", 100, 1);
    let guard = Guard::open(store.clone(), hasher(), &options).expect("an empty store");
    for number in 0..100 {
        guard.put(key(number), "value").expect("in memory");
    }
    let missing = (1000..).map(key).find(|key| guard.may_contain(key)).expect("a false positive");
    let before = store.accesses().reads;
    let found = guard.get_many(&[&missing, &missing, &missing]).expect("in memory");
    assert_eq!(found, [None, None, None]);
    assert_eq!(store.accesses().reads - before, 1);
}

/// Fails the call of this number, before or after it has happened; 0: none.
#[derive(Default)]
struct Fuse {
    left: AtomicU64,
    after: AtomicBool,
    burnt: AtomicBool,
    calls: AtomicU64,
}

impl Fuse {
    fn lit(number: u64, after: bool) -> Arc<Self> {
        let fuse = Fuse { left: AtomicU64::new(number), ..Fuse::default() };
        fuse.after.store(after, Ordering::Relaxed);
        Arc::new(fuse)
    }

    fn burn(&self, when: When) -> Result<(), RemoteError> {
        let after = self.after.load(Ordering::Relaxed);
        if (when == When::After) != after {
            return Ok(());
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.left.load(Ordering::Relaxed) > 0 && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.burnt.store(true, Ordering::Relaxed);
            return Err("unplugged".into());
        }
        Ok(())
    }
}

/// What a key may have for a value: one thing, or either of two after a change
/// that failed.
type Possible = HashMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// Notes a change of keys that went well, or perhaps not.
fn note(
    possible: &mut Possible,
    changes: &[(Vec<u8>, Option<Vec<u8>>)],
    outcome: &Result<usize, Error>,
) {
    if let Err(error) = outcome {
        assert!(error.to_string().contains("unplugged"), "{error}");
    }
    for (key, value) in changes {
        let states = possible.entry(key.clone()).or_insert_with(|| vec![None]);
        if outcome.is_ok() {
            states.clear();
        }
        states.push(value.clone());
    }
}

/// Whether a missing key is answered "absent" when it was asked for once. (The
/// sweep of a broom filter may give a query that it fixes another hash that
/// collides; a few times more will do.)
fn goes<S: Store>(text: &str, guard: &Guard<S>, missing: &[u8]) -> bool {
    let times = if text.starts_with("broom") { 20 } else { 1 };
    (0..times).any(|_| {
        assert!(!guard.contains(missing).expect("plugged"), "{text}: it is not stored");
        !guard.may_contain(missing)
    })
}

/// Puts, lists, misses, removals and growth, with one call of the store that
/// fails. Returns how many calls there were.
fn survive(text: &str, number: u64, after: bool, look: bool) -> u64 {
    let context = format!("{text}, call {number}, after: {after}, look: {look}");
    let fuse = Fuse::lit(number, after);
    let hook = fuse.clone();
    let store = Arc::new(Hooked::new(move |_: Call, when: When| hook.burn(when)));
    let options = options(text, 10, 1);
    let open = || Guard::open(store.clone(), hasher(), &options);
    // What fails at first works the second time.
    let guard = open().or_else(|_| open()).expect("unplugged only once");
    let (mut possible, mut snapshots) = (Possible::new(), Vec::new());
    // What a failure left is asked for at once, or much later.
    let mut looked = !look || !is_adaptive(text);
    let mut after_changes = |keys: &[Vec<u8>]| {
        if !looked && fuse.burnt.load(Ordering::Relaxed) {
            for key in keys {
                let truth = stored_value(&store.memory, key);
                assert_eq!(guard.get(key).expect("plugged"), truth, "{context}");
                let kept = truth.is_some() || !goes(text, &guard, key);
                assert_eq!(kept, truth.is_some(), "{context}");
            }
            looked = true;
        }
    };
    for number in 0..60 {
        let (own, value) = (key(number), key(3 * number));
        let outcome = guard.put(&own, &value).map(usize::from);
        after_changes(std::slice::from_ref(&own));
        note(&mut possible, &[(own, Some(value))], &outcome);
        // Misses that make the filter adapt, and learn while it grows.
        let missing = key(1000 + number);
        assert!(!matches!(guard.get(&missing), Ok(Some(_))), "{context}");
        if number % 5 == 4 {
            let gone = key(number - 2);
            let outcome = guard.remove(&gone).map(usize::from);
            after_changes(std::slice::from_ref(&gone));
            note(&mut possible, &[(gone, None)], &outcome);
        }
        if number % 20 == 19 {
            let records: Vec<_> = (0..7).map(|more| (key(number + more), key(more))).collect();
            let outcome = guard.put_many(&records);
            let keys: Vec<_> = records.iter().map(|(key, _)| key.clone()).collect();
            after_changes(&keys);
            let changes: Vec<_> =
                records.into_iter().map(|(key, value)| (key, Some(value))).collect();
            note(&mut possible, &changes, &outcome);
            snapshots.extend(guard.snapshot());
        }
    }
    assert_eq!(fuse.burnt.load(Ordering::Relaxed), number != 0, "{context}");
    let calls = fuse.calls.load(Ordering::Relaxed);
    // Whatever failed, no snapshot that there is denies a key.
    for snapshot in snapshots {
        let store = store.clone();
        let hidden = &mut |_, _| ();
        let again = Guard::open_with(store, hasher(), &options, Some(&snapshot), hidden);
        again.expect("plugged").check().expect(&context);
    }

    // Every key is as the store has it, and what was acknowledged is there.
    let orphans = guard.stats().keys - stored_count(&store.memory);
    assert!(orphans <= 7, "{context}");
    assert_eq!(guard.check(), Ok(orphans), "{context}");
    for (key, states) in &possible {
        let truth = stored_value(&store.memory, key);
        assert!(states.contains(&truth), "{context}: {truth:?} is none of {states:?}");
        assert!(truth.is_none() || guard.may_contain(key), "{context}: a false negative");
        assert_eq!(guard.get(key).expect("plugged"), truth, "{context}");
    }
    // Whatever happened, guard and store work.
    for number in 0..100 {
        guard.put(key(number), "new").expect("plugged");
    }
    for number in 0..100 {
        assert_eq!(guard.get(key(number)).expect("plugged").as_deref(), Some(&b"new"[..]));
        assert!(guard.remove(key(number)).expect("plugged"), "{context}");
        assert_eq!(guard.get(key(number)).expect("plugged"), None, "{context}");
    }
    // A snapshot is of the store that it was taken of.
    let kept = key(5000);
    assert!(guard.put(&kept, "kept").expect("plugged"));
    let bytes = guard.snapshot().expect("a header");
    let again = Guard::open_with(store.clone(), hasher(), &options, Some(&bytes), &mut |_, _| ());
    let again = again.expect("plugged");
    assert_eq!(*again.opened(), Opened::Snapshot, "{context}");
    assert_eq!(again.get(&kept).expect("plugged").as_deref(), Some(&b"kept"[..]));
    calls
}

/// Every call of the store fails once, and so does every call that has done what
/// it then reports as failed.
#[test]
fn a_store_that_fails_anywhere_loses_nothing() {
    for text in SPECS {
        let calls = survive(text, 0, false, false);
        assert!(calls > 150, "{text}: {calls}");
        for number in 1..=calls {
            for (after, look) in [(false, false), (false, true), (true, false), (true, true)] {
                survive(text, number, after, look);
            }
        }
    }
}

/// What failed puts leave is no damage; a key that the filter denies is, and so is
/// a key whose fingerprint another has taken.
#[test]
fn fingerprints_without_keys_are_counted_and_told_from_damage() {
    for text in SPECS {
        let full = Arc::new(AtomicBool::new(false));
        let hook = full.clone();
        let store = Arc::new(Hooked::new(move |call: Call, _: When| {
            let fails = hook.load(Ordering::Relaxed) && call == Call::Write;
            if fails { Err("no space left".into()) } else { Ok(()) }
        }));
        let guard = Guard::open(store.clone(), hasher(), &options(text, 200, 1)).expect("empty");
        for number in 0..50 {
            guard.put(key(number), "value").expect("room");
        }
        full.store(true, Ordering::Relaxed);
        for number in 50..55 {
            guard.put(key(number), "value").expect_err("a full disk");
        }
        assert_eq!(guard.check(), Ok(5), "{text}");
        // Behind the guard's back.
        let behind = |key: &[u8], record: Option<&[u8]>| {
            store.memory.write(&[(hasher().digest(key), record)]).expect("in memory");
        };
        let denied = (1000..).map(key).find(|key| !guard.may_contain(key)).expect("one of many");
        behind(&denied, Some(b""));
        let broken = guard.check().expect_err("a key is denied");
        assert!(broken.contains("absent"), "{text}: {broken}");
        behind(&denied, None);
        assert_eq!(guard.check(), Ok(5), "{text}");
        let shared = (1000..).map(key).filter(|key| guard.may_contain(key)).take(20);
        shared.for_each(|key| behind(&key, Some(b"")));
        guard.check().expect_err("more keys than fingerprints");
    }
}

/// A put that fails leaves a fingerprint, which goes when its key is asked for:
/// wherever the filter keeps it.
#[test]
fn what_a_failed_put_leaves_goes_when_it_shows_itself() {
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let full = Arc::new(AtomicBool::new(false));
        let hook = full.clone();
        let store = Arc::new(Hooked::new(move |call: Call, when: When| {
            let fails = hook.load(Ordering::Relaxed) && call == Call::Write && when == When::Before;
            if fails { Err("no space left".into()) } else { Ok(()) }
        }));
        let guard = Guard::open(store.clone(), hasher(), &options(text, 8600, 0)).expect("empty");
        // So many that some groups of a broom filter are full.
        for number in 0..8600 {
            guard.put(key(number), "value").expect("room");
        }
        full.store(true, Ordering::Relaxed);
        let (mut gone, mut dropped) = (0, 0);
        for missing in (10_000..12_000).map(key) {
            let before = guard.stats().keys;
            guard.put(&missing, "value").expect_err("a full disk");
            assert!(guard.may_contain(&missing), "{text}: it was to be stored");
            gone += usize::from(goes(text, &guard, &missing));
            dropped += usize::from(guard.stats().keys <= before);
        }
        // A block may have too small a budget to set a query apart; a broom filter
        // has none.
        let least = if text.starts_with("broom") { 2000 } else { 1900 };
        assert!(gone >= least, "{text}: {gone} of 2000");
        // Some are taken for another key's, whose own then has no owner: they
        // stay until they cause a false positive themselves.
        assert!(dropped > 1000, "{text}: {dropped} of 2000");
        full.store(false, Ordering::Relaxed);
        for number in 0..8600 {
            assert!(guard.contains(key(number)).expect("in memory"), "{text}");
        }
    }
}

/// A full disk: writes fail, and are tried again and again.
#[test]
fn writes_that_keep_failing_do_not_fill_the_memory() {
    for text in SPECS {
        let full = Arc::new(AtomicBool::new(false));
        let hook = full.clone();
        let store = Arc::new(Hooked::new(move |call: Call, when: When| {
            let fails = hook.load(Ordering::Relaxed) && call == Call::Write && when == When::Before;
            if fails { Err("no space left".into()) } else { Ok(()) }
        }));
        let guard = Guard::open(store.clone(), hasher(), &options(text, 500, 1)).expect("empty");
        for number in 0..300 {
            guard.put(key(number), "value").expect("room");
        }
        let before = guard.stats();
        full.store(true, Ordering::Relaxed);
        for number in 0..5000 {
            let error = guard.put(key(1000 + number % 50), "value").expect_err("a full disk");
            assert!(error.to_string().contains("no space left"), "{error}");
        }
        let after = guard.stats();
        assert!(after.bytes <= 2 * before.bytes, "{text}: {before:?}, then {after:?}");
        full.store(false, Ordering::Relaxed);
        for number in 0..300 {
            assert!(guard.contains(key(number)).expect("in memory"), "{text}");
        }
        for number in 1000..1050 {
            assert!(!guard.contains(key(number)).expect("in memory"), "{text}");
            assert!(guard.put(key(number), "value").expect("room"), "{text}");
            assert!(guard.contains(key(number)).expect("in memory"), "{text}");
        }
    }
}

fn open_with(
    store: &Arc<MemoryStore>,
    hasher: KeyHasher,
    options: &GuardOptions,
    snapshot: Option<&[u8]>,
) -> Result<Guard<Arc<MemoryStore>>, Error> {
    Guard::open_with(store.clone(), hasher, options, snapshot, &mut |_, _| ())
}

#[test]
fn another_hasher_is_an_error_before_anything_is_answered() {
    let store = Arc::new(MemoryStore::default());
    let options = options("telescoping:f=8", 100, 2);
    let guard = open_with(&store, hasher(), &options, None).expect("an empty store");
    guard.put("key", "value").expect("in memory");
    let snapshot = guard.snapshot().expect("a header");
    drop(guard);
    let (accesses, header) = (store.accesses(), store.header().expect("in memory"));
    for other in [KeyHasher::fast(1), KeyHasher::keyed([7; 16])] {
        for snapshot in [None, Some(&snapshot[..])] {
            let error = open_with(&store, other.clone(), &options, snapshot).err().expect("wrong");
            assert!(matches!(error, Error::Format { .. }), "{error}");
            assert!(error.to_string().contains("another hasher or secret"), "{error}");
        }
    }
    assert_eq!(store.accesses(), accesses, "not a record was read");
    assert_eq!(store.header().expect("in memory"), header);
    let guard = open_with(&store, hasher(), &options, Some(&snapshot)).expect("the right one");
    assert_eq!(*guard.opened(), Opened::Snapshot);
}

/// The tag of a store is that of its hasher, and one more for each layout of records
/// since the first.
#[test]
fn a_store_with_records_of_an_earlier_layout_is_refused_not_misread() {
    let store = Arc::new(MemoryStore::default());
    let options = options("telescoping:f=8", 100, 2);
    let guard = open_with(&store, hasher(), &options, None).expect("an empty store");
    let snapshot = guard.snapshot().expect("a header");
    drop(guard);
    let header = store.header().expect("in memory").expect("a guard was there");
    // As the first layout had it: four bytes of length.
    let record = b"\x03\0\0\0keyvalue";
    store.write(&[(hasher().digest("key"), Some(record))]).expect("in memory");
    let earlier = Header { tag: header.tag.wrapping_sub(1), ..header };
    store.set_header(earlier).expect("in memory");
    for snapshot in [None, Some(&snapshot[..])] {
        let error = open_with(&store, hasher(), &options, snapshot).err().expect("refused");
        let text = error.to_string();
        assert!(matches!(error, Error::Outdated) && text.contains("build it again"), "{text}");
    }
    assert_eq!(store.header().expect("in memory"), Some(earlier));
}

/// A guard that took them would answer "absent" for every one of their keys.
#[test]
fn records_of_others_in_a_store_without_a_header_are_refused() {
    let options = options("telescoping:f=8", 100, 2);
    let own = twiceshy::guard::record(b"key", b"value");
    let digest = hasher().digest("key");
    let opened = |digest, record: &[u8]| {
        let store = Arc::new(MemoryStore::default());
        store.write(&[(digest, Some(record))]).expect("in memory");
        let guard = open_with(&store, hasher(), &options, None);
        assert_eq!(store.header().expect("in memory").is_some(), guard.is_ok());
        guard
    };
    let guard = opened(digest, &own).expect("its own record");
    assert_eq!(guard.get("key").expect("in memory").as_deref(), Some(&b"value"[..]));
    assert!(opened(digest, b"").is_ok(), "as a sidecar has them");
    let of_another_hasher = KeyHasher::random().digest("key");
    for (digest, record) in
        [(of_another_hasher, &own[..]), (digest, b"\x03\0\0\0keyvalue"), (digest, b"\x7f")]
    {
        let error = opened(digest, record).err().expect("refused");
        assert!(matches!(error, Error::Format { .. }), "{error}");
        assert!(error.to_string().contains("their keys: 1;"), "{error}");
    }
}

/// The reason for which a snapshot is not used is told, and the filters are built
/// again.
#[test]
fn a_snapshot_of_something_else_is_not_used() {
    let store = Arc::new(MemoryStore::default());
    let usual = options("telescoping:f=8", 100, 2);
    let guard = open_with(&store, hasher(), &usual, None).expect("an empty store");
    for number in 0..50 {
        guard.put(key(number), "value").expect("in memory");
    }
    let bytes = guard.snapshot().expect("a header");
    drop(guard);
    let reason = |options: &GuardOptions, snapshot: Option<&[u8]>| {
        let guard = open_with(&store, hasher(), options, snapshot).expect("in memory");
        for number in 0..50 {
            assert!(guard.contains(key(number)).expect("in memory"));
        }
        assert_eq!(guard.check(), Ok(0));
        match guard.opened() {
            Opened::Rebuilt { reason } => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason(&usual, None), "there is none");
    let shards = reason(&options("telescoping:f=8", 100, 3), Some(&bytes));
    assert_eq!(shards, "it has 2^2 shards instead of 2^3");
    let spec = reason(&options("telescoping:f=9", 100, 2), Some(&bytes));
    assert!(spec.contains("f=8") && spec.contains("not telescoping:f=9"), "{spec}");
    let kind = reason(&options("broom:f=8", 100, 2), Some(&bytes));
    assert!(kind.contains("telescoping") && kind.contains("not broom"), "{kind}");
    let cut = reason(&usual, Some(&bytes[..bytes.len() - 1]));
    assert!(!cut.is_empty());
    assert!(!reason(&usual, Some(b"")).is_empty());
    let other = spec_file();
    assert!(reason(&usual, Some(&other)).contains("guard"), "{}", reason(&usual, Some(&other)));

    // Another guard of the same secret: its snapshot is not of this store.
    let elsewhere = Arc::new(MemoryStore::default());
    let guard = open_with(&elsewhere, hasher(), &usual, None).expect("an empty store");
    guard.put("alone", "value").expect("in memory");
    let foreign = guard.snapshot().expect("a header");
    let of_another = reason(&usual, Some(&foreign));
    assert!(of_another.contains("another state"), "{of_another}");
    // Nor is an earlier one of the same records.
    let guard = open_with(&store, hasher(), &usual, None).expect("in memory");
    let _later = guard.snapshot().expect("in memory");
    assert!(reason(&usual, Some(&bytes)).contains("another state"));
}

/// A snapshot whose filters were replaced by others, with every checksum repaired.
#[test]
fn a_tampered_snapshot_is_not_used() {
    let store = Arc::new(MemoryStore::default());
    let options = options("telescoping:f=8", 100, 0);
    let open =
        |snapshot: &[u8]| open_with(&store, hasher(), &options, Some(snapshot)).expect("in memory");
    let guard = open(b"");
    for number in 0..50 {
        guard.put(key(number), "value").expect("in memory");
    }
    let bytes = guard.snapshot().expect("in memory");
    let none = Guard::open(MemoryStore::default(), hasher(), &options).expect("in memory");
    let empty = none.snapshot().expect("in memory");
    assert_eq!(bytes.len(), empty.len(), "one filter of the same size");
    // All but what comes before the filter is the empty one's, then everything is.
    let head = b"twiceshy".len() + 4 + 4 + b"guard".len() + 8 + 8 + 8 + 4;
    for from in [head, 0] {
        let mut forged = bytes.clone();
        forged[from..].copy_from_slice(&empty[from..]);
        twiceshy_filters::format::seal(&mut forged);
        let guard = open(&forged);
        assert!(matches!(guard.opened(), Opened::Rebuilt { .. }), "{:?}", guard.opened());
        assert_eq!(guard.check(), Ok(0));
    }
    assert_eq!(*open(&bytes).opened(), Opened::Snapshot);
    // A store that was changed behind the guard's back, and counts.
    store
        .write(&[(hasher().digest("new"), Some(&twiceshy::guard::record(b"new", b"")))])
        .expect("fine");
    let guard = open(&bytes);
    let counted = Opened::Rebuilt { reason: "it is of 50 records, the store has 51".into() };
    assert_eq!(*guard.opened(), counted);
    assert!(guard.contains("new").expect("in memory"));
}

/// A saved filter that is no snapshot of a guard.
fn spec_file() -> Vec<u8> {
    spec("rsqf:f=8").build(10).expect("a filter").save()
}

/// A store that was deleted, or taken back to a backup, comes to no generation of
/// which there is an old snapshot, however often it is opened and changed.
#[test]
fn an_old_snapshot_never_fits_a_store_with_another_past() {
    let options = options("telescoping:f=8", 100, 1);
    let first = Arc::new(MemoryStore::default());
    let guard = open_with(&first, hasher(), &options, None).expect("an empty store");
    let mut old = vec![guard.snapshot().expect("a header")];
    for number in 0..3 {
        guard.put(key(number), "value").expect("in memory");
        old.push(guard.snapshot().expect("a header"));
    }
    let second = Arc::new(MemoryStore::default());
    for number in 0..5 {
        for snapshot in &old {
            let guard = open_with(&second, hasher(), &options, Some(snapshot)).expect("in memory");
            assert_ne!(*guard.opened(), Opened::Snapshot);
        }
        // Opened without a snapshot, changed once, and dead.
        let guard = open_with(&second, hasher(), &options, None).expect("in memory");
        guard.put(key(100 + number), "value").expect("in memory");
    }
}

#[test]
fn a_guard_that_cannot_be_is_an_error() {
    let open = |text: &str, shard_bits| {
        let guard = Guard::open(MemoryStore::default(), hasher(), &options(text, 10, shard_bits));
        guard.err().expect("impossible").to_string()
    };
    for text in ["cyclic:f=8", "swapping:f=8", "broom:f=8,form=faithful"] {
        assert!(open(text, 2).contains("store in digest order"), "{}", open(text, 2));
    }
    assert!(open("telescoping:f=8", 17).contains("0 to 16"), "{}", open("telescoping:f=8", 17));
}
