//! Bytes that a guard has ever written can still be read: files in `golden/`.
//!
//! `TWICESHY_BLESS=1 cargo test -p twiceshy --test guard golden` writes the files that are
//! missing. It never replaces one.

use std::path::Path;
use std::sync::Arc;

use twiceshy::guard::{Header, MemoryStore, Opened, Store, read_record, record};
use twiceshy::{Guard, KeyHasher};
use twiceshy_filters::format::seal;

use crate::{key, open_with, options};

/// The filters of golden snapshots, and the names of their files.
const SNAPSHOTS: [(&str, &str); 2] = [
    ("telescoping:f=4,spent=reseed", "guard-v1-telescoping-f4-reseed.snapshot"),
    ("rsqf:f=6", "guard-v1-rsqf-f6.snapshot"),
];

/// Where a snapshot's nonce is: after the magic number, the version, the kind and the tag.
const NONCE: usize = 8 + 4 + 4 + "guard".len() + 8;

fn golden(name: &str, bytes: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    if std::env::var_os("TWICESHY_BLESS").is_some() && !path.exists() {
        std::fs::create_dir_all(&folder).expect("a directory");
        std::fs::write(&path, bytes()).expect("a file");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn secret() -> KeyHasher {
    KeyHasher::keyed(*b"a golden secret!")
}

/// A guard that has stored, removed and adapted.
fn guard(text: &str) -> (Arc<MemoryStore>, Guard<Arc<MemoryStore>>) {
    let store = Arc::new(MemoryStore::default());
    let guard = open_with(&store, secret(), &options(text, 40, 1), None).expect("an empty store");
    for number in 0..50 {
        guard.put(key(number), key(number + 1)).expect("in memory");
    }
    for number in 40..50 {
        guard.remove(key(number)).expect("in memory");
    }
    for number in 1000..1200 {
        assert_eq!(guard.get(key(number)).expect("in memory"), None);
    }
    (store, guard)
}

#[test]
fn golden_snapshots_are_used() {
    for (text, name) in SNAPSHOTS {
        let bytes = golden(name, || guard(text).1.snapshot().expect("in memory"));
        let (store, guard) = guard(text);
        let adapted = guard.stats().adapted;
        drop(guard);
        // The header of the store that the golden snapshot was taken of.
        let header = store.header().expect("in memory").expect("a guard was there");
        let generation = secret().digest(&bytes).word(0);
        store.set_header(Header { generation, ..header }).expect("in memory");
        let opened = open_with(&store, secret(), &options(text, 40, 1), Some(&bytes));
        let guard = opened.expect("in memory");
        assert_eq!(*guard.opened(), Opened::Snapshot, "{text}");
        assert_eq!(guard.check(), Ok(0), "{text}");
        for number in 0..40 {
            let value = guard.get(key(number)).expect("in memory");
            assert_eq!(value, Some(key(number + 1)), "{text}");
        }
        // What was a false positive then is none now, if the filter adapts.
        (1000..1200).for_each(|number| drop(guard.get(key(number)).expect("in memory")));
        let again = guard.stats().false_positives;
        assert!(adapted == 0 || again * 4 < adapted, "{text}: {again} of {adapted}");
    }
}

/// All but the nonce, which is random, and the checksum over it.
#[test]
fn snapshots_are_written_as_the_golden_ones() {
    for (text, name) in SNAPSHOTS {
        let bytes = golden(name, || guard(text).1.snapshot().expect("in memory"));
        let mut written = guard(text).1.snapshot().expect("in memory");
        let nonce = NONCE..NONCE + 8;
        assert_ne!(written[nonce.clone()], bytes[nonce.clone()], "{text}: not a nonce");
        written[nonce.clone()].copy_from_slice(&bytes[nonce]);
        seal(&mut written);
        assert!(written == bytes, "{text}: {name} is written differently");
    }
}

/// A store whose tag changes cannot be opened any more.
#[test]
fn the_tag_of_a_store_is_golden() {
    let (store, _guard) = guard("rsqf:f=6");
    let header = store.header().expect("in memory").expect("a guard was there");
    assert_eq!(header.tag, TAG, "{:#x}", header.tag);
}

/// Of [`secret`] and the layout of records.
const TAG: u64 = 0x34a3_421b_c8df_a52e;

#[test]
fn golden_records_are_read_and_written() {
    let long = [b'k'; 300];
    for (name, key, value) in [
        ("record-v2-short.bin", &b"key"[..], &b"value"[..]),
        ("record-v2-long-key.bin", &long, b"\0\xff"),
        ("record-v2-empty.bin", b"", b""),
    ] {
        let bytes = golden(name, || record(key, value));
        assert_eq!(read_record(&bytes), Some((key, value)), "{name}");
        assert_eq!(record(key, value), bytes, "{name}");
    }
}
