//! What a guard says when it could not do what it was asked to.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::Mutex;

use twiceshy::Guard;
use twiceshy::guard::{Error, MemoryStore, Store, record, snapshot_options};

use crate::options;
use crate::stores::{Call, Hooked, When, hasher, spec};

/// The call that fails next, before or after it has happened.
type Next = Arc<Mutex<Option<(Call, When)>>>;

/// A guard whose store fails that call.
fn fragile() -> (Guard<impl Store>, Next) {
    let next = Next::default();
    let hook = next.clone();
    let store = Hooked::new(move |call: Call, when: When| {
        let mut next = hook.lock().expect("no panic");
        if *next == Some((call, when)) {
            *next = None;
            return Err("the disk is full".into());
        }
        Ok(())
    });
    let guard = Guard::open(store, hasher(), &options("telescoping:f=8", 100, 1));
    (guard.expect("an empty store"), next)
}

#[test]
fn a_failed_read_names_the_stores_reason() {
    let (guard, next) = fragile();
    guard.put("key", "value").expect("plugged");
    *next.lock().expect("no panic") = Some((Call::Read, When::Before));
    let error = guard.get("key").expect_err("the read fails");
    assert!(matches!(error, Error::Read(_)), "{error:?}");
    assert_eq!(error.to_string(), "cannot read the store: the disk is full");
    assert_eq!(error.source().expect("the store's").to_string(), "the disk is full");
}

/// The text holds whether or not the store has made the write.
#[test]
fn a_failed_write_does_not_claim_that_nothing_was_stored() {
    for when in [When::Before, When::After] {
        let (guard, next) = fragile();
        guard.put("other", "value").expect("plugged");
        *next.lock().expect("no panic") = Some((Call::Write, when));
        let error = guard.put("key", "value").expect_err("the write fails");
        assert!(matches!(error, Error::Write(_)), "{error:?}");
        assert_eq!(
            error.to_string(),
            "writing to the store failed: the disk is full; the store may have the change or not, \
             so read the key or repeat the write"
        );
        assert_eq!(error.source().expect("the store's").to_string(), "the disk is full");
        assert_eq!(guard.exists("key").expect("plugged"), when == When::After);
    }
}

/// The first write after opening gives the store a new generation, before any record.
#[test]
fn a_failed_header_leaves_the_records_as_they_were() {
    for when in [When::Before, When::After] {
        let (guard, next) = fragile();
        *next.lock().expect("no panic") = Some((Call::SetHeader, when));
        let error = guard.put("key", "value").expect_err("the header fails");
        assert!(matches!(error, Error::Header(_)), "{error:?}");
        assert_eq!(
            error.to_string(),
            "cannot write the store's header: the disk is full; no record was changed"
        );
        assert_eq!(error.source().expect("the store's").to_string(), "the disk is full");
        assert!(!guard.exists("key").expect("plugged"));
    }
}

/// Nobody can find two keys with one digest, so a record of another key is put in place.
#[test]
fn two_keys_with_one_digest_are_an_error() {
    let digest = hasher().digest("key");
    let store = Arc::new(MemoryStore::default());
    let guard = Guard::open(store.clone(), hasher(), &options("telescoping:f=8", 100, 1));
    let guard = guard.expect("an empty store");
    guard.put("key", "value").expect("in memory");
    let other = record(b"another key", b"its value");
    store.write(&[(digest, Some(&other))]).expect("in memory");
    let error = guard.put("key", "new").expect_err("another key is there");
    assert!(matches!(error, Error::SameDigest { digest: found } if found == digest), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "two different keys have {digest:?}, and a store can hold only one of them; choose \
             another key"
        )
    );
    let mut stored = Vec::new();
    store.read(digest..=digest, &mut |_, bytes| stored = bytes.to_vec()).expect("in memory");
    assert_eq!(stored, other, "nothing was written");
}

#[test]
fn a_damaged_record_is_an_error_and_can_be_replaced() {
    let digest = hasher().digest("key");
    let store = Arc::new(MemoryStore::default());
    let guard = Guard::open(store.clone(), hasher(), &options("telescoping:f=8", 100, 1));
    let guard = guard.expect("an empty store");
    guard.put("key", "value").expect("in memory");
    let mut damaged = record(b"key", b"value");
    damaged[5] ^= 1;
    store.write(&[(digest, Some(&damaged))]).expect("in memory");
    let error = guard.get("key").expect_err("damaged");
    assert!(matches!(error, Error::Damaged { digest: found } if found == digest), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "the record under {digest:?} is damaged; store its key again, or run `twiceshy check` \
             on the store"
        )
    );
    guard.put("key", "again").expect("in memory");
    assert_eq!(guard.get("key").expect("in memory").as_deref(), Some(&b"again"[..]));
}

#[test]
fn bytes_that_are_no_snapshot_are_an_error() {
    let filter = spec("rsqf:f=8").build(10).expect("a filter").save();
    for (bytes, part) in [(&b"no snapshot"[..], "snapshot"), (&filter[..], "guard")] {
        let error = snapshot_options(bytes).expect_err("no snapshot");
        assert!(matches!(error, Error::Snapshot { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("not a usable snapshot of a guard: "), "{text}");
        assert!(text.contains(part), "{text}");
        let advice = "; open the store without it, and the filters are built from the store";
        assert!(text.ends_with(advice), "{text}");
    }
}
