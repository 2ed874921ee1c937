//! `twiceshy backup` and TS.BACKUP: copies of a store that is served, and of one that is
//! not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tempfile::TempDir;

use crate::client::Value;
use crate::process::{Process, twiceshy};

fn backup(arguments: &[&Path]) -> Output {
    twiceshy("backup").args(arguments).output().expect("the binary runs")
}

fn refused(arguments: &[&Path]) -> String {
    let output = backup(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
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
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_store_that_is_served_is_copied_as_of_one_moment() {
    let directory = TempDir::new().expect("a directory");
    let [data, backups, cold] = ["data", "backups", "cold"].map(|name| directory.path().join(name));
    fs::create_dir(&backups).expect("made");
    let flags = format!("--durability process --backup-dir {}", backups.display());
    let process = Process::start(&data, &flags);
    let server = process.address.to_string();
    let [server, flag] = [&server, "--server"].map(Path::new);

    // Keys come one by one while copies are made: each copy has the first so many.
    let (stored, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let stopping = Stopping(&stop);
        scope.spawn(|| {
            let mut client = process.client();
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                assert_eq!(client.line(&format!("SET key:{n} value:{n}")), Value::ok());
                stored.store(n + 1, Ordering::SeqCst);
            }
        });
        for round in 0..5 {
            let name = format!("copy-{round}");
            let before = stored.load(Ordering::SeqCst);
            let output = backup(&[flag, server, Path::new(&name)]);
            let after = stored.load(Ordering::SeqCst) + 1;
            assert!(output.status.success(), "{output:?}");
            let copy = twiceshy::open(backups.join(&name)).expect("a store");
            let keys = copy.stats().keys;
            assert!((before..=after).contains(&keys), "{before} <= {keys} <= {after}");
            let said = String::from_utf8(output.stdout).expect("text");
            assert!(said.contains(&format!("copied {keys} records to {name}")), "{said}");
            for n in 0..keys {
                let value = copy.get(format!("key:{n}")).expect("read");
                assert_eq!(value, Some(format!("value:{n}").into_bytes()));
            }
            assert_eq!(copy.check(), Ok(0));
        }
        drop(stopping);
    });
    assert!(stored.load(Ordering::SeqCst) > 0);
    let secret = fs::metadata(backups.join("copy-0/secret")).expect("there is one");
    assert_eq!(secret.permissions().mode() & 0o777, 0o600);

    // Names that are taken, or lead elsewhere; a directory that is open.
    let mut client = process.client();
    for name in ["copy-0", "../outside", "/tmp/outside", ".hidden", "a/b", ".."] {
        let reply = client.line(&format!("TS.BACKUP {name}"));
        assert!(matches!(reply, Value::Error(_)), "{name}: {reply:?}");
    }
    assert_eq!(names(&backups), [0, 1, 2, 3, 4].map(|round| format!("copy-{round}")));
    assert_eq!(names(directory.path()), ["backups", "data"]);
    let text = refused(&[&data, &cold]);
    assert!(text.contains("TS.BACKUP NAME") && text.contains("--backup-dir"), "{text}");
    assert!(!cold.exists());
    assert!(process.stop("TERM").0.success());

    // And of a store that nobody serves.
    assert!(backup(&[&data, &cold]).status.success());
    let text = refused(&[&data, &cold]);
    assert!(text.contains("exists already"), "{text}");
    let text = refused(&[&directory.path().join("nothing"), &directory.path().join("copy")]);
    assert!(text.contains("no store here"), "{text}");
    assert_eq!(names(directory.path()), ["backups", "cold", "data"], "nothing was made");
    let process = Process::start(&cold, "");
    assert_eq!(process.client().line("GET key:0"), Value::bulk("value:0"));
    let reply = process.client().line("TS.BACKUP monday");
    assert!(matches!(&reply, Value::Error(text) if text.contains("--backup-dir")), "{reply:?}");
}

/// A server that is stopped while it makes a copy stops, and leaves no half of one.
#[test]
fn a_server_that_stops_ends_its_backup() {
    let directory = TempDir::new().expect("a directory");
    let [data, backups] = ["data", "backups"].map(|name| directory.path().join(name));
    let options = twiceshy::store::Options::default();
    let records = (0..1_000_000_u32).map(|n| (n.to_le_bytes(), [0; 20]));
    let store = options.build::<twiceshy::store::Redb, _, _>(&data, records, &mut |_, _| ());
    store.expect("an empty directory").close().expect("written");
    let process = Process::start(&data, &format!("--backup-dir {}", backups.display()));
    let mut client = process.client();
    client.send(b"*2\r\n$9\r\nTS.BACKUP\r\n$4\r\ncopy\r\n").expect("it reads");
    while names(&backups).is_empty() {
        thread::yield_now();
    }
    let (status, log) = process.stop("TERM");
    assert!(status.success(), "{log}");
    // Stopped in the middle, or just done.
    assert!(names(&backups).iter().all(|name| name == "copy"), "{:?}", names(&backups));
    let again = Process::start(&data, "");
    assert!(again.log().contains("filter=snapshot"), "it was closed cleanly: {}", again.log());
}
