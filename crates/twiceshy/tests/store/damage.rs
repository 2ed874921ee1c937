//! Flipped bits on disk: a right answer or an error, `check` finds them, and `repair`
//! saves the rest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use twiceshy::Sidecar;
use twiceshy::guard::{Opened, Store as _};
use twiceshy::store::{
    Damage, Durability, Engine as _, EngineOptions, GuardedStore, Kept, Redb, Report, check, repair,
};
use twiceshy_filters::KeyHasher;

use crate::harness::{Random, open, small};

/// What the engine gives room in.
const PAGE: usize = 4096;

/// A closed store, its files, and what it has.
struct Victim {
    directory: tempfile::TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
    truth: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes of the records' file that are on pages in use, or were.
    in_use: Vec<usize>,
}

impl Victim {
    fn new() -> Self {
        // Files are written hundreds of times here.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(place).expect("a directory");
        let mut truth = BTreeMap::new();
        for number in 0..400_u32 {
            // Some values fill several pages.
            let length = if number % 50 == 0 { 9000 } else { number as usize % 40 };
            let value = vec![number as u8; length];
            truth.insert(format!("key {number}").into_bytes(), value);
        }
        let store = open::<Redb>(directory.path());
        let records: Vec<_> = truth.iter().collect();
        store.put_many(&records).expect("written");
        store.close().expect("written");
        let mut victim = Victim { directory, files: Vec::new(), truth, in_use: Vec::new() };
        victim.files = files(victim.path());
        let records = victim.records();
        let blocks = (0..records.len()).step_by(PAGE);
        let used = blocks.filter(|&at| records[at..at + PAGE].iter().any(|&byte| byte != 0));
        victim.in_use = used.flat_map(|at| at..at + PAGE).filter(|&at| records[at] != 0).collect();
        victim
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn records(&self) -> Vec<u8> {
        let records = self.files.iter().find(|(path, _)| path.ends_with("records.redb"));
        records.expect("there is one").1.clone()
    }

    /// Puts all files back, with other records. `unnoticed`: as a disk does it, without
    /// a trace in the file system.
    fn damage(&self, records: &[u8], unnoticed: bool) {
        for (path, bytes) in &self.files {
            let is_records = path.ends_with("records.redb");
            fs::write(path, if is_records { records } else { bytes }).expect("written");
        }
        if unnoticed {
            use std::os::unix::fs::MetadataExt as _;
            let of = fs::metadata(self.path().join("records.redb")).expect("there");
            let (inode, seconds, nanos) = (of.ino(), of.ctime(), of.ctime_nsec());
            let closed = format!(" {inode} {seconds} {nanos} {}\n", of.len());
            fs::write(self.path().join("closed"), closed).expect("written");
        }
    }

    fn check(&self) -> Report {
        check(self.path(), &mut |_, _| ()).expect("nobody has it open")
    }

    /// Asks for every key, writes, and asks again; how many were denied. A wrong value is a
    /// failure of the test.
    fn denied(&self, context: &str) -> u64 {
        let Ok(store) = small().open::<Redb>(self.path()) else { return 0 };
        let mut truth = self.truth.clone();
        let mut denied = asked(&store, &truth, context);
        // Errors and all: nothing panics, and other threads are not locked out. What is
        // written beside damage must not hide it: pages are copied, split and merged.
        for number in 0..40 {
            let new = format!("new {number}").into_bytes();
            if store.put(&new, "value").is_ok() {
                truth.insert(new, b"value".to_vec());
            }
            let old = format!("key {}", 100 + number).into_bytes();
            // A removal that fails may have happened.
            truth.remove(&old);
            denied += u64::from(matches!(store.remove(&old), Ok(false)));
        }
        truth.remove(&b"key 7"[..]);
        let _ = (store.put("key 7", "value"), store.snapshot());
        denied + asked(&store, &truth, context)
    }
}

/// Asks for every key; how many are denied.
fn asked(store: &GuardedStore, truth: &BTreeMap<Vec<u8>, Vec<u8>>, context: &str) -> u64 {
    let mut denied = 0;
    for (key, value) in truth {
        match store.get(key) {
            Ok(Some(found)) => assert_eq!(found, *value, "{context}: a wrong value"),
            Ok(None) => denied += 1,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("twiceshy check"), "{context}: {text}");
            }
        }
    }
    denied
}

fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).expect("a directory");
    let path = |entry: std::io::Result<fs::DirEntry>| entry.expect("readable").path();
    entries.map(path).map(|path| (path.clone(), fs::read(path).expect("readable"))).collect()
}

/// Damages to a file: bits, bytes, and whole blocks of other contents.
fn damaged(records: &[u8], in_use: &[usize], trial: u64, random: &mut Random) -> Vec<u8> {
    let mut bytes = records.to_vec();
    let at = in_use[random.below(in_use.len() as u64) as usize];
    match trial % 4 {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = bytes[at].wrapping_add(1 + random.below(255) as u8),
        _ => {
            let sector = at / 512 * 512;
            bytes[sector..sector + 512].fill(random.below(256) as u8);
        }
    }
    bytes
}

/// Whatever is damaged: no wrong value, no stored key is denied, and no panic. It does not
/// matter whether the filters are from a snapshot or built again, nor whether the file
/// system tells that the file was changed.
#[test]
fn flipped_bits_are_errors_and_are_found() {
    let found = flipped_bits(16, 240);
    // The places are random. A third of them or more are on pages in use: fewer than 40 of
    // 240 have a probability below 10^-8.
    assert!(found > 40, "{found} of 240 were on pages in use");
}

#[test]
#[ignore = "takes minutes"]
fn thousands_of_flipped_bits_are_errors() {
    for seed in 100..120 {
        flipped_bits(seed, 240);
    }
}

/// How many damages `check` found.
fn flipped_bits(seed: u64, damages: u64) -> u64 {
    let victim = Victim::new();
    let records = victim.records();
    victim.damage(&records, true);
    assert!(victim.check().is_whole());
    assert_eq!(victim.denied("unharmed"), 0);

    let mut random = Random::new(seed);
    let mut found = 0;
    for trial in 0..damages {
        let bytes = damaged(&records, &victim.in_use, trial, &mut random);
        let context = format!("seed {seed}, trial {trial}");
        victim.damage(&bytes, true);
        found += u64::from(!victim.check().is_whole());
        assert_eq!(victim.denied(&context), 0, "{context}: keys were denied");

        victim.damage(&bytes, true);
        fs::remove_file(victim.path().join("filter.snapshot")).expect("there was one");
        assert_eq!(victim.denied(&context), 0, "{context}: filters were built of damage");

        victim.damage(&bytes, false);
        assert_eq!(victim.denied(&context), 0, "{context}: a changed file was trusted");
    }
    println!("seed {seed}: of {damages} damages check found {found}");
    found
}

/// What `repair` leaves is whole, has every record that was, and nothing else; what is
/// missing is on the list.
#[test]
fn a_repair_keeps_what_is_whole_and_lists_the_rest() {
    let victim = Victim::new();
    let records = victim.records();
    let mut random = Random::new(17);
    let mut lost = 0;
    for trial in 0..60 {
        let bytes = damaged(&records, &victim.in_use, trial, &mut random);
        victim.damage(&bytes, true);
        let to = victim.path().join("repaired");
        let report = repair(victim.path(), &to, &mut |_, _| ()).expect("it is repaired");
        assert_eq!(fs::read(victim.path().join("records.redb")).expect("there"), bytes);
        let store = open::<Redb>(&to);
        assert_eq!(store.check(), Ok(0), "trial {trial}");
        let mut missing = 0;
        for (key, value) in &victim.truth {
            match store.get(key).expect("it is whole") {
                Some(found) => assert_eq!(found, *value, "trial {trial}"),
                None => missing += 1,
            }
        }
        assert_eq!(store.stats().keys, report.records, "trial {trial}");
        assert!(missing == 0 || !report.is_whole(), "trial {trial}: {missing} not on the list");
        lost += missing;
        drop(store);
        assert!(check(&to, &mut |_, _| ()).expect("closed").is_whole());
        fs::remove_dir_all(&to).expect("removed");
    }
    println!("{lost} of {} records lost", 60 * victim.truth.len());
    // One in five damages or more costs a record, and one in twenty or fewer all 400: none
    // of 60, or 15 and more, have a probability below 10^-6.
    assert!(lost > 0 && lost < 15 * 400, "{lost} records lost");
}

