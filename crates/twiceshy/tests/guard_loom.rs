//! The guard's locks under a model checker: the very code of `src/guard`, with every
//! interleaving with at most three preemptions of a few operations in two or three threads
//! (`scripts/loom.sh`).
//!
//! Loom switches threads at each lock and atomic of the protocol and of the store here,
//! at most [`PREEMPTIONS`] times where a thread could have gone on.

#![cfg(loom)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::sync::{Arc, Mutex};
use twiceshy::Guard;
use twiceshy::guard::{Change, GuardOptions, Header, Store};
use twiceshy_filters::{Digest, KeyHasher, RemoteError};

/// More than the bugs that such a search finds need: two or three, as a rule.
const PREEMPTIONS: usize = 3;

/// A store whose every call is a point where loom may switch.
#[derive(Default)]
struct Model {
    records: Mutex<BTreeMap<Digest, Vec<u8>>>,
    header: Mutex<Option<Header>>,
    /// Writes that are still to fail, after they have happened or before.
    failures: Mutex<Vec<Failure>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    Before,
    After,
}

impl Store for Model {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        let records = self.records.lock().expect("no panic");
        records.range(range).for_each(|(digest, record)| visitor(*digest, record));
        Ok(())
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        let failure = self.failures.lock().expect("no panic").pop();
        if failure != Some(Failure::Before) {
            let mut records = self.records.lock().expect("no panic");
            for &(digest, record) in changes {
                match record {
                    Some(record) => records.insert(digest, record.to_vec()),
                    None => records.remove(&digest),
                };
            }
        }
        if failure.is_some() { Err("a write that fails".into()) } else { Ok(()) }
    }

    fn count(&self) -> Result<u64, RemoteError> {
        Ok(self.records.lock().expect("no panic").len() as u64)
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        Ok(*self.header.lock().expect("no panic"))
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        *self.header.lock().expect("no panic") = Some(header);
        Ok(())
    }
}

/// What a thread does to one of the [`keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Put(usize),
    Remove(usize),
    Get(usize),
    Snapshot,
}
use Step::{Get, Put, Remove, Snapshot};

const SPECS: [&str; 3] =
    ["telescoping:f=2,budget=24", "telescoping:f=4,budget=16,spent=reseed", "broom:f=2"];

fn hasher() -> KeyHasher {
    KeyHasher::fast(2026)
}

/// Four keys whose digests begin alike: each passes the filter where another is stored.
fn keys() -> [Vec<u8>; 4] {
    let prefix = |key: &Vec<u8>| hasher().digest(key).words()[0] >> 48;
    let mut alike = BTreeMap::<u64, Vec<Vec<u8>>>::new();
    for number in 0.. {
        let key = format!("key {number}").into_bytes();
        let group = alike.entry(prefix(&key)).or_default();
        group.push(key);
        if group.len() == 4 {
            return std::mem::take(group).try_into().expect("four");
        }
    }
    unreachable!("there is always another number")
}

fn make(guard: &Guard<impl Store>, keys: &[Vec<u8>; 4], step: Step) -> Option<Vec<u8>> {
    match step {
        Put(which) => drop(guard.put(&keys[which], "value")),
        Remove(which) => drop(guard.remove(&keys[which])),
        Get(which) => return guard.get(&keys[which]).expect("reads do not fail"),
        Snapshot => drop(guard.snapshot()),
    }
    None
}

