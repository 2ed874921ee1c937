//! What the tests share: small stores, random choices, and a second process.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use twiceshy::store::{Durability, Engine, GuardedStore, Options};

/// A small store with few shards, whose writes do not wait for the disk.
pub fn small() -> Options {
    Options::default().capacity(16).shard_bits(2).durability(Durability::Process)
}

/// Opens a small store.
pub fn open<E: Engine>(directory: &Path) -> GuardedStore<E> {
    small().open(directory).expect("the directory is good")
}

/// Random enough for tests, and the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// In this variable another process is told what to do.
pub const TASK: &str = "TWICESHY_STORE_TEST_TASK";

/// Another process of this test binary that does `task` with a directory: one of
/// those in [`other_process`].
pub fn child(task: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("tests are a program"));
    arguments(&mut command);
    command.env(TASK, task).env("TWICESHY_STORE_TEST_DIRECTORY", directory);
    command
}

/// What makes the test binary do nothing but [`other_process`].
pub fn arguments(command: &mut Command) {
    command.args(["harness::other_process", "--exact", "--ignored", "--nocapture"]);
    command.args(["--test-threads", "1"]);
}

/// The other process of [`child`].
#[test]
#[ignore = "other tests run it in a process of its own"]
fn other_process() {
    let Some(task) = std::env::var_os(TASK) else { return };
    let directory = std::env::var_os("TWICESHY_STORE_TEST_DIRECTORY").expect("a directory");
    let directory = Path::new(&directory);
    // The test harness has left its line open.
    println!();
    match task.to_str().expect("a task in words") {
        "open" => crate::bad_days::tries_to_open(directory),
        "fill" => crate::bad_days::fills(directory),
        "backup" => crate::backup::copies_until_killed(directory),
        "locked out" => crate::bad_days::is_locked_out(directory),
        crash => crate::crash::works_until_killed(crash, directory),
    }
}

/// What a process prints, without the test harness's lines.
pub fn said(command: &mut Command) -> String {
    let output = command.output().expect("the process runs");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    assert!(
        output.status.success(),
        "{:?}: {text}{}",
        command.get_envs().find(|(name, _)| *name == OsStr::new(TASK)),
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
