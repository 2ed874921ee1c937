//! A file system that is soon full.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, mounted for one test.
pub struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// One of so many MiB, a quarter of it taken by [`SmallDisk::free`]'s file; `None`
    /// where tests may not mount one (`redb::tests` has a disk that needs no rights).
    ///
    /// # Panics
    /// If it cannot be mounted where no test may be skipped.
    pub fn new(mebibytes: usize) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path());
        let mounted = mount.output();
        if !mounted.as_ref().is_ok_and(|output| output.status.success()) {
            // As for the servers that other tests need.
            let required =
                ["CI", "TWICESHY_REQUIRE_SERVERS"].iter().any(|name| env::var_os(name).is_some());
            assert!(!required, "no file system can be mounted; run this as root: {mounted:?}");
            eprintln!("SKIPPED: no file system can be mounted here; run the test as root");
            return None;
        }
        let disk = SmallDisk { directory };
        fs::write(disk.ballast(), vec![1; mebibytes << 18]).expect("there is room");
        Some(disk)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Makes room.
    pub fn free(&self) {
        fs::remove_file(self.ballast()).expect("it is there once");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
