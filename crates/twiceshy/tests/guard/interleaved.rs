//! The guard under two threads whose steps are set up one by one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use twiceshy::Guard;
use twiceshy::guard::Store;
use twiceshy_filters::RemoteError;

use crate::options;
use crate::stores::{Call, Hooked, SPECS, When, hasher, is_adaptive};

/// Where a call of the store is stopped: the first of its kind, or a later one.
#[derive(Clone, Copy)]
struct Halt {
    call: Call,
    when: When,
    skipped: u32,
}

/// Stops one call of the store until it may go on.
struct Gate {
    halt: Mutex<Option<Halt>>,
    arrived: SyncSender<()>,
    go_on: Mutex<Receiver<()>>,
}

/// The other side of a [`Gate`].
struct Keeper {
    gate: Arc<Gate>,
    arrived: Receiver<()>,
    go_on: SyncSender<()>,
}

impl Gate {
    fn pass(&self, call: Call, when: When) -> Result<(), RemoteError> {
        if self.stops(call, when) {
            self.arrived.send(())?;
            self.go_on.lock().expect("no panic").recv()?;
        }
        Ok(())
    }

    fn stops(&self, call: Call, when: When) -> bool {
        let mut halt = self.halt.lock().expect("no panic");
        match &mut *halt {
            Some(at) if (at.call, at.when) == (call, when) => {
                if at.skipped > 0 {
                    at.skipped -= 1;
                    return false;
                }
                *halt = None;
                true
            }
            _ => false,
        }
    }
}

impl Keeper {
    fn new() -> Self {
        let (arrived, arrivals) = sync_channel(1);
        let (go_on, waits) = sync_channel(1);
        let gate = Gate { halt: Mutex::new(None), arrived, go_on: Mutex::new(waits) };
        Keeper { gate: Arc::new(gate), arrived: arrivals, go_on }
    }

    /// Runs `slow` in a thread of its own, and `meanwhile` while the call of the
    /// store where `slow` is stopped waits. `false` when there was no such call.
    fn interleave(&self, halt: Halt, slow: impl FnOnce() + Send, meanwhile: impl FnOnce()) -> bool {
        *self.gate.halt.lock().expect("no panic") = Some(halt);
        let stopped = thread::scope(|scope| {
            let slow = scope.spawn(slow);
            let stopped = loop {
                match self.arrived.recv_timeout(Duration::from_micros(100)) {
                    Ok(()) => break true,
                    Err(_) if slow.is_finished() => break false,
                    Err(_) => {}
                }
            };
            if stopped {
                // Also when that fails, or the other would wait for ever.
                let outcome = catch_unwind(AssertUnwindSafe(meanwhile));
                self.go_on.send(()).expect("it waits");
                outcome.unwrap_or_else(|panic| resume_unwind(panic));
            }
            stopped
        });
        *self.gate.halt.lock().expect("no panic") = None;
        stopped
    }
}

/// The first call of a kind.
fn first(call: Call, when: When) -> Halt {
    Halt { call, when, skipped: 0 }
}

/// Keys whose digests begin with the same 16 bits: in a small filter they have
/// one quotient and mostly one remainder.
fn likes() -> Vec<[Vec<u8>; 3]> {
    let mut by_prefix = std::collections::BTreeMap::<u64, Vec<Vec<u8>>>::new();
    for number in 0..200_000 {
        let key = format!("key {number}").into_bytes();
        let prefix = hasher().digest(&key).words()[0] >> 48;
        // A few prefixes, far from each other.
        if prefix % 512 == 17 {
            by_prefix.entry(prefix).or_default().push(key);
        }
    }
    let triples = by_prefix.into_values().flat_map(|keys| {
        keys.chunks_exact(3)
            .map(|three| three.to_vec().try_into().expect("three"))
            .collect::<Vec<_>>()
    });
    triples.collect()
}

fn gated(text: &str) -> (Keeper, Guard<impl Store>) {
    let keeper = Keeper::new();
    let gate = keeper.gate.clone();
    let store = Hooked::new(move |call: Call, when: When| gate.pass(call, when));
    let options = options(text, 40, 1);
    (keeper, Guard::open(store, hasher(), &options).expect("an empty store"))
}

/// A change of one of two keys.
#[derive(Clone, Copy)]
enum Step {
    Put(usize),
    Remove(usize),
}

