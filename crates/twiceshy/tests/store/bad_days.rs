//! Wrong secrets, damaged files, full disks, failing reads: a clear error or a
//! right answer, and nothing lost.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy::Guard;
use twiceshy::guard::{self, Change, GuardOptions, Header, Opened, Store};
use twiceshy::store::{Durability, Engine, EngineOptions, Error, Redb};
use twiceshy_filters::{Digest, KeyHasher, RemoteError};

use crate::harness::{Random, TASK, child, open, said, small};

#[test]
fn a_wrong_secret_is_an_error_before_any_answer() {
    let (mine, other) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
    for directory in [&mine, &other] {
        open::<Redb>(directory.path()).put("key", "value").expect("written");
    }
    let secret = mine.path().join("secret");
    let right = fs::read(&secret).expect("there is one");
    let wrong = fs::read(other.path().join("secret")).expect("there is one");
    let mut flipped = right.clone();
    flipped[16] ^= 1;
    let refused = |what: &str| {
        let error = small().open::<Redb>(mine.path()).expect_err(what);
        assert!(matches!(error, Error::Secret { .. }), "{what}: {error}");
        let text = error.to_string();
        assert!(text.contains("secret") && text.contains("put back"), "{text}");
    };
    for (bytes, what) in [(&wrong[..], "another"), (&flipped, "a bit"), (&right[..16], "short")] {
        fs::write(&secret, bytes).expect("written");
        refused(what);
    }
    fs::remove_file(&secret).expect("removed");
    refused("missing");
    assert!(!secret.exists(), "no new one is made for a store that has one");
    fs::write(&secret, right).expect("written");
    assert!(open::<Redb>(mine.path()).exists("key").expect("read"));
}

/// Its secret is the right one, and nobody is told to look for another.
#[test]
fn a_store_with_another_layout_names_it_and_not_the_secret() {
    let directory = tempfile::tempdir().expect("a directory");
    open::<Redb>(directory.path()).put("key", "value").expect("written");
    let options = EngineOptions::default().durability(Durability::Process).cache(1 << 20);
    let engine = Redb::open(&directory.path().join("records.redb"), &options).expect("it is there");
    let header = engine.header().expect("read").expect("a guard was there");
    let later = Header { tag: header.tag.wrapping_add(1), ..header };
    engine.set_header(later).expect("written");
    drop(engine);
    let error = small().open::<Redb>(directory.path()).expect_err("another layout");
    let is_layout =
        matches!(error, Error::Guard(guard::Error::UnknownLayout { found: 3, known: 2 }));
    assert!(is_layout, "{error:?}");
    let text = error.to_string();
    assert!(text.contains("layout 3") && !text.contains("secret"), "{text}");
}

#[test]
fn a_damaged_snapshot_costs_a_rebuild_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open::<Redb>(directory.path());
    let keys: Vec<String> = (0..200).map(|n| format!("key {n}")).collect();
    let records: Vec<_> = keys.iter().map(|key| (key, "value")).collect();
    store.put_many(&records).expect("written");
    store.close().expect("written");
    let path = directory.path().join("filter.snapshot");
    let good = fs::read(&path).expect("close leaves one");

    let opened = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        let store = open::<Redb>(directory.path());
        assert_eq!(store.check(), Ok(0));
        assert!(keys.iter().all(|key| store.exists(key).expect("read")));
        store.opened().clone()
    };
    assert_eq!(opened(&good), Opened::Snapshot);
    let step = (good.len() / 60).max(1);
    for (round, at) in (0..good.len()).step_by(step).chain([good.len() - 1]).enumerate() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (round % 8);
        assert!(matches!(opened(&bad), Opened::Rebuilt { .. }), "byte {at} of {}", good.len());
    }
    for length in [0, 1, 20, good.len() / 2, good.len() - 1] {
        assert!(matches!(opened(&good[..length]), Opened::Rebuilt { .. }), "{length} bytes");
    }
}

#[test]
fn an_old_snapshot_is_not_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("filter.snapshot");
    let store = open::<Redb>(directory.path());
    store.put("first", "").expect("written");
    store.snapshot().expect("written");
    let old = fs::read(&path).expect("written");
    store.put("second", "").expect("written");
    store.close().expect("written");
    fs::write(&path, old).expect("written");
    let store = open::<Redb>(directory.path());
    assert!(matches!(store.opened(), Opened::Rebuilt { .. }));
    assert!(store.exists("second").expect("read"));
}

fn is_open_once<E: Engine>() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open::<E>(directory.path());
    let error = small().open::<E>(directory.path()).expect_err("it is open");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    // Whatever engine the other asks for.
    let said = said(&mut child("open", directory.path()));
    let expected = format!("{} is open already", directory.path().display());
    assert!(said.contains(&expected), "{said}");
    store.put("still", "here").expect("written");
    drop(store);
    assert!(open::<E>(directory.path()).exists("still").expect("read"));
}

