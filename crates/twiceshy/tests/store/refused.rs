//! Directories that are refused: with a reason, with advice, and as they were.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use twiceshy::guard::Store as _;
use twiceshy::store::{Durability, Engine, EngineOptions, Error, Redb};

use crate::harness::{open, small};

/// A store that was used and closed.
fn used<E: Engine>(directory: &Path) {
    let store = open::<E>(directory);
    let records: Vec<_> = (0..300_u32).map(|n| (n.to_le_bytes(), "value")).collect();
    store.put_many(&records).expect("written");
    store.close().expect("written");
}

/// Every file and what is in it.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut folders, mut files) = (vec![directory.to_path_buf()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("a file");
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// Opens a directory that is to be refused, twice, and compares all files.
fn refused<E: Engine>(directory: &Path, advice: &str) -> Error {
    let before = files(directory);
    let error = small().open::<E>(directory).expect_err(advice);
    let text = error.to_string();
    assert!(text.contains(advice), "{text}");
    let again = small().open::<E>(directory).expect_err("as before").to_string();
    assert_eq!(again, text);
    let after = files(directory);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "{text}");
    for (path, bytes) in &before {
        assert!(after[path] == *bytes, "{} has changed: {text}", path.display());
    }
    error
}

/// Issue 16, 2.5: a file of 0 bytes is no empty store, as long as there is a secret or a
/// snapshot of one that was used.
#[test]
fn an_empty_file_of_records_is_not_an_empty_store() {
    for left in [&["secret", "filter.snapshot"][..], &["secret"], &["filter.snapshot"]] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("records.redb");
        used::<Redb>(directory.path());
        let whole = fs::read(&path).expect("there");
        for name in ["secret", "filter.snapshot"] {
            if !left.contains(&name) {
                fs::remove_file(directory.path().join(name)).expect("there is one");
            }
        }
        fs::write(&path, "").expect("written");
        let error = refused::<Redb>(directory.path(), "restore the file from a backup");
        assert!(matches!(error, Error::Directory { .. }), "{error}");
        assert!(error.to_string().contains("its records.redb is empty"), "{error}");
        fs::remove_file(&path).expect("there is one");
        refused::<Redb>(directory.path(), "has no records.redb");
        // Too short, or not a database.
        for length in [1, 8, 9, 100, 4095, 4096, 5000, whole.len() - 4096, whole.len() - 1] {
            fs::write(&path, &whole[..length]).expect("written");
            let error = refused::<Redb>(directory.path(), "records.redb");
            assert!(matches!(error, Error::Engine { .. }), "{length} bytes: {error}");
        }
        fs::write(&path, vec![0; whole.len()]).expect("written");
        refused::<Redb>(directory.path(), "records.redb");
        // A database of nobody.
        fs::remove_file(&path).expect("there is one");
        if left.contains(&"filter.snapshot") {
            let other = tempfile::tempdir().expect("a directory");
            let new = other.path().join("records.redb");
            drop(Redb::open(&new, &engine_options()).expect("a new one"));
            fs::copy(new, &path).expect("copied");
            refused::<Redb>(directory.path(), "that of a new store");
        }
        fs::write(&path, &whole).expect("written");
        if left.contains(&"secret") {
            let store = open::<Redb>(directory.path());
            assert!((0..300_u32).all(|n| store.exists(n.to_le_bytes()).expect("read")));
        } else {
            refused::<Redb>(directory.path(), "the secret");
        }
    }
    // Nothing but an empty file: somebody began to make a store, and stopped.
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("records.redb"), "").expect("written");
    used::<Redb>(directory.path());
}

fn engine_options() -> EngineOptions {
    EngineOptions::default().durability(Durability::Process).cache(1 << 20)
}

#[cfg(feature = "fjall")]
#[test]
fn an_empty_folder_of_records_is_not_an_empty_store() {
    use twiceshy::store::Fjall;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("records.fjall");
    used::<Fjall>(directory.path());
    fs::remove_dir_all(&path).expect("there is one");
    refused::<Fjall>(directory.path(), "has no records.fjall");
    fs::create_dir(&path).expect("made");
    refused::<Fjall>(directory.path(), "its records.fjall is empty");
}

/// What is refused for other reasons is left as it was, too.
#[test]
fn whatever_is_refused_stays_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    used::<Redb>(path);
    let secret = fs::read(path.join("secret")).expect("there is one");
    let mut other = secret.clone();
    other[5] ^= 1;
    for bytes in [&other[..], &secret[..5], b""] {
        fs::write(path.join("secret"), bytes).expect("written");
        refused::<Redb>(path, "put back the one that the store was made with");
    }
    fs::remove_file(path.join("secret")).expect("there is one");
    refused::<Redb>(path, "put back the one that the store was made with");
    fs::write(path.join("secret"), &secret).expect("written");

    // Of another kind, or of another version.
    let error = twiceshy::open_sidecar(path).expect_err("a store");
    assert!(error.to_string().contains("no digests.redb"), "{error}");
    let set_header = |change: &dyn Fn(twiceshy::guard::Header) -> twiceshy::guard::Header| {
        let engine = Redb::open(&path.join("records.redb"), &engine_options()).expect("there");
        let header = engine.header().expect("read").expect("a guard was there");
        engine.set_header(change(header)).expect("written");
    };
    set_header(&|header| twiceshy::guard::Header { tag: header.tag.wrapping_sub(1), ..header });
    refused::<Redb>(path, "layout 1");
    set_header(&|header| twiceshy::guard::Header { tag: header.tag.wrapping_add(1), ..header });
    let open = open::<Redb>(path);
    let error = small().open::<Redb>(path).expect_err("it is open");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop(open);

    // Records without a header: somebody began to build it.
    let half = tempfile::tempdir().expect("a directory");
    let engine =
        Redb::open(&half.path().join("records.redb"), &engine_options()).expect("a new one");
    let digest = twiceshy_filters::Digest::new([1, 2]);
    engine.write(&[(digest, Some(b"record"))]).expect("written");
    drop(engine);
    fs::write(half.path().join("secret"), &secret).expect("written");
    fs::write(half.path().join("lock"), "").expect("written");
    refused::<Redb>(half.path(), "interrupted");
    // A store is not built over another.
    let before = files(path);
    let built = small().build::<Redb, _, _>(path, [("a", "b")], &mut |_, _| ());
    assert!(built.expect_err("in use").to_string().contains("holds a store already"));
    assert!(files(path) == before, "it is as it was");
}
