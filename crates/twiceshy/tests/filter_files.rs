//! Files of `Filter` and `Frozen` that were written once and load for ever: `golden/`.
//!
//! `TWICESHY_BLESS=1 cargo test -p twiceshy --test filter_files` writes the files that are
//! missing. Old ones are never written again.

use std::fs;
use std::path::Path;

use twiceshy::filter::Kind;
use twiceshy::{Filter, Frozen, Key, KeyHasher};

/// Keys of every kind, encoded.
fn stored() -> Vec<Vec<u8>> {
    let numbers = (0..400u64).map(|number| number.encode(<[u8]>::to_vec));
    let texts = (0..50).map(|number| format!("key {number}").into_bytes());
    let pairs = (0..50).map(|number| ("key", -number).encode(<[u8]>::to_vec));
    numbers.chain(texts).chain(pairs).collect()
}

/// A chain, with exceptions.
fn filter(kind: Kind) -> Filter {
    filter_of_rate(kind, 0.2)
}

fn filter_of_rate(kind: Kind, rate: f64) -> Filter {
    let builder = Filter::builder().kind(kind).capacity(20).rate(rate).exceptions(100.0);
    let mut filter = builder.hasher(KeyHasher::keyed(*b"a golden secret.")).build().expect("good");
    filter.extend(stored());
    for key in 1000..1040u64 {
        filter.adapt(key);
    }
    filter
}

fn golden(name: &str, bytes: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = directory.join(name);
    if std::env::var_os("TWICESHY_BLESS").is_some() && !path.exists() {
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(&path, bytes()).expect("a file");
    }
    fs::read(path).expect("a golden file")
}

/// What the files of version 1 hold: filters, exceptions, and how many of the keys from 1000 to
/// 2999 are answered "maybe"; of the first 40 none is.
const LAYERS: usize = 5;
const EXCEPTIONS: usize = 6;
const MAYBE: usize = 302;

#[test]
fn a_filter_of_every_version_loads() {
    let bytes = golden("v1-filter.twiceshy", || filter(Kind::Plain).to_bytes());
    let loaded = Filter::from_bytes(&bytes).expect("a file of an old version");
    loaded.check().expect("all in order");
    let stats = loaded.stats();
    assert_eq!((stats.layers, stats.exceptions), (LAYERS, EXCEPTIONS));
    assert!(stored().iter().all(|key| loaded.contains(key)));
    assert!(!(1000..1040).any(|key| loaded.contains(key)));
    assert_eq!((1000..3000).filter(|key| loaded.contains(key)).count(), MAYBE);
    // Queries have moved exceptions to the front; a fresh one has not.
    let fresh = Filter::from_bytes(&bytes).expect("a file of an old version");
    assert!(fresh.to_bytes() == bytes, "what was read is written again");
    assert!(fresh.hasher() == &KeyHasher::keyed(*b"a golden secret."));
}

#[test]
fn a_frozen_filter_of_every_version_loads() {
    let bytes = golden("v1-frozen.twiceshy", || filter(Kind::Plain).freeze().to_bytes());
    let loaded = Frozen::from_bytes(&bytes).expect("a file of an old version");
    loaded.check().expect("all in order");
    let stats = loaded.stats();
    assert_eq!((stats.layers, stats.exceptions), (LAYERS, EXCEPTIONS));
    assert!(stored().iter().all(|key| loaded.contains(key)));
    assert_eq!((1000..3000).filter(|key| loaded.contains(key)).count(), MAYBE);
    assert!(loaded.to_bytes() == bytes, "what was read is written again");
}

/// The layers of a file name their kind.
#[test]
fn a_quotient_filter_of_every_version_loads() {
    let bytes = golden("v1-filter-rsqf.twiceshy", || filter(Kind::Rsqf).to_bytes());
    let loaded = Filter::from_bytes(&bytes).expect("a file of an old version");
    loaded.check().expect("all in order");
    assert!(loaded.to_bytes() == bytes, "what was read is written again");
    assert!(stored().iter().all(|key| loaded.contains(key)));
    assert!(!(1000..1040).any(|key| loaded.contains(key)));
}

/// A chain that begins with lines and goes on with longer fingerprints of another kind.
#[test]
fn a_line_filter_of_every_version_loads() {
    let make = || filter_of_rate(Kind::Line, 0.005).to_bytes();
    let bytes = golden("v1-filter-line.twiceshy", make);
    assert!(bytes == make(), "a new filter has the bytes of an old one");
    let loaded = Filter::from_bytes(&bytes).expect("a file of an old version");
    loaded.check().expect("all in order");
    assert_eq!(loaded.stats().layers, 5);
    assert!(loaded.to_bytes() == bytes, "what was read is written again");
    assert!(stored().iter().all(|key| loaded.contains(key)));
    assert!(!(1000..1040).any(|key| loaded.contains(key)));
}

/// A file with a secret is not for everybody, even where it replaces one that was. Files that
/// a crash left beside it stay.
#[cfg(unix)]
#[test]
fn a_secret_is_not_for_everybody() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("filter");
    let left = directory.path().join(".filter.0000000000000000.new");
    std::fs::write(&left, "of a crash").expect("written");
    let mode = || std::fs::metadata(&path).expect("saved").permissions().mode() & 0o777;
    let filter = Filter::new(100).expect("a small filter");
    filter.save_without_secret(&path).expect("saved");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
    filter.save_without_secret(&path).expect("saved");
    assert_eq!(mode(), 0o644);
    filter.save(&path).expect("saved");
    assert_eq!(mode(), 0o640);
    assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 2);
}
