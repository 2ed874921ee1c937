//! Disks that fail at every access once, and readers beside a writer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::guard::Opened;
use redb::Database;

use super::faults::{Disk, Fault};
use super::*;
use crate::store::{GuardedStore, Options};

thread_local! {
    /// The disk of the next [`Frail`] that this thread opens.
    static DISK: RefCell<Disk> = RefCell::default();
}

/// A [`Redb`] on the thread's [`DISK`].
struct Frail(Redb);

impl Engine for Frail {
    const EXTENSION: &'static str = Redb::EXTENSION;

    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError> {
        // A store without its file is refused.
        std::fs::write(path, "see the disk")?;
        Redb::over(Box::new(DISK.with_borrow(Disk::clone)), path, options, false).map(Frail)
    }

    fn open_foreign(path: &Path, options: &EngineOptions) -> Result<(Self, bool), OpenError> {
        std::fs::write(path, "see the disk")?;
        let disk = DISK.with_borrow(Disk::clone);
        Ok((Frail(Redb::over(Box::new(disk), path, options, true)?), true))
    }

    fn sync(&self) -> Result<(), RemoteError> {
        self.0.sync()
    }
}

impl Store for Frail {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.0.read(range, visitor)
    }

    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.0.read_many(ranges, visitor)
    }

    fn find(
        &self,
        digest: Digest,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        self.0.find(digest, visitor)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        self.0.write(changes)
    }

    fn count(&self) -> Result<u64, RemoteError> {
        self.0.count()
    }

    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        self.0.exact_count()
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        self.0.header()
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        self.0.set_header(header)
    }
}

/// What a history ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Crash,
    PowerLoss,
}

const ENDS: [End; 3] = [End::Close, End::Crash, End::PowerLoss];

/// A store on a disk, and what it must and may answer.
struct History {
    directory: tempfile::TempDir,
    options: Options,
    disk: Disk,
    store: Option<GuardedStore<Frail>>,
    /// The value of each key that was ever put: what it is, and after failed writes
    /// what it may be as well.
    may_be: BTreeMap<u64, Vec<Option<u64>>>,
    context: String,
}

impl History {
    /// A store with some keys, before any fault.
    fn new(durability: Durability, context: String) -> Self {
        // The secret and the snapshots are synced, hundreds of times in these tests.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(place).expect("a directory");
        // A small cache: the disk is read.
        let options = Options::default().capacity(16).shard_bits(1);
        let options = options.durability(durability).cache(1 << 14);
        let disk = Disk::default();
        let mut history =
            History { directory, options, disk, store: None, may_be: BTreeMap::new(), context };
        history.open();
        history.put(0..40, 1).expect("no fault yet");
        history.store().snapshot().expect("no fault yet");
        history
    }

    fn open(&mut self) {
        DISK.set(self.disk.clone());
        let store = self.options.open(self.directory.path());
        self.store = Some(store.unwrap_or_else(|error| panic!("{}: {error}", self.context)));
    }

    fn store(&self) -> &GuardedStore<Frail> {
        self.store.as_ref().expect("it is open")
    }

    /// Notes what became of a write of some keys.
    fn note(&mut self, keys: std::ops::Range<u64>, value: Option<u64>, failed: bool) {
        for key in keys {
            let may_be = self.may_be.entry(key).or_insert_with(|| vec![None]);
            if !failed {
                may_be.clear();
            }
            may_be.push(value);
        }
    }

    fn put(&mut self, keys: std::ops::Range<u64>, value: u64) -> Result<(), String> {
        let record = |key: u64| (key.to_le_bytes(), value.to_le_bytes());
        let records: Vec<_> = keys.clone().map(record).collect();
        let outcome = self.store().put_many(&records).map_err(|error| error.to_string());
        self.note(keys, Some(value), outcome.is_err());
        outcome.map(|_| ())
    }

    fn remove(&mut self, keys: std::ops::Range<u64>) -> Result<(), String> {
        let bytes: Vec<_> = keys.clone().map(u64::to_le_bytes).collect();
        let outcome = self.store().remove_many(&bytes).map_err(|error| error.to_string());
        self.note(keys, None, outcome.is_err());
        outcome.map(|_| ())
    }