/// A store that was not closed, and is damaged: the engine gives up, `repair` does not.
#[test]
fn a_damaged_file_that_was_not_closed_is_repaired() {
    let victim = Victim::new();
    let store = open::<Redb>(victim.path());
    store.put("late", "value").expect("written");
    let mut bytes = fs::read(victim.path().join("records.redb")).expect("there");
    drop(store);
    // The value of a key, in every copy: pages that are no longer in use have some as well.
    let copies = bytes.windows(7).enumerate().filter(|(_, window)| window == b"key 123");
    let places: Vec<usize> = copies.map(|(at, _)| at + 8).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|&at| bytes[at] ^= 4);
    victim.damage(&bytes, false);
    let error = small().open::<Redb>(victim.path()).expect_err("it is damaged").to_string();
    assert!(error.contains("twiceshy check"), "{error}");
    let report = victim.check();
    let key = |damage: &Damage| matches!(damage, Damage::Record { .. });
    assert_eq!(report.damage.iter().filter(|damage| key(damage)).count(), 1, "{report:?}");

    let to = victim.path().join("repaired");
    repair(victim.path(), &to, &mut |_, _| ()).expect("it is repaired");
    let store = open::<Redb>(&to);
    assert_eq!(store.get("late").expect("whole").as_deref(), Some(&b"value"[..]));
    assert_eq!(store.stats().keys, 400);
    assert_eq!(store.get("key 123").expect("whole"), None);
    let again = repair(victim.path(), &to, &mut |_, _| ()).expect_err("it exists");
    assert!(again.to_string().contains("exists"), "{again}");
}

/// A store that somebody uses is left alone; other directories are none.
#[test]
fn only_a_store_that_nobody_uses_is_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = check(directory.path(), &mut |_, _| ()).expect_err("nothing there");
    assert!(none.to_string().contains("no store here"), "{none}");
    assert_eq!(fs::read_dir(directory.path()).expect("there").count(), 0, "nothing is made");
    let store = open::<Redb>(directory.path());
    store.put("key", "value").expect("written");
    let used = check(directory.path(), &mut |_, _| ()).expect_err("it is in use");
    assert!(used.to_string().contains("open already"), "{used}");
    store.close().expect("written");
    let before = files(directory.path());
    let mut told = Vec::new();
    let report = check(directory.path(), &mut |done, of| told.push((done, of))).expect("closed");
    assert!(report.is_whole() && report.records == 1, "{report:?}");
    assert_eq!(report.snapshot, "it fits the store");
    assert!(told.is_sorted() && told.last().is_some_and(|(done, of)| done == of), "{told:?}");
    assert_eq!(files(directory.path()), before, "nothing is changed");
}