/// Makes `before`, and then the steps of each thread in every order that there is. A key
/// that is stored all along is always found; in the end the guard has what the store has,
/// and as many fingerprints as keys unless writes have failed.
fn model(before: &[Step], threads: &'static [&'static [Step]], failures: &'static [Failure]) {
    let keys = keys();
    for spec in SPECS {
        let (orders, before, keys) =
            (std::sync::Arc::new(AtomicU64::new(0)), before.to_vec(), keys.clone());
        let counted = orders.clone();
        let mut checker = loom::model::Builder::new();
        checker.preemption_bound = Some(PREEMPTIONS);
        checker.max_branches = 10_000;
        checker.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let options = GuardOptions::default()
                .spec(spec.parse().expect("a filter"))
                .capacity(8)
                .shard_bits(0);
            let guard = Guard::open(Model::default(), hasher(), &options).expect("empty");
            for &step in &before {
                make(&guard, &keys, step);
            }
            *guard.store().failures.lock().expect("no panic") = failures.to_vec();
            let guard = Arc::new(guard);
            let changed = |which: usize| {
                threads
                    .iter()
                    .any(|steps| steps.contains(&Put(which)) || steps.contains(&Remove(which)))
            };
            let constant: Vec<Option<bool>> = (0..keys.len())
                .map(|which| (!changed(which)).then(|| before.contains(&Put(which))))
                .collect();
            let running: Vec<_> = threads
                .iter()
                .map(|&steps| {
                    let (guard, keys, constant) = (guard.clone(), keys.clone(), constant.clone());
                    loom::thread::spawn(move || {
                        for &step in steps {
                            let found = make(&guard, &keys, step);
                            if let Get(which) = step
                                && let Some(stored) = constant[which]
                            {
                                assert_eq!(found.is_some(), stored, "{spec}: key {which}");
                            }
                        }
                    })
                })
                .collect();
            running.into_iter().for_each(|thread| thread.join().expect("no panic"));
            let orphans = guard.check().expect("no key is denied");
            assert!(orphans == 0 || !failures.is_empty(), "{spec}: {orphans} orphans");
            for key in &keys {
                let digest = hasher().digest(key);
                let mut stored = false;
                guard.store().read(digest..=digest, &mut |_, _| stored = true).expect("a read");
                assert_eq!(guard.exists(key).expect("a read"), stored, "{spec}");
            }
        });
        println!("{spec}: {threads:?}: {} orders", orders.load(Ordering::Relaxed));
        // Where threads never met there is nothing to see.
        assert!(orders.load(Ordering::Relaxed) > 10);
    }
}

#[test]
fn a_miss_adapts_beside_a_put() {
    model(&[Put(0)], &[&[Put(1)], &[Get(2)]], &[]);
}

#[test]
fn a_miss_adapts_beside_a_removal() {
    // Either of the two may be the one whose fingerprint is taken for the other's.
    model(&[Put(0), Put(1)], &[&[Remove(1)], &[Get(2), Get(0)]], &[]);
    model(&[Put(0), Put(1)], &[&[Remove(0)], &[Get(2), Get(1)]], &[]);
}

#[test]
fn a_miss_adapts_while_one_key_goes_and_another_comes() {
    model(&[Put(0)], &[&[Remove(0), Put(1)], &[Get(2)]], &[]);
}

#[test]
fn a_key_that_is_being_stored_or_removed_is_asked_for() {
    model(&[Put(0)], &[&[Put(1), Remove(1)], &[Get(1), Get(0)]], &[]);
}

#[test]
fn two_misses_adapt_beside_a_put() {
    model(&[Put(0)], &[&[Put(1)], &[Get(2)], &[Get(3)]], &[]);
}

#[test]
fn a_put_and_a_removal_of_one_key_meet_a_miss() {
    model(&[Put(0), Put(1)], &[&[Put(1)], &[Remove(1)], &[Get(2)]], &[]);
}

#[test]
fn a_snapshot_is_taken_beside_a_put_and_a_miss() {
    model(&[Put(0)], &[&[Put(1)], &[Get(2)], &[Snapshot]], &[]);
}

#[test]
fn a_write_that_fails_meets_misses() {
    for failure in [Failure::Before, Failure::After] {
        let failures: &'static [Failure] = match failure {
            Failure::Before => &[Failure::Before],
            Failure::After => &[Failure::After],
        };
        model(&[Put(0)], &[&[Put(1)], &[Get(2), Get(1)]], failures);
        model(&[Put(0), Put(1)], &[&[Remove(1)], &[Get(2), Get(1)]], failures);
    }
}
