//! Stores and options that a guard refuses, and the texts of its errors.

use std::sync::Arc;

use twiceshy::guard::{Error, Header, MemoryStore, Opened, Store};
use twiceshy::{Guard, KeyHasher};

use crate::stores::hasher;
use crate::{open_with, options};

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
            assert!(matches!(error, Error::WrongSecret), "{error:?}");
            assert_eq!(
                error.to_string(),
                "the store's digests were made with another hasher or secret; open the store with \
                 the one that it was made with"
            );
        }
    }
    assert_eq!(store.accesses(), accesses, "not a record was read");
    assert_eq!(store.header().expect("in memory"), header);
    let guard = open_with(&store, hasher(), &options, Some(&snapshot)).expect("the right one");
    assert_eq!(*guard.opened(), Opened::Snapshot);
}

/// The tag of a store is that of its hasher plus the layout of the records. Layouts of earlier
/// and later versions are told from another secret.
#[test]
fn a_store_with_another_layout_is_refused_not_misread() {
    let store = Arc::new(MemoryStore::default());
    let options = options("telescoping:f=8", 100, 2);
    let guard = open_with(&store, hasher(), &options, None).expect("an empty store");
    let snapshot = guard.snapshot().expect("a header");
    drop(guard);
    let header = store.header().expect("in memory").expect("a guard was there");
    for (step, layout) in [(u64::MAX, 1), (1, 3)] {
        let other = Header { tag: header.tag.wrapping_add(step), ..header };
        store.set_header(other).expect("in memory");
        for snapshot in [None, Some(&snapshot[..])] {
            let error = open_with(&store, hasher(), &options, snapshot).err().expect("refused");
            assert_eq!(
                error.to_string(),
                format!(
                    "the store's records have layout {layout}, and this version reads layout 2; \
                     open the store with the version of twiceshy that wrote it"
                )
            );
            assert!(matches!(error, Error::UnknownLayout { known: 2, .. }), "{error:?}");
        }
        assert_eq!(store.header().expect("in memory"), Some(other));
    }
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
        assert!(matches!(error, Error::Misfiled { records: 1 }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "the store has no header, and 1 of its records are not filed under the digest of \
             their key; fill the store with the hasher that it is opened with"
        );
    }
}

#[test]
fn options_that_no_guard_can_have_are_an_error() {
    let open = |text: &str, shard_bits| {
        let guard = Guard::open(MemoryStore::default(), hasher(), &options(text, 10, shard_bits));
        guard.err().expect("impossible")
    };
    for text in ["cyclic:f=8", "swapping:f=8", "broom:f=8,form=faithful"] {
        let error = open(text, 2);
        assert!(matches!(error, Error::Filter(_)), "{error:?}");
        assert!(error.to_string().contains("store in digest order"), "{error}");
    }
    let error = open("telescoping:f=8", 17);
    assert!(matches!(error, Error::Options { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a guard cannot have these options: 2^17 shards are too many; shard_bits is 0 to 16"
    );
}