/// Whoever makes a store has the directory to himself before there is anything to
/// lock: what he has made so far is not cleared away.
fn is_made_once<E: Engine>() {
    let directory = tempfile::tempdir().expect("a directory");
    let lock = fs::File::create(directory.path().join("lock")).expect("made");
    lock.lock().expect("nobody else has it");
    let half_made = directory.path().join("records.new");
    fs::create_dir(&half_made).expect("made");
    let error = small().open::<E>(directory.path()).expect_err("somebody is at it");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let entries = fs::read_dir(directory.path()).expect("there").count();
    assert!(half_made.exists() && entries == 2, "{entries} entries");
    drop(lock);
    open::<E>(directory.path()).put("key", "").expect("written");
}

#[test]
fn a_directory_is_open_once() {
    is_open_once::<Redb>();
    is_made_once::<Redb>();
}

#[cfg(feature = "fjall")]
#[test]
fn a_directory_of_fjall_is_open_once() {
    is_open_once::<twiceshy::store::Fjall>();
    is_made_once::<twiceshy::store::Fjall>();
}

/// In another process: opens a small store and says what became of it.
pub fn tries_to_open(directory: &Path) {
    match small().open::<Redb>(directory) {
        Ok(store) => println!("opened: {store:?}"),
        Err(error) => println!("{error}"),
    }
}

/// A user that is not root, who may write everywhere.
#[cfg(unix)]
const NOBODY: u32 = 65534;

#[cfg(unix)]
#[test]
fn a_read_only_directory_is_refused_with_a_reason() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
    use std::os::unix::process::CommandExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    let store = directory.path().join("store");
    open::<Redb>(&store).put("key", "value").expect("written");
    set_mode(directory.path(), 0o755);
    let is_root = fs::metadata(directory.path()).expect("there").uid() == 0;
    let as_user = |task: &str, path: &Path| {
        let mut command = child(task, path);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        // Whoever it is, the program has to be within reach.
        match command.output() {
            Ok(_) => Some(said(&mut command)),
            Err(error) => {
                println!("skipped: user {NOBODY} cannot run the test program: {error}");
                None
            }
        }
    };
    for name in ["records.redb", "secret", "filter.snapshot"] {
        set_mode(&store.join(name), 0o444);
    }
    set_mode(&store, 0o555);
    let Some(text) = as_user("open", &store) else { return };
    assert!(text.contains("cannot open") && text.contains("ermission denied"), "{text}");
    set_mode(directory.path(), 0o555);
    let text = as_user("open", &directory.path().join("new")).expect("it ran before");
    assert!(text.contains("cannot make the directory"), "{text}");
    set_mode(directory.path(), 0o777);
    let text = as_user("locked out", &directory.path().join("own")).expect("it ran before");
    assert!(text.contains("all is well"), "{text}");
    // So that they can be removed, by whoever runs the tests.
    set_mode(directory.path(), 0o755);
    set_mode(&store, 0o755);
    set_mode(&directory.path().join("own"), 0o755);
}

/// In another process: its directory becomes read-only while it is open.
#[cfg(unix)]
pub fn is_locked_out(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let store = open::<Redb>(directory);
    store.put("before", "").expect("written");
    fs::set_permissions(directory, PermissionsExt::from_mode(0o555)).expect("it is ours");
    let error = store.snapshot().expect_err("no file can be made");
    assert!(error.to_string().contains("filter.snapshot"), "{error}");
    store.put("after", "").expect("the engine's file is open");
    assert!(store.exists("before").expect("read") && store.exists("after").expect("read"));
    assert!(store.close().is_err());
    let store = open::<Redb>(directory);
    assert!(store.exists("before").expect("read") && store.exists("after").expect("read"));
    println!("all is well");
}

#[cfg(not(unix))]
pub fn is_locked_out(_: &Path) {}

/// A disk is full when no file may grow; the system then says so (EFBIG) as it
/// says ENOSPC.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("tests are a program");
    let mut shell = Command::new("sh");
    // 4096 blocks are 2 or 4 MiB; the signal is ignored, so that writes fail.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""]).arg(program);
    crate::harness::arguments(&mut shell);
    shell.env(TASK, "fill").env("TWICESHY_STORE_TEST_DIRECTORY", directory.path());
    let text = said(&mut shell);
    let acknowledged: u64 = text
        .lines()
        .filter_map(|line| line.strip_prefix("acknowledged "))
        .map(|count| count.parse().expect("a number"))
        .next_back()
        .expect("some writes fit");
    assert!(text.contains("failed: "), "the disk was not full: {text}");
    let store = open::<Redb>(directory.path());
    for n in 0..acknowledged {
        assert!(store.exists(n.to_le_bytes()).expect("read"), "{n} of {acknowledged}");
    }
    // The write that failed left fingerprints without records; they go when
    // somebody asks for them, and then filters and store agree.
    for n in acknowledged..acknowledged + PUT_AT_ONCE {
        assert!(!store.exists(n.to_le_bytes()).expect("read"), "{n} of {acknowledged}");
    }
    assert_eq!(store.check(), Ok(0));
    store.put("there is room again", "").expect("written");
}

