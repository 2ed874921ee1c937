//! A store that fails, at every call and for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use twiceshy::Guard;
use twiceshy::guard::{Error, Opened, Store};
use twiceshy_filters::RemoteError;

use crate::stores::{Call, Hooked, SPECS, When, hasher, is_adaptive, stored_count, stored_value};
use crate::{key, options};

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
        assert!(!guard.exists(missing).expect("plugged"), "{text}: it is not stored");
        !guard.contains(missing)
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
        assert!(truth.is_none() || guard.contains(key), "{context}: a false negative");
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
        let denied = (1000..).map(key).find(|key| !guard.contains(key)).expect("one of many");
        behind(&denied, Some(b""));
        let broken = guard.check().expect_err("a key is denied");
        assert!(broken.contains("absent"), "{text}: {broken}");
        behind(&denied, None);
        assert_eq!(guard.check(), Ok(5), "{text}");
        let shared = (1000..).map(key).filter(|key| guard.contains(key)).take(20);
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
            assert!(guard.contains(&missing), "{text}: it was to be stored");
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
            assert!(guard.exists(key(number)).expect("in memory"), "{text}");
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
            assert!(guard.exists(key(number)).expect("in memory"), "{text}");
        }
        for number in 1000..1050 {
            assert!(!guard.exists(key(number)).expect("in memory"), "{text}");
            assert!(guard.put(key(number), "value").expect("room"), "{text}");
            assert!(guard.exists(key(number)).expect("in memory"), "{text}");
        }
    }
}
