//! Backups: of one moment, whole or not there, and opened like any other directory.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use twiceshy::guard::Opened;
use twiceshy::store::{Engine, Error, Redb, SidecarStore};

use crate::harness::{child, open, small};

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

/// Lets a writer stop, also when a test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A writer puts keys 0, 1, 2, .. and takes each away again when there are a hundred more:
/// a copy has those of some moment between its start and its end.
fn is_of_one_moment<E: Engine>() {
    const WINDOW: u64 = 100;
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copies] = ["data", "copies"].map(|name| directory.path().join(name));
    fs::create_dir(&copies).expect("made");
    let store = open::<E>(&data);
    // So that a copy is more than a few writes long.
    let others: Vec<_> = (0..5000).map(|n| (format!("other {n}"), "value")).collect();
    store.put_many(&others).expect("written");
    let key = |n: u64| format!("key {n}");
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let stopping = Stopping(&stop);
        scope.spawn(|| {
            for n in 0.. {
                store.put(key(n), "value").expect("written");
                if n >= WINDOW {
                    assert!(store.remove(key(n - WINDOW)).expect("written"));
                }
                written.store(n + 1, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        while written.load(Ordering::SeqCst) < 2 * WINDOW {
            thread::yield_now();
        }
        for round in 0..4 {
            let to = copies.join(round.to_string());
            let before = written.load(Ordering::SeqCst);
            let records = store.backup(&to).expect("a new name");
            let after = written.load(Ordering::SeqCst) + 1;
            let copy = open::<E>(&to);
            assert!(matches!(copy.opened(), Opened::Rebuilt { .. }));
            assert_eq!(copy.check(), Ok(0));
            assert_eq!(copy.stats().keys, records);
            let found: Vec<u64> =
                (0..after + 1).filter(|&n| copy.exists(key(n)).expect("read")).collect();
            let (first, last) = (found[0], found[found.len() - 1]);
            assert!(found.iter().copied().eq(first..=last), "no holes: {found:?}");
            // Between a put and the removal after it there is one more.
            assert!((WINDOW..=WINDOW + 1).contains(&(last - first + 1)), "{first}..={last}");
            assert!((before..=after).contains(&(last + 1)), "{before}, {last}, {after}");
            assert_eq!(records, 5000 + found.len() as u64);
        }
        drop(stopping);
    });
    assert_eq!(names(&copies), ["0", "1", "2", "3"], "nothing else is left");
    store.close().expect("written");
    // And of a directory that nobody has open.
    let to = copies.join("cold");
    let records = twiceshy::store::backup::<E>(&data, &to, &[("note", b"text")], &mut go_on);
    let copy = open::<E>(&to);
    assert_eq!(copy.stats().keys, records.expect("a new name"));
    assert_eq!(fs::read(to.join("note")).expect("it goes along"), b"text");
    assert_eq!(*open::<E>(&data).opened(), Opened::Snapshot, "it is as it was");
}

#[test]
fn a_copy_of_redb_is_of_one_moment() {
    is_of_one_moment::<Redb>();
}

#[cfg(feature = "fjall")]
#[test]
fn a_copy_of_fjall_is_of_one_moment() {
    is_of_one_moment::<twiceshy::store::Fjall>();
}

#[test]
fn what_cannot_be_copied_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, to, wrong] = ["data", "to", "wrong"].map(|name| directory.path().join(name));
    let copy = |from: &Path, to: &Path| {
        twiceshy::store::backup::<Redb>(from, to, &[], &mut go_on).expect_err("refused").to_string()
    };
    assert!(copy(&data, &to).contains("no store here"));
    assert!(!data.exists(), "it is not made");
    // More than are written at once, so that it can be stopped in between.
    let records = (0..70_000_u32).map(|n| (n.to_le_bytes(), ""));
    let store = small().capacity(100_000).build::<Redb, _, _>(&data, records, &mut |_, _| ());
    let store = store.expect("an empty directory");
    let stopped = store.backup_with(&to, &[], &mut |_, _| ControlFlow::Break(()));
    assert!(stopped.expect_err("stopped").to_string().contains("stopped"));
    // Whoever makes one of that name is not disturbed.
    let draft = directory.path().join(".to.unfinished");
    fs::create_dir(&draft).expect("made");
    let lock = fs::File::create(draft.join("lock")).expect("made");
    lock.lock().expect("nobody has it");
    fs::write(draft.join("records.redb"), "half of it").expect("written");
    assert!(matches!(store.backup(&to), Err(Error::Locked { .. })));
    assert_eq!(names(&draft), ["lock", "records.redb"]);
    // But what a crash has left is.
    drop(lock);
    assert_eq!(store.backup(&to).expect("nobody makes one"), 70_000);
    assert!(!draft.exists());
    assert!(store.backup(&to).expect_err("there is one").to_string().contains("exists already"));
    assert!(copy(&data, &wrong).contains("open already"), "{}", copy(&data, &wrong));
    drop(store);
    fs::copy(to.join("records.redb"), data.join("records.redb")).expect("copied");
    fs::write(data.join("secret"), [&[1][..], &[7; 16]].concat()).expect("written");
    assert!(copy(&data, &wrong).contains("secret"), "{}", copy(&data, &wrong));
    assert_eq!(names(directory.path()), ["data", "to"]);
}

