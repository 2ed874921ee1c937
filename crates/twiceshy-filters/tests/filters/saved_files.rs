//! Every format version ever written still loads: files in `golden/`.
//!
//! `TWICESHY_BLESS=1 cargo test --test filters saved_files` writes the files that are
//! missing. Old ones are never written again.

use std::path::Path;

use crate::harness::{Random, SPECS};
use twiceshy_filters::{AnyFilter, Spec};

const VERSION: u32 = 1;

/// A small filter that has seen everything: insertions, removals, false
/// positives, a full table.
fn filter(spec: &str) -> AnyFilter {
    let mut random = Random(9);
    let mut filter = spec.parse::<Spec>().expect("a filter").build(20).expect("room");
    let digests = random.digests(30);
    for &digest in &digests {
        // Past the capacity some are handed back.
        let _ = filter.insert(digest);
    }
    for &digest in &digests[..10] {
        filter.remove(digest).expect("in memory");
    }
    for digest in random.digests(300) {
        filter.adapt(digest).expect("in memory");
    }
    filter
}

#[test]
fn files_of_every_version_load() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for spec in SPECS {
        // Named after its spec: "cyclic_f=3_s=1.v1.twiceshy".
        let path = golden.join(format!("{}.v{VERSION}.twiceshy", spec.replace([':', ','], "_")));
        if std::env::var_os("TWICESHY_BLESS").is_some() && !path.exists() {
            std::fs::create_dir_all(&golden).expect("a directory");
            std::fs::write(&path, filter(spec).save()).expect("a file");
        }
        let bytes = std::fs::read(&path).expect("a golden file for every filter of the list");
        let mut loaded = AnyFilter::load(&bytes).expect("a file of an old version");
        assert_eq!(loaded.spec(), spec.parse().expect("a filter"));
        assert_eq!(loaded.save(), bytes, "{spec}: what was read is written again");
        // The keys that were stored are found, by the hashes of that version.
        let kept = &Random(9).digests(30)[10..];
        let len = loaded.stats().len;
        let found = kept.iter().filter(|&&digest| loaded.contains(digest)).count();
        assert!(found >= len && len >= 10, "{spec}: {found} of {len}");
        let removed = kept.iter().filter(|&&digest| loaded.remove(digest).expect("in memory"));
        assert_eq!(removed.count(), len, "{spec}");
    }
}

/// Loading arbitrary bytes: the fuzzers' harness on damaged files, with a
/// checksum that fits, for a few seconds.
#[test]
fn damaged_files_never_panic() {
    let files: Vec<Vec<u8>> = SPECS.iter().map(|spec| filter(spec).save()).collect();
    let mut random = Random(12);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
    while std::time::Instant::now() < until {
        let mut bytes = files[random.next() as usize % files.len()].clone();
        for _ in 0..1 + random.next() % 4 {
            let at = random.next() as usize % bytes.len();
            match random.next() % 4 {
                0 => bytes[at] ^= 1 << (random.next() % 8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.next() as usize % 5],
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        crate::harness::load(&bytes);
    }
}