/// A miss reads the store, which has had the steps `before`. Before the filter adapts come
/// the steps `meanwhile`, with keys of the same fingerprint: what was read is no
/// longer true, and the store is read again.
fn overtaken_read_is_made_again(before: &[Step], meanwhile: &[Step]) {
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let mut tried = 0;
        for [first_key, second_key, missing] in likes() {
            let keys = [first_key, second_key];
            let (keeper, guard) = gated(text);
            let make = |steps: &[Step]| {
                for step in steps {
                    let news = match *step {
                        Step::Put(which) => guard.put(&keys[which], "value"),
                        Step::Remove(which) => guard.remove(&keys[which]),
                    };
                    assert!(news.expect("in memory"), "{text}");
                }
            };
            make(before);
            if !guard.contains(&missing) {
                continue;
            }
            tried += 1;
            let stopped = keeper.interleave(
                first(Call::Read, When::After),
                || assert_eq!(guard.get(&missing).expect("in memory"), None),
                || make(meanwhile),
            );
            assert!(stopped, "a miss that passes the filter reads");
            let mut stored = [false; 2];
            for step in before.iter().chain(meanwhile) {
                match *step {
                    Step::Put(which) => stored[which] = true,
                    Step::Remove(which) => stored[which] = false,
                }
            }
            for (key, stored) in keys.iter().zip(stored) {
                assert!(guard.contains(key) || !stored, "{text}: a false negative");
            }
            assert_eq!(guard.stats().postponed, 0, "{text}");
            assert_eq!(guard.check(), Ok(0), "{text}");
            for (key, stored) in keys.iter().zip(stored) {
                let value = guard.get(key).expect("in memory");
                assert_eq!(value, stored.then(|| b"value".to_vec()), "{text}");
            }
            assert_eq!(guard.get(&missing).expect("in memory"), None);
        }
        assert!(tried >= 3, "{text}: {tried}");
    }
}

/// The new key's slot would be taken for one without an owner.
#[test]
fn a_read_that_a_put_has_overtaken_is_made_again() {
    overtaken_read_is_made_again(&[Step::Put(0)], &[Step::Put(1)]);
}

/// A key goes and another comes: the number of keys is the same.
#[test]
fn a_read_that_a_removal_and_a_put_have_overtaken_is_made_again() {
    overtaken_read_is_made_again(&[Step::Put(0)], &[Step::Remove(0), Step::Put(1)]);
}

/// What was read shows a key more than there are slots.
#[test]
fn a_read_that_a_removal_has_overtaken_is_made_again() {
    overtaken_read_is_made_again(&[Step::Put(0), Step::Put(1)], &[Step::Remove(1)]);
}

/// Adaptations and snapshots change no key: what was read before them is still true, and the
/// filter adapts to it.
#[test]
fn a_read_that_another_adaptation_has_overtaken_is_used() {
    let key = |number: u32| format!("key {number}");
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let mut adapted = 0;
        for round in 0..20 {
            let (keeper, guard) = gated(text);
            let stored: Vec<_> = (0..20).map(|number| key(100 * round + number)).collect();
            stored.iter().for_each(|key| assert!(guard.put(key, "").expect("in memory")));
            // Two that pass, in one shard.
            let mut misses = (1_000_000 * (1 + round)..)
                .map(key)
                .filter(|miss| hasher().digest(miss).words()[0] >> 63 == 0 && guard.contains(miss));
            let [missing, other] = [(); 2].map(|()| misses.next().expect("one of many"));
            let stopped = keeper.interleave(
                first(Call::Read, When::After),
                || assert_eq!(guard.get(&missing).expect("in memory"), None),
                || {
                    assert_eq!(guard.get(&other).expect("in memory"), None);
                    assert!(!guard.snapshot().expect("in memory").is_empty());
                },
            );
            assert!(stopped, "a miss that passes the filter reads");
            assert_eq!(guard.stats().postponed, 0, "{text}");
            assert_eq!(guard.check(), Ok(0), "{text}");
            // A change may happen to collide again.
            adapted += u32::from(!guard.contains(&missing));
        }
        assert!(adapted > 0, "{text}");
    }
}