/// Records of one write that may find the disk full.
const PUT_AT_ONCE: u64 = 50;

/// In another process: writes until the disk is full, and goes on asking.
pub fn fills(directory: &Path) {
    let store = open::<Redb>(directory);
    let mut acknowledged = 0_u64;
    let error = loop {
        let end = acknowledged + PUT_AT_ONCE;
        let records: Vec<_> =
            (acknowledged..end).map(|n| (n.to_le_bytes(), [n as u8; 1000])).collect();
        match store.put_many(&records) {
            Ok(_) => acknowledged = end,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000_000, "no limit in sight");
    };
    println!("acknowledged {acknowledged}");
    println!("failed: {error}");
    for n in 0..acknowledged {
        let value = store.get(n.to_le_bytes()).expect("reads go on");
        assert_eq!(value, Some(vec![n as u8; 1000]), "a wrong answer for {n}");
    }
    println!("snapshot: {:?}", store.close().map_err(|error| error.to_string()));
}

/// A store whose accesses fail when told to.
struct Faulty<S> {
    store: S,
    /// How many accesses from now; 0 is never.
    fails_in: AtomicU64,
}

impl<S> Faulty<S> {
    fn access(&self) -> Result<(), RemoteError> {
        let left = self.fails_in.load(Ordering::Relaxed);
        self.fails_in.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 { Err("a fault".into()) } else { Ok(()) }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.access()?;
        self.store.read(range, visitor)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        self.access()?;
        self.store.write(changes)
    }

    fn count(&self) -> Result<u64, RemoteError> {
        self.store.count()
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        self.store.header()
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        self.access()?;
        self.store.set_header(header)
    }
}

#[test]
fn a_failing_store_makes_no_wrong_answer() {
    const KEYS: u64 = 600;
    let directory = tempfile::tempdir().expect("a directory");
    let options = EngineOptions::default().durability(Durability::Process).cache(1 << 20);
    let store = Redb::open(&directory.path().join("records.redb"), &options).expect("opened");
    let store = Faulty { store, fails_in: AtomicU64::new(0) };
    let options = GuardOptions::default().capacity(16).shard_bits(1);
    let guard = Guard::open(store, KeyHasher::keyed([7; 16]), &options).expect("opened");
    let mut random = Random::new(1);
    let mut stored = vec![false; KEYS as usize];
    let mut failed = [0; 3];
    for round in 0..6000_u64 {
        let key = random.below(KEYS);
        // Ever so often two or three accesses from now: the read for an answer,
        // those for a spent block or a full filter, the write.
        let fails_in = if random.below(3) == 0 { 1 + random.below(4) } else { 0 };
        guard.store().fails_in.store(fails_in, Ordering::Relaxed);
        let place = &mut stored[key as usize];
        match random.below(8) {
            0..3 => match guard.put(key.to_le_bytes(), "") {
                Ok(new) => assert_eq!(new, !std::mem::replace(place, true)),
                Err(_) => failed[0] += 1,
            },
            3 => match guard.remove(key.to_le_bytes()) {
                Ok(removed) => assert_eq!(removed, std::mem::replace(place, false)),
                Err(_) => failed[1] += 1,
            },
            _ => {
                // Missing keys, so that filters adapt until blocks are spent.
                for n in 0..100 {
                    match guard.exists((1000 + round * 70 + n).to_le_bytes()) {
                        Ok(answer) => assert!(!answer),
                        Err(_) => failed[2] += 1,
                    }
                }
            }
        }
        guard.store().fails_in.store(0, Ordering::Relaxed);
        assert_eq!(guard.exists(key.to_le_bytes()).expect("read"), stored[key as usize]);
        if round % 500 == 0 {
            assert_eq!(guard.check(), Ok(0));
        }
    }
    assert_eq!(guard.check(), Ok(0));
    for (key, stored) in (0_u64..).zip(stored) {
        assert_eq!(guard.exists(key.to_le_bytes()).expect("read"), stored);
    }
    assert!(failed.iter().all(|&count| count > 5), "every operation failed at times: {failed:?}");
    assert!(guard.stats().spent > 0 && guard.stats().growths > 0, "{:?}", guard.stats());
}
