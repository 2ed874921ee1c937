//! Which snapshots a guard uses.

use std::sync::Arc;

use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, MemoryStore, Opened, Store};

use crate::stores::{hasher, spec};
use crate::{key, open_with, options};

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
            assert!(guard.exists(key(number)).expect("in memory"));
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
    assert!(guard.exists("new").expect("in memory"));
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