/// A filter adapts while the store writes, which takes the store milliseconds: the
/// keys that are on their way are neither forgotten nor mistaken for orphans.
#[test]
fn a_filter_adapts_while_the_store_writes() {
    let put = |guard: &Guard<_>, key: &[u8]| assert!(guard.put(key, "value").expect("in memory"));
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let (mut tried, mut adapted) = (0, 0);
        for [stored, other, missing] in likes() {
            for (removes, when) in [(false, When::Before), (false, When::After)]
                .into_iter()
                .chain([(true, When::Before), (true, When::After)])
            {
                let (keeper, guard) = gated(text);
                put(&guard, &stored);
                if removes {
                    put(&guard, &other);
                }
                if !guard.contains(&missing) {
                    continue;
                }
                tried += 1;
                let change = || {
                    let news = if removes { guard.remove(&other) } else { guard.put(&other, "v") };
                    assert!(news.expect("in memory"), "{text}");
                };
                let stopped = keeper.interleave(first(Call::Write, when), change, || {
                    assert_eq!(guard.get(&missing).expect("in memory"), None);
                    adapted += guard.stats().adapted;
                });
                assert!(stopped, "{text}: the store writes");
                assert_eq!(guard.stats().postponed, 0, "{text}");
                assert!(guard.contains(&stored), "{text}: a false negative");
                assert!(guard.contains(&other) || removes, "{text}: a false negative");
                assert_eq!(guard.check(), Ok(0), "{text}");
                assert_eq!(guard.exists(&other).expect("in memory"), !removes, "{text}");
            }
        }
        // A filter that did not adapt found no better fingerprint among so few.
        assert!(tried >= 12 && adapted * 2 > tried, "{text}: {adapted} of {tried}");
    }
}

/// A put has changed the filter and not yet the store: who asks for its key finds
/// none, and must not take the fingerprint for one without an owner.
#[test]
fn a_fingerprint_that_waits_for_its_record_is_not_dropped() {
    for text in SPECS {
        let (keeper, guard) = gated(text);
        for number in 0..200 {
            let key = format!("key {number}");
            let asked = || {
                assert!(guard.contains(&key), "{text}: the filter comes first");
                assert_eq!(guard.get(&key).expect("in memory"), None);
            };
            let stopped = keeper.interleave(
                first(Call::Write, When::Before),
                || assert!(guard.put(&key, "value").expect("in memory")),
                asked,
            );
            assert!(stopped, "a put writes");
            let value = guard.get(&key).expect("in memory");
            assert_eq!(value.as_deref(), Some(&b"value"[..]), "{text}: a false negative");
        }
        let stats = guard.stats();
        assert!(stats.growths > 0, "{text}");
        assert_eq!((stats.postponed, stats.false_positives), (0, 0), "{text}: a put is no miss");
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

/// A removal has changed the store and not yet the filter.
#[test]
fn a_fingerprint_that_outlives_its_record_is_taken_out_once() {
    for text in SPECS {
        let (keeper, guard) = gated(text);
        for number in 0..200 {
            guard.put(format!("key {number}"), "value").expect("in memory");
        }
        for number in 0..200 {
            let key = format!("key {number}");
            let stopped = keeper.interleave(
                first(Call::Write, When::After),
                || assert!(guard.remove(&key).expect("in memory")),
                || assert_eq!(guard.get(&key).expect("in memory"), None),
            );
            assert!(stopped, "a removal writes");
            assert_eq!(guard.stats().keys, 199 - number, "{text}");
            assert!(!guard.exists(&key).expect("in memory"), "{text}");
        }
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

/// A shard that grows reads all its keys: who asks meanwhile is answered.
#[test]
fn a_shard_that_grows_answers() {
    for text in SPECS {
        let (keeper, guard) = gated(text);
        let mut stored = Vec::new();
        let mut answered_while_growing = 0;
        for number in 0..200 {
            let key = format!("key {number}");
            let growths = guard.stats().growths;
            let ask = || {
                for key in &stored {
                    assert!(guard.exists(key).expect("in memory"), "{text}: a false negative");
                }
                assert!(!guard.exists("missing").expect("in memory"), "{text}");
            };
            // The first read is the put's own.
            let halt = Halt { call: Call::Read, when: When::After, skipped: 1 };
            let put = || assert!(guard.put(&key, "value").expect("in memory"));
            let stopped = keeper.interleave(halt, put, ask);
            answered_while_growing += u32::from(stopped && guard.stats().growths > growths);
            stored.push(key);
        }
        assert!(answered_while_growing >= 3, "{text}: {answered_while_growing}");
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}
