//! A sidecar on disk, beside a store of somebody else's.

use std::cell::Cell;
use std::collections::HashSet;
use std::convert::Infallible;
use std::fs;

use twiceshy::guard::{Lookup, Opened};
use twiceshy::store::{Error, Redb, SidecarStore};

use crate::harness::{open, small};

/// Somebody else's store, which counts what it is asked.
struct Users {
    names: HashSet<Vec<u8>>,
    asked: Cell<u64>,
}

impl Lookup for Users {
    type Value = ();
    type Error = Infallible;

    fn lookup(&self, key: &[u8]) -> Result<Option<()>, Infallible> {
        self.asked.set(self.asked.get() + 1);
        Ok(self.names.contains(key).then_some(()))
    }
}

fn name(n: u32) -> Vec<u8> {
    format!("user {n}").into_bytes()
}

#[test]
fn a_sidecar_is_built_opened_and_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let users = Users { names: (0..5000).map(name).collect(), asked: Cell::new(0) };
    let mut told = Vec::new();
    let sidecar: SidecarStore = small()
        .build_sidecar(directory.path(), &users.names, &mut |done, _| told.push(done))
        .expect("an empty directory");
    assert_eq!((told.first(), told.last()), (Some(&5000), Some(&5000)));
    sidecar.close().expect("written");

    let mut sidecar: SidecarStore =
        small().open_sidecar(directory.path(), &mut |_, _| ()).expect("a good directory");
    assert_eq!(*sidecar.guard().opened(), Opened::Snapshot);
    for turn in 0..2 {
        assert_eq!(sidecar.guard().check(), Ok(0));
        for n in 0..5000 {
            assert_eq!(sidecar.get(name(n), &users), Ok(Some(())));
        }
        users.asked.set(0);
        for n in 5000..25_000 {
            assert_eq!(sidecar.get(name(n), &users), Ok(None));
        }
        let asked = users.asked.get();
        // 9/256 of 20000 at full load, and about a hundredth of that again.
        assert!(if turn == 0 { (20..2000).contains(&asked) } else { asked < 60 }, "{asked}");
        drop(sidecar);
        sidecar = small().open_sidecar(directory.path(), &mut |_, _| ()).expect("good");
    }
    assert!(sidecar.added(name(5000)).expect("written"));
    assert!(sidecar.guard().contains(name(5000)));
    assert!(sidecar.removed(name(0)).expect("written"));
    assert_eq!(sidecar.guard().stats().keys, 5000);
}