#[test]
fn a_sidecar_is_copied_as_a_sidecar() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, hot, cold] = ["data", "hot", "cold"].map(|name| directory.path().join(name));
    let sidecar: SidecarStore =
        small().build_sidecar(&data, ["a", "b"], &mut |_, _| ()).expect("an empty directory");
    assert_eq!(sidecar.backup(&hot).expect("a new name"), 2);
    drop(sidecar);
    assert_eq!(twiceshy::store::backup::<Redb>(&data, &cold, &[], &mut go_on).expect("closed"), 2);
    for copy in [hot, cold] {
        let copy = twiceshy::open_sidecar(copy).expect("a sidecar");
        assert!(copy.guard().contains("a") && copy.guard().contains("b"));
        assert_eq!(copy.guard().check(), Ok(0));
    }
}

/// In another process: copies `data` to `to` again and again, and says when it begins.
pub fn copies_until_killed(directory: &Path) {
    let store = open::<Redb>(&directory.join("data"));
    for round in 0.. {
        println!("begins");
        store.backup(directory.join(format!("to-{round}"))).expect("a new name");
    }
}

#[test]
fn a_process_that_is_killed_leaves_whole_copies_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let records: Vec<_> = (0..20_000_u32).map(|n| (n.to_le_bytes(), [7; 50])).collect();
    open::<Redb>(&directory.path().join("data")).put_many(&records).expect("written");
    let mut unfinished = 0;
    for round in 0..8 {
        let mut command = child("backup", directory.path());
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let begins = |line: &String| line == "begins";
        lines.by_ref().map(|line| line.expect("text")).find(begins).expect("it begins");
        thread::sleep(std::time::Duration::from_millis(5 * round));
        process.kill().expect("it runs");
        process.wait().expect("it ran");
        for name in names(directory.path()) {
            let path = directory.path().join(&name);
            if name.starts_with("to-") {
                let copy = open::<Redb>(&path);
                assert_eq!((copy.stats().keys, copy.check()), (20_000, Ok(0)), "{name}");
                drop(copy);
                fs::remove_dir_all(path).expect("removed");
            } else if name != "data" {
                assert!(name.starts_with(".to-") && name.ends_with(".unfinished"), "{name}");
                unfinished += 1;
                // As whoever has to look after disks may do.
                fs::remove_dir_all(path).expect("removed");
            }
        }
    }
    assert!(unfinished > 0, "it was killed while it copied");
}

/// A directory that was put back from a copy stays one when a backup of it is made: a
/// backup only looks at it, and a shield must not take it for what a clean stop left.
#[test]
fn a_backup_of_a_restored_directory_does_not_vouch_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, kept, copy] = ["data", "kept", "copy"].map(|name| directory.path().join(name));
    let store = open::<Redb>(&data);
    store.put("key", "value").expect("written");
    store.close().expect("closed");
    assert!(open::<Redb>(&data).was_intact(), "nobody has touched it");
    fs::create_dir(&kept).expect("made");
    for name in names(&data) {
        fs::copy(data.join(&name), kept.join(&name)).expect("copied");
    }
    fs::remove_dir_all(&data).expect("removed");
    fs::rename(&kept, &data).expect("renamed");
    assert_eq!(twiceshy::store::backup::<Redb>(&data, &copy, &[], &mut go_on).expect("copied"), 1);
    let restored = open::<Redb>(&data);
    assert!(!restored.was_intact(), "it was restored, whoever has looked at it since");
    restored.close().expect("closed");
    assert!(open::<Redb>(&data).was_intact(), "it has a generation of its own by now");
}

/// What is in the way of a backup and is not an unfinished one is left alone.
#[test]
fn a_backup_removes_nothing_of_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copy, other] = ["data", "copy", "other"].map(|name| directory.path().join(name));
    let draft = directory.path().join(".copy.unfinished");
    let store = open::<Redb>(&data);
    store.put("key", "value").expect("written");
    let notes = |place: &Path| {
        fs::create_dir_all(place).expect("made");
        fs::write(place.join("notes.txt"), "mine").expect("written");
    };
    notes(&draft);
    fs::write(draft.join("secret"), "an unfinished backup's, perhaps").expect("written");
    let refused = store.backup(&copy).expect_err("something else is in the way");
    assert!(refused.to_string().contains("notes.txt"), "{refused}");
    assert_eq!(names(&draft), ["lock", "notes.txt", "secret"]);
    fs::remove_dir_all(&draft).expect("removed");

    #[cfg(unix)]
    {
        notes(&other);
        std::os::unix::fs::symlink(&other, &draft).expect("linked");
        let refused = store.backup(&copy).expect_err("a link is in the way");
        assert!(refused.to_string().contains("remove it"), "{refused}");
        assert_eq!(names(&other), ["notes.txt"]);
        fs::remove_file(&draft).expect("removed");
    }

    // What a killed backup leaves is.
    fs::create_dir(&draft).expect("made");
    fs::write(draft.join("records.redb"), "half").expect("written");
    assert_eq!(store.backup(&copy).expect("made"), 1);
    assert!(!draft.exists());
}
