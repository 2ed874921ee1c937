//! A file system without room: writes fail with a reason, reads go on, and when there is
//! room again so do writes.

use std::thread::sleep;
use std::time::Duration;

use twiceshy::guard::Store as _;
use twiceshy::store::{Durability, GuardedStore, Redb, check};

use crate::harness::small;
use crate::small_disk::SmallDisk;

/// Records that are put at once.
const BATCH: u64 = 50;

fn record(number: u64) -> ([u8; 8], [u8; 1000]) {
    (number.to_le_bytes(), [number as u8; 1000])
}

fn put(store: &GuardedStore<Redb>, from: u64) -> Result<(), String> {
    let records: Vec<_> = (from..from + BATCH).map(record).collect();
    store.put_many(&records).map(|_| ()).map_err(|error| error.to_string())
}

/// Every acknowledged record is there.
fn has_all(store: &GuardedStore<Redb>, acknowledged: u64) {
    for number in 0..acknowledged {
        let (key, value) = record(number);
        let found = store.get(key).expect("reads go on");
        assert_eq!(found.as_deref(), Some(&value[..]), "{number} of {acknowledged}");
    }
    assert_eq!(store.get("missing").expect("reads go on"), None);
}

#[test]
fn writes_stop_at_a_full_disk_and_go_on_when_there_is_room() {
    for durability in [Durability::Power, Durability::Process] {
        let Some(disk) = SmallDisk::new(8) else { return };
        let directory = disk.path().join("store");
        let options = small().durability(durability).cache(1 << 20);
        let store = options.open::<Redb>(&directory).expect("there is room");
        let mut acknowledged = 0;
        let error = loop {
            match put(&store, acknowledged) {
                Ok(()) => acknowledged += BATCH,
                Err(error) => break error,
            }
            assert!(acknowledged < 20_000, "no end in sight");
        };
        assert!(error.contains("the disk is full") && error.contains("make room"), "{error}");
        assert!(error.contains("records.redb"), "{error}");
        assert!(acknowledged > 500, "only {acknowledged} records fit");
        for _ in 0..5 {
            has_all(&store, acknowledged);
            let again = put(&store, acknowledged).expect_err("there is no room");
            assert!(again.contains("the disk is full"), "{again}");
            sleep(Duration::from_millis(2));
        }
        let checked = store.check();
        assert!(checked.is_ok(), "{checked:?}");

        disk.free();
        let mut tries = 0;
        while let Err(error) = put(&store, acknowledged) {
            tries += 1;
            assert!(tries < 10_000, "it never works again: {error}");
            sleep(Duration::from_millis(1));
        }
        acknowledged += BATCH;
        has_all(&store, acknowledged);
        let checked = store.check();
        assert!(checked.is_ok(), "{checked:?}");
        store.close().expect("there is room");

        assert!(check(&directory, &mut |_, _| ()).expect("closed").is_whole());
        let store = options.open::<Redb>(&directory).expect("it is whole");
        has_all(&store, acknowledged);
        assert_eq!(store.store().count().expect("read"), acknowledged);
    }
}
