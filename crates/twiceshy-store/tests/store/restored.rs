//! Files that are copied at any moment and put back at any other: a right answer or a
//! clear error.

use std::fs;

use twiceshy_store::Redb;

use crate::harness::open;

/// Issue 16, 1.2: a copy of the records that was taken while the store was open, put
/// back after the store was changed and closed.
#[test]
fn a_hot_copy_of_the_records_that_is_put_back_denies_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("records.redb");
    let copy = directory.path().join("copy");
    let keys: Vec<String> = (0..1000).map(|n| format!("key {n}")).collect();
    let store = open::<Redb>(directory.path());
    let records: Vec<_> = keys.iter().map(|key| (key, "value")).collect();
    store.put_many(&records).expect("written");
    fs::copy(&path, &copy).expect("copied");
    store.remove_many(&keys[500..]).expect("written");
    store.close().expect("written");
    fs::copy(&copy, &path).expect("put back");
    let store = open::<Redb>(directory.path());
    let denied = keys.iter().filter(|key| !store.contains(key).expect("read")).count();
    assert_eq!(denied, 0, "of 1000 stored keys; {:?}", store.opened());
    assert_eq!(store.check(), Ok(0));
}