#[test]
fn what_is_something_else_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let sidecar = directory.path().join("sidecar");
    let built: SidecarStore =
        small().build_sidecar(&sidecar, ["a"], &mut |_, _| ()).expect("an empty directory");
    drop(built);
    let refused = |error: Error, what: &str| {
        assert!(matches!(error, Error::Directory { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let error = small().open::<Redb>(&sidecar).expect_err("it is a sidecar");
    refused(error, "no records.redb");
    let error = small()
        .build_sidecar::<Redb, _>(&sidecar, ["b"], &mut |_, _| ())
        .expect_err("there is one already");
    refused(error, "already");
    let store = directory.path().join("store");
    drop(open::<Redb>(&store));
    let error = twiceshy::open_sidecar(&store).expect_err("it is a store");
    refused(error, "no digests.redb");
}

#[test]
fn a_sidecar_that_was_not_finished_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    // Keys come from somewhere that gives up in the middle of the second chunk.
    let keys = (0..(1 << 19) + 1_u32).map(|n| {
        assert!(n < 1 << 19, "the connection is lost");
        n.to_le_bytes()
    });
    let built = std::panic::catch_unwind(|| {
        small().build_sidecar::<Redb, _>(directory.path(), keys, &mut |_, _| ())
    });
    assert!(built.is_err());
    let error = twiceshy::open_sidecar(directory.path()).expect_err("keys are missing");
    assert!(error.to_string().contains("interrupted"), "{error}");
    fs::remove_dir_all(directory.path()).expect("removed");
    twiceshy::open_sidecar(directory.path()).expect("an empty directory");
}

/// Neighbours in a run go together: what the filter reads while it forgets one has
/// to count in those that it has not forgotten yet.
#[test]
fn many_keys_are_forgotten_with_one_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let sidecar: SidecarStore = small()
        .build_sidecar(directory.path(), (0..5000).map(name), &mut |_, _| ())
        .expect("an empty directory");
    let digests = |range: std::ops::Range<u32>| -> Vec<_> {
        range.map(|n| sidecar.digest(name(n))).collect()
    };
    let mut forgotten = digests(0..3000);
    // Known twice, and not known.
    forgotten.extend(digests(0..10));
    forgotten.extend(digests(5000..5010));
    assert_eq!(sidecar.removed_many(&forgotten).expect("written"), 3000);
    assert_eq!(sidecar.removed_many(&forgotten).expect("written"), 0);
    assert_eq!(sidecar.guard().check(), Ok(0));
    let known = |n: u32| sidecar.exists(sidecar.digest(name(n))).expect("read");
    assert!((0..3000).all(|n| !known(n)) && (3000..5000).all(known));
    assert_eq!(sidecar.guard().stats().keys, 2000);
    let keys: Vec<_> = (0..5000).map(name).collect();
    let maybe = sidecar.contains_many(&keys);
    assert!(maybe[3000..].iter().all(|&maybe| maybe));
    // 9/256 of 3000 at full load is 105; five times that is beyond all chance.
    let left = maybe[..3000].iter().filter(|&&maybe| maybe).count();
    assert!(left < 500, "{left}");
}

/// A directory that was lost, or never finished, must not deny the keys of the store.
#[test]
fn a_directory_denies_nothing_until_it_is_declared_built() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("sidecar");
    let open = || -> SidecarStore {
        small().open_sidecar(&path, &mut |_, _| ()).expect("a good directory")
    };
    let denied = |sidecar: &SidecarStore| {
        (5000..6000).filter(|&n| !sidecar.guard().contains(name(n))).count()
    };
    let sidecar = open();
    assert_eq!(denied(&sidecar), 0, "a new directory");
    sidecar.added_many(&(0..5000).map(name).collect::<Vec<_>>()).expect("written");
    assert_eq!(denied(&sidecar), 0, "nobody has said that these are all");
    drop(sidecar);
    let sidecar = open();
    assert!(!sidecar.is_built() && denied(&sidecar) == 0, "opened again");
    sidecar.built().expect("written");
    assert!(denied(&sidecar) > 800, "built");
    let copy = directory.path().join("copy");
    sidecar.backup(&copy).expect("a new name");
    sidecar.close().expect("written");
    let sidecar = open();
    assert!(sidecar.is_built() && denied(&sidecar) > 800, "built, and opened again");
    drop(sidecar);
    let copy = twiceshy::open_sidecar(copy).expect("a copy");
    assert_eq!(denied(&copy), 0, "the store may have keys that a copy does not know");

    // All is lost but the declaration.
    for entry in fs::read_dir(&path).expect("a directory") {
        let entry = entry.expect("a file");
        if entry.file_name() != "built" {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
    let sidecar = open();
    assert!(!sidecar.is_built() && denied(&sidecar) == 0, "it was of another sidecar");
}

/// Without keys it is the sidecar of an empty store.
#[test]
fn a_sidecar_of_an_empty_store_is_built_without_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let none: [&str; 0] = [];
    let sidecar: SidecarStore =
        small().build_sidecar(directory.path(), none, &mut |_, _| ()).expect("an empty directory");
    assert!(sidecar.is_built() && !sidecar.guard().contains("nobody"));
    drop(sidecar);
    assert!(twiceshy::open_sidecar(directory.path()).expect("good").is_built());
}

#[test]
fn marks_go_to_disk_with_the_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || -> SidecarStore {
        small().open_sidecar(directory.path(), &mut |_, _| ()).expect("a good directory")
    };
    let sidecar = open();
    let [a, b] = ["a", "b"].map(|key| sidecar.digest(key));
    assert_eq!(sidecar.mark("position").expect("read"), None);
    sidecar.follow(&[a, b], &[], &[("position", 1), ("time", 7)]).expect("written");
    sidecar.follow(&[], &[a], &[("position", 2)]).expect("written");
    drop(sidecar);
    let sidecar = open();
    let mark = |name| sidecar.mark(name).expect("read");
    assert_eq!((mark("position"), mark("time"), mark("tag")), (Some(2), Some(7), None));
    assert!(!sidecar.exists(a).expect("read") && sidecar.exists(b).expect("read"));
    assert_eq!(sidecar.removed_marked(&[b], &[("time", 8)]).expect("written"), 1);
    // Also if there is nothing to remove.
    assert_eq!(sidecar.removed_marked(&[b], &[("time", 9)]).expect("written"), 0);
    assert_eq!((mark("position"), mark("time")), (Some(2), Some(9)));
}