    /// Every answer is a right one, or an error if there may be errors; a failed
    /// write that turned out one way stays so.
    fn ask(&mut self, errors: bool) {
        for key in 0..200_u64 {
            let context = &self.context;
            let value = match self.store.as_ref().expect("open").get(key.to_le_bytes()) {
                Ok(value) => value.map(|v| u64::from_le_bytes(v.try_into().expect("8 bytes"))),
                Err(_) if errors => continue,
                Err(error) => panic!("{context}: key {key}: {error}"),
            };
            let may_be = self.may_be.entry(key).or_insert_with(|| vec![None]);
            assert!(may_be.contains(&value), "{context}: key {key}: {value:?} of {may_be:?}");
            *may_be = vec![value];
        }
    }

    /// Tries until it works.
    fn insist(&mut self, mut write: impl FnMut(&mut Self) -> Result<(), String>) {
        let mut last = String::new();
        for _ in 0..5000 {
            match write(self) {
                Ok(()) => return,
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{}: it never works again: {last}", self.context);
    }

    /// Writes, removals, reads, and a snapshot: what meets the fault.
    fn work(&mut self) {
        let _ = self.put(40..70, 2);
        self.ask(true);
        let _ = self.remove(0..15);
        let _ = self.store().snapshot();
        self.ask(true);
        let _ = self.put(10..12, 3);
    }

    /// After the fault: everything works again without help.
    fn recover(&mut self) {
        self.insist(|history| history.put(70..80, 4));
        self.ask(false);
        self.insist(|history| history.remove(35..45));
        self.ask(false);
        let checked = self.store().check();
        assert!(checked.is_ok(), "{}: {checked:?}", self.context);
    }

    /// Ends, opens again, and asks everything. After a loss of power the store is
    /// that of some moment, if `safe` is not promised.
    fn end(mut self, end: End, safe: bool) {
        match end {
            End::Close => drop(self.store.take()),
            End::Crash => {
                let disk = self.disk.after_a_crash();
                drop(self.store.take());
                self.disk = disk;
            }
            End::PowerLoss => {
                let disk = self.disk.after_a_loss_of_power();
                drop(self.store.take());
                self.disk = disk;
            }
        }
        self.open();
        if safe {
            self.ask(false);
        }
        let checked = self.store().check();
        assert!(checked.is_ok(), "{}: {checked:?}", self.context);
    }
}

/// Fails each access of a history once; how many there are. Ends take turns.
fn every_access(fault: Fault) -> u64 {
    for access in 0.. {
        let end = ENDS[access as usize % ENDS.len()];
        let context = format!("{fault:?} at access {access}, {end:?}");
        let mut history = History::new(Durability::Power, context);
        history.disk.fail_in(access, fault);
        history.work();
        let struck = history.disk.struck();
        history.disk.heal();
        if access % 2 == 0 {
            history.recover();
        }
        history.end(end, fault != Fault::Lies || end != End::PowerLoss);
        if !struck {
            return access;
        }
    }
    unreachable!("histories are finite")
}

#[test]
fn every_access_fails_once_and_nothing_is_lost_or_denied() {
    let faults =
        [Fault::Refused, Fault::Happens, Fault::Half, Fault::Dropped, Fault::Sticks, Fault::Lies];
    for fault in faults {
        let accesses = every_access(fault);
        println!("{fault:?}: {accesses} accesses");
        assert!(accesses > 100, "{fault:?}: only {accesses} accesses");
    }
}

/// Opening the database again fails at each access once.
#[test]
fn every_access_after_a_failed_write_fails_once() {
    for fault in [Fault::Refused, Fault::Happens] {
        for access in 0.. {
            let context = format!("{fault:?} at access {access} after a failed one");
            let mut history = History::new(Durability::Power, context);
            history.disk.fail_in(8, Fault::Dropped);
            history.disk.fail_again_in(access, fault);
            let _ = history.put(40..70, 2);
            let struck = history.disk.struck();
            history.ask(true);
            history.disk.heal();
            history.recover();
            history.end(ENDS[access as usize % ENDS.len()], true);
            if !struck {
                assert!(access > 20, "only {access} accesses");
                break;
            }
        }
    }
}

/// The disk is full after each possible number of bytes, until there is room.
#[test]
fn a_disk_that_is_full_at_any_byte_stops_writes_until_there_is_room() {
    for end in ENDS {
        for durability in [Durability::Power, Durability::Process] {
            let mut refused = 0;
            for blocks in 0.. {
                let context = format!("{blocks} blocks left, {durability:?}, {end:?}");
                let mut history = History::new(durability, context);
                history.disk.room(blocks * 4096);
                for value in 5..9 {
                    if let Err(error) = history.put(0..90, value) {
                        refused += 1;
                        assert!(error.contains("the disk is full"), "{error}");
                        assert!(error.contains("records.redb"), "{error}");
                    }
                    // Reads go on.
                    history.ask(false);
                }
                let struck = history.disk.struck();
                history.disk.heal();
                history.recover();
                history.end(end, durability == Durability::Power || end != End::PowerLoss);
                if !struck {
                    break;
                }
            }
            println!("{end:?}, {durability:?}: {refused} writes refused");
            assert!(refused > 4, "{refused} writes refused");
        }
    }
}

/// While the outcome of a write is unknown, nothing is answered from the view that
/// was there before it.
#[test]
fn there_is_no_answer_while_a_write_is_undecided() {
    let mut history = History::new(Durability::Power, "undecided".into());
    let mut silent = 0;
    for access in 0..60 {
        history.disk.fail_in(access, Fault::Sticks);
        let failed = history.put(100..110, access).is_err();
        let bytes = 5_u64.to_le_bytes();
        let digest_is_there = history.store().store().0.shown.load().is_some();
        if failed && !digest_is_there {
            silent += 1;
            assert!(history.store().get(bytes).is_err(), "access {access}");
            assert!(history.store().snapshot().is_err(), "access {access}");
        }
        history.disk.heal();
        history.insist(|history| history.put(110..111, access));
        history.ask(false);
    }
    assert!(silent > 5, "{silent} writes were undecided");
    assert!(matches!(history.store().opened(), Opened::Empty));
}

/// A page that cannot be read, or over which `redb` panics, is an error of the read that
/// needs it and of no other.
#[test]
fn a_bad_page_fails_one_read() {
    let disk = Disk::default();
    let options = EngineOptions { durability: Durability::Process, cache: 0 };
    let path = Path::new("records.redb");
    let Ok(store) = Redb::over(Box::new(disk.clone()), path, &options, false) else {
        panic!("it opens")
    };
    let digests: Vec<Digest> = (0..2000).map(|n| Digest::new([n << 50, n])).collect();
    let changes: Vec<_> = digests.iter().map(|&digest| (digest, Some(&[7; 50][..]))).collect();
    store.write(&changes).expect("written");
    for (fault, advice) in [(Fault::Panics, "twiceshy check"), (Fault::Refused, "check the disk")] {
        let mut struck = 0;
        for (index, &digest) in digests.iter().enumerate().step_by(50) {
            disk.fail_in(index as u64 % 3, fault);
            let mut seen = 0;
            let mut outcomes = vec![store.find(digest, &mut |_| seen += 1).map(|_| ())];
            // Ranges are read without `redb`.
            if fault != Fault::Panics {
                outcomes.push(store.read(digest..=digest, &mut |_, _| seen += 1));
                outcomes.push(store.read_many(&[digest..=digest], &mut |_, _, _| seen += 1));
            }
            let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            let expected = (usize::from(disk.struck()), outcomes.len() - failed);
            assert_eq!((failed, seen), expected, "{fault:?}");
            for error in outcomes.into_iter().filter_map(Result::err) {
                assert!(error.to_string().contains(advice), "{error}");
            }
            struck += failed;
            disk.heal();
            store.find(digest, &mut |_| seen += 1).expect("it was one read");
            store.write(&[(digest, Some(b"new"))]).expect("it was one read");
        }
        assert!(struck > 10, "{fault:?} struck {struck} times");
    }
}

/// A write that fails before it has changed anything finds, on opening the database again,
/// that the last acknowledged one is damaged: `redb` would go back to the one before.
#[test]
fn an_acknowledged_write_is_not_rolled_back() {
    let options = EngineOptions { durability: Durability::Process, cache: 64 << 20 };
    let path = Path::new("records.redb");
    // What happens once the list of tables is verified: the file's length is read, it grows, or
    // its first page is written.
    for (size, access) in [(4 << 20, 1), (4 << 20, 2), (10, 1)] {
        let disk = Disk::default();
        let Ok(store) = Redb::over(Box::new(disk.clone()), path, &options, false) else {
            panic!("it opens")
        };
        let digest = Digest::new([1, 1]);
        store.write(&[(digest, Some(b"old"))]).expect("written");
        store.write(&[(digest, Some(b"an old one of another length"))]).expect("written");
        store.write(&[(digest, Some(b"new"))]).expect("written");
        let bytes = disk.bytes();
        let at = bytes.windows(3).position(|window| window == b"new").expect("it is there");
        disk.damage(at);
        disk.fail_in(access, Fault::Refused);
        let record = vec![7; size];
        store.write(&[(Digest::new([2, 2]), Some(&record))]).expect_err("it is refused");
        assert!(disk.struck());
        let mut seen = Vec::new();
        let found = store.find(digest, &mut |record| seen = record.to_vec());
        let text = found.expect_err("an older record would be a wrong one").to_string();
        assert!(text.contains("twiceshy check"), "{text}");
        assert!(seen.is_empty(), "{seen:?}");
    }
}

/// The database is opened again and again while others read.
#[test]
fn readers_beside_failing_writes_get_right_answers_or_errors() {
    let mut history = History::new(Durability::Process, "readers beside".into());
    let faults = [Fault::Refused, Fault::Happens, Fault::Half, Fault::Sticks];
    let (disk, store) = (history.disk.clone(), history.store.take().expect("open"));
    let done = AtomicBool::new(false);
    let (right, errors) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut failed = 0;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for key in 0..40_u64 {
                        match store.get(key.to_le_bytes()) {
                            Ok(Some(value)) => assert_eq!(value, 1_u64.to_le_bytes()),
                            Ok(None) => panic!("key {key} is denied"),
                            Err(_) => {
                                errors.fetch_add(1, Ordering::Relaxed);
                                continue;
                            }
                        }
                        right.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 0..200_u64 {
            disk.fail_in(round % 20, faults[round as usize % faults.len()]);
            let records: Vec<_> = (100..130_u64).map(|key| (key.to_le_bytes(), [1])).collect();
            let refused = store.put_many(&records).is_err();
            failed += u64::from(refused && disk.struck());
            disk.heal();
            // The pause after a failure.
            thread::sleep(Duration::from_millis(2));
        }
        done.store(true, Ordering::Relaxed);
    });
    let (right, errors) = (right.into_inner(), errors.into_inner());
    println!("{failed} of 200 writes failed; {right} answers, {errors} errors");
    assert!(failed > 30 && right > 1000, "{failed} failures, {right} answers");
    history.store = Some(store);
    for key in 100..130 {
        history.may_be.insert(key, vec![None]);
    }
    history.insist(|history| history.remove(100..130));
    history.recover();
}

#[test]
fn a_file_of_somebody_else_is_refused_with_advice() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("records.redb");
    let database = Database::create(&path).expect("a database");
    let transaction = database.begin_write().expect("a transaction");
    transaction.open_table(TableDefinition::<[u8; 16], &[u8]>::new("records")).expect("a table");
    transaction.commit().expect("it is written");
    drop(database);
    let error = Options::default().open::<Redb>(directory.path()).expect_err("other keys");
    let text = error.to_string();
    assert!(text.contains("records.redb") && text.contains("use another directory"), "{text}");
}
