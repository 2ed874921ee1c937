//! Disks that fail: no commit that comes to light later meets a snapshot of the
//! filters that does not know its keys. And readers beside a writer.

use std::sync::atomic::AtomicU64;

use twiceshy::Opened;

use super::*;
use crate::Options;

/// Which access of a file fails, and how.
#[derive(Debug, Default)]
struct Trouble {
    /// How many writing accesses from now; 0 is never.
    fails_in: AtomicU64,
    /// Whether the access happens all the same.
    happens: AtomicBool,
}

impl Trouble {
    /// Makes an access of the file, or fails, or both.
    fn around<T>(&self, access: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let left = self.fails_in.load(Ordering::Relaxed);
        self.fails_in.store(left.saturating_sub(1), Ordering::Relaxed);
        if left != 1 {
            return access();
        }
        if self.happens.load(Ordering::Relaxed) {
            access()?;
        }
        Err(io::Error::other("trouble"))
    }
}

/// A file with trouble.
#[derive(Debug)]
struct Troubled {
    backend: Backend,
    trouble: Arc<Trouble>,
}

impl StorageBackend for Troubled {
    fn sync_data(&self) -> io::Result<()> {
        self.trouble.around(|| self.backend.sync_data())
    }

    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.trouble.around(|| self.backend.set_len(len))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.trouble.around(|| self.backend.write(offset, data))
    }
}

/// A [`Redb`] over a file with trouble.
struct Frail {
    redb: Redb,
    trouble: Arc<Trouble>,
}

impl Engine for Frail {
    const EXTENSION: &'static str = Redb::EXTENSION;

    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError> {
        let (file, backend) = backend(path, options.durability)?;
        let trouble = Arc::new(Trouble::default());
        let backend = Troubled { backend, trouble: Arc::clone(&trouble) };
        Ok(Frail { redb: Redb::over(backend, file, options.cache)?, trouble })
    }

    fn sync(&self) -> Result<(), RemoteError> {
        self.redb.sync()
    }
}

impl Store for Frail {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.redb.read(range, visitor)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        self.redb.write(changes)
    }

    fn count(&self) -> Result<u64, RemoteError> {
        self.redb.count()
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        self.redb.header()
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        self.redb.set_header(header)
    }
}

/// What a run came to.
struct Ran {
    /// Whether there was trouble before the run was over.
    troubled: bool,
    /// Whether the put failed, and if so whether its keys came to light.
    came_to_light: Option<bool>,
    /// The same of the removal.
    gone_after_all: Option<bool>,
}

/// Keys that are there before the trouble, that are put during it, and of the first
/// those that are removed during it.
const OLD: std::ops::Range<u64> = 0..60;
const NEW: std::ops::Range<u64> = 60..80;
const REMOVED: std::ops::Range<u64> = 0..10;

/// One write and one removal, with trouble in the `fails_in`th access of the file.
fn run(fails_in: u64, happens: bool) -> Ran {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options::default().capacity(16).shard_bits(1).durability(Durability::Process);
    let records = |keys: std::ops::Range<u64>| -> Vec<_> {
        keys.map(|key| (key.to_le_bytes(), key.to_le_bytes())).collect()
    };
    let store = options.open::<Frail>(directory.path()).expect("no trouble yet");
    store.put_many(&records(OLD)).expect("no trouble yet");
    store.snapshot().expect("no trouble yet");

    let trouble = Arc::clone(&store.store().trouble);
    trouble.happens.store(happens, Ordering::Relaxed);
    trouble.fails_in.store(fails_in, Ordering::Relaxed);
    let put = store.put_many(&records(NEW));
    let keys: Vec<_> = REMOVED.map(u64::to_le_bytes).collect();
    let removed = store.remove_many(&keys);
    let troubled = trouble.fails_in.load(Ordering::Relaxed) == 0;
    // Fingerprints of what is not stored, as far as is known, are dropped.
    for key in NEW {
        match store.get(key.to_le_bytes()) {
            Ok(value) => assert_eq!(value.is_some(), put.is_ok(), "{key}"),
            Err(error) => assert!(troubled, "{error}"),
        }
    }
    let snapshot = store.snapshot();
    drop(store);

    let store = options.open::<Redb>(directory.path()).expect("the disk is well again");
    assert_eq!(store.check(), Ok(0), "access {fails_in}, {happens}");
    if snapshot.is_err() && matches!(store.opened(), Opened::Snapshot) {
        // The one before the trouble, and nothing has changed since.
        let is_there = |key: u64| store.contains(key.to_le_bytes()).expect("read");
        assert!(!is_there(NEW.start) && is_there(REMOVED.start), "access {fails_in}, {happens}");
    }
    let there = |keys: std::ops::Range<u64>| {
        let total = keys.end - keys.start;
        let found = keys.filter(|key| store.contains(key.to_le_bytes()).expect("read")).count();
        assert!(found == 0 || found as u64 == total, "half a write: {found} of {total}");
        found > 0
    };
    let (new, old) = (there(NEW), there(REMOVED));
    assert!(new || put.is_err(), "access {fails_in}, {happens}: an acknowledged put is lost");
    assert!(!old || removed.is_err(), "access {fails_in}, {happens}: a removed key is back");
    assert!(there(REMOVED.end..OLD.end), "what was there before is there");
    Ran {
        troubled,
        came_to_light: put.is_err().then_some(new),
        gone_after_all: removed.is_err().then_some(!old),
    }
}

/// Every access of a write and of a removal fails once, undone or done.
#[test]
fn what_a_failed_commit_left_meets_no_snapshot_of_its_own() {
    let (mut light, mut dark, mut gone, mut back) = (0, 0, 0, 0);
    for happens in [false, true] {
        let mut accesses = 0;
        for fails_in in 1.. {
            let ran = run(fails_in, happens);
            light += u64::from(ran.came_to_light == Some(true));
            dark += u64::from(ran.came_to_light == Some(false));
            gone += u64::from(ran.gone_after_all == Some(true));
            back += u64::from(ran.gone_after_all == Some(false));
            if !ran.troubled {
                break;
            }
            accesses = fails_in;
        }
        assert!(accesses > 10, "four commits make more accesses than {accesses}");
    }
    println!("puts: {light} came to light, {dark} did not; removals: {gone} done, {back} not");
    assert!(light > 0 && dark > 0 && gone > 0 && back > 0, "{light}, {dark}, {gone}, {back}");
}

/// Others may write while somebody looks at what was found: its page stays. With
/// debug assertions `redb` panics if it would not.
#[test]
fn what_is_looked_at_stays_while_others_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = EngineOptions { durability: Durability::Process, cache: 1 << 20 };
    let path = directory.path().join("records.redb");
    let Ok(store) = Redb::open(&path, &options) else { panic!("it opens") };
    let digest = Digest::new([1, 1]);
    store.write(&[(digest, Some(b"old"))]).expect("written");
    let mut seen = Vec::new();
    let found = store.find(digest, &mut |record| {
        for _ in 0..4 {
            store.write(&[(digest, Some(b"new"))]).expect("written");
        }
        seen = record.to_vec();
    });
    assert_eq!((found.expect("read"), &seen[..]), (Some(true), &b"old"[..]));
    store.find(digest, &mut |record| seen = record.to_vec()).expect("read");
    assert_eq!(seen, b"new");
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
