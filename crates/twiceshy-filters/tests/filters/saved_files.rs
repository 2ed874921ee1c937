//! Every format version ever written still loads: files in `golden/`.
//!
//! `TWICESHY_BLESS=1 cargo test --test filters saved_files` writes the files that are
//! missing. Old ones are never written again.

use std::path::Path;

use crate::harness::{Random, SPECS};
use twiceshy_filters::{AnyFilter, Spec};

/// The versions of a filter's files, oldest first.
fn versions(spec: &str) -> &'static [u32] {
    match spec {
        // It is newer than the first version.
        "cyclic:f=3,s=1,k=4,b=1,search=next,full=grow" => &[2],
        _ if spec.starts_with("cyclic:") => &[1, 2],
        _ => &[1],
    }
}

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
    let files = SPECS.iter().flat_map(|spec| versions(spec).iter().map(move |v| (spec, v)));
    for (spec, version) in files {
        // Named after its spec: "cyclic_f=3_s=1.v1.twiceshy".
        let path = golden.join(format!("{}.v{version}.twiceshy", spec.replace([':', ','], "_")));
        let is_newest = versions(spec).last() == Some(version);
        if std::env::var_os("TWICESHY_BLESS").is_some() && is_newest && !path.exists() {
            std::fs::create_dir_all(&golden).expect("a directory");
            std::fs::write(&path, filter(spec).save()).expect("a file");
        }
        let bytes = std::fs::read(&path).expect("a golden file for every filter of the list");
        assert_eq!(version_of(&bytes), *version, "{spec}");
        let mut loaded = AnyFilter::load(&bytes).expect("a file of an old version");
        assert_eq!(loaded.spec(), spec.parse().expect("a filter"));
        assert_eq!(loaded.save(), bytes, "{spec}: what was read is written again");
        // The keys that were stored are found, by the hashes of that version.
        let kept = &Random(9).digests(30)[10..];
        let len = loaded.stats().len;
        let found = |filter: &AnyFilter| kept.iter().filter(|&&key| filter.contains(key)).count();
        assert!(found(&loaded) >= len && len >= 10, "{spec}: {} of {len}", found(&loaded));
        // It goes on as a file of its version, and adapts. Rebuilt, it is of the newest.
        for digest in Random(10).digests(300) {
            loaded.adapt(digest).expect("in memory");
        }
        loaded.check().unwrap_or_else(|broken| panic!("{spec}, version {version}: {broken}"));
        let mut rebuilt = AnyFilter::load(&loaded.save()).expect("a filter that has adapted");
        rebuilt.rebuild().expect("the keys fit");
        assert!(found(&rebuilt) >= len, "{spec}");
        let newest = versions(spec).last().expect("there is a version");
        assert_eq!(version_of(&rebuilt.save()), *newest, "{spec}");
        let removed = kept.iter().filter(|&&digest| loaded.remove(digest).expect("in memory"));
        assert_eq!(removed.count(), len, "{spec}");
    }
}

/// The version of the filter in a file of filter and remote: behind the file's own magic, version
/// and kind, the block's length and the filter's own magic.
fn version_of(bytes: &[u8]) -> u32 {
    let kind = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")) as usize;
    let filter = &bytes[16 + kind + 8..];
    assert_eq!(&filter[..8], b"twiceshy");
    u32::from_le_bytes(filter[8..12].try_into().expect("four bytes"))
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