/// Secrets and snapshots are verified as well.
#[test]
fn a_wrong_secret_or_filter_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open::<Redb>(directory.path());
    let records: Vec<_> = (0..50).map(|n| (format!("key {n}"), "value")).collect();
    store.put_many(&records).expect("written");
    store.close().expect("written");
    let secret = directory.path().join("secret");
    let right = fs::read(&secret).expect("there");
    let report = || check(directory.path(), &mut |_, _| ()).expect("closed");
    let names = |report: &Report| -> Vec<&'static str> {
        let name = |damage: &Damage| match damage {
            Damage::File { name, .. } => Some(*name),
            _ => None,
        };
        report.damage.iter().filter_map(name).collect()
    };
    fs::write(&secret, &right[..10]).expect("written");
    assert_eq!(names(&report()), ["secret"]);
    fs::remove_file(&secret).expect("removed");
    assert_eq!(names(&report()), ["secret"]);
    let other = tempfile::tempdir().expect("another");
    open::<Redb>(other.path()).put("key", "value").expect("written");
    fs::copy(other.path().join("secret"), &secret).expect("copied");
    let wrong = report();
    assert_eq!(names(&wrong), ["secret"]);
    assert_eq!(wrong.damage.len(), 51, "every record is filed under another digest");
    fs::write(&secret, right).expect("written");
    assert!(report().is_whole());
    // A snapshot that is damaged is ignored by whoever opens the store.
    fs::write(directory.path().join("filter.snapshot"), "nonsense").expect("written");
    let ignored = report();
    assert!(ignored.is_whole() && ignored.snapshot.contains("ignored"), "{ignored:?}");
    fs::write(directory.path().join("records.redb"), "nonsense").expect("written");
    assert_eq!(names(&report()), ["records.redb"]);
}

/// A sidecar has digests and nothing else: its pages are verified, and what can be read
/// is kept, since a digest too many only costs a read.
#[test]
fn a_sidecar_is_checked_and_repaired() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys: Vec<String> = (0..600).map(|n| format!("key {n}")).collect();
    let sidecar =
        small().build_sidecar::<Redb, _>(directory.path(), &keys, &mut |_, _| ()).expect("built");
    sidecar.close().expect("written");
    let report = check(directory.path(), &mut |_, _| ()).expect("closed");
    assert!(report.is_whole() && report.records == 600, "{report:?}");
    let path = directory.path().join("digests.redb");
    let mut bytes = fs::read(&path).expect("there");
    let digest = sidecar_digest(directory.path(), &keys[300]);
    let at = bytes.windows(16).position(|window| window == digest).expect("it is there");
    bytes[at + 15] ^= 1;
    fs::write(&path, bytes).expect("written");
    let report = check(directory.path(), &mut |_, _| ()).expect("closed");
    assert!(!report.is_whole(), "{report:?}");
    let to = directory.path().join("repaired");
    let report = repair(directory.path(), &to, &mut |_, _| ()).expect("repaired");
    assert!(report.records == 600 && report.doubtful > 0, "{report:?}");
    let repaired: Kept<Sidecar<Redb>> =
        small().open_sidecar(&to, &mut |_, _| ()).expect("it is whole");
    let denied = keys.iter().filter(|key| !repaired.guard().contains(key)).count();
    assert!(denied <= 1, "{denied} denied");
    assert!(!matches!(repaired.guard().opened(), Opened::Empty));
}

/// A key's digest as the engine's file has it.
fn sidecar_digest(directory: &Path, key: &str) -> [u8; 16] {
    let secret = fs::read(directory.join("secret")).expect("there");
    let hasher = twiceshy_filters::KeyHasher::from_bytes(&secret).expect("whole");
    let [high, low] = hasher.digest(key).words();
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// Whole records without a header are those of a build that was interrupted: a store that
/// is not opened is not called whole.
#[test]
fn a_build_that_was_interrupted_is_no_whole_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let hasher = KeyHasher::random();
    let options = EngineOptions::default().durability(Durability::Process).cache(1 << 20);
    let engine = Redb::open(&directory.path().join("records.redb"), &options).expect("a new one");
    let record = twiceshy::guard::record(b"key", b"value");
    engine.write(&[(hasher.digest("key"), Some(&record))]).expect("written");
    drop(engine);
    fs::write(directory.path().join("secret"), hasher.to_bytes()).expect("written");
    let refused = small().open::<Redb>(directory.path()).expect_err("it has no header");
    assert!(refused.to_string().contains("interrupted"), "{refused}");
    let report = check(directory.path(), &mut |_, _| ()).expect("closed");
    assert!(!report.is_whole() && report.records == 1, "{report:?}");
    assert!(report.damage[0].to_string().contains("interrupted"), "{report:?}");
}
