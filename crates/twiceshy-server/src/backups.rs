//! TS.BACKUP: a copy of the store, made while it is served.
//!
//! Copies go to one directory that the operator has chosen, under names that cannot lead
//! elsewhere: a client can neither write outside of it nor read what is there. One backup runs
//! at a time, and it ends when the server stops.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use twiceshy::store::{CopyProgress, Redb};

use crate::backend::Failure;
use crate::server::Server;
use crate::shield;

/// The running backup, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    running: Mutex<()>,
    stopping: AtomicBool,
}

impl Backups {
    /// Makes a backup, unless another one is running.
    pub(crate) fn run(
        &self,
        copy: impl FnOnce(CopyProgress<'_>) -> twiceshy::store::Result<u64>,
    ) -> Result<u64, Failure> {
        let _running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Refused(
                    "another backup is being made; try again when it is done".into(),
                ));
            }
        };
        let copied = copy(&mut |_, _| {
            if self.stopping.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        copied.map_err(|error| match error {
            // Not a fault of the server: the name may be taken.
            twiceshy::store::Error::Directory { .. } | twiceshy::store::Error::Locked { .. } => {
                Failure::Refused(error.to_string())
            }
            error => error.into(),
        })
    }

    /// Tells a running backup to stop soon, and lets no other begin.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Waits for the running backup to end.
    pub(crate) fn wait(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Server {
    /// Makes a backup under a name that a client has chosen. Returns the number of its records.
    pub(crate) async fn backup(&self, name: &[u8]) -> Result<u64, Failure> {
        let to = place(self.backup_dir.as_deref(), name)?;
        self.backend.backup(to).await
    }
}

/// Where a backup of this name goes.
fn place(directory: Option<&Path>, name: &[u8]) -> Result<PathBuf, Failure> {
    let Some(directory) = directory else {
        return Err(Failure::Refused(
            "backups are off; start the server with --backup-dir DIR, where they go".into(),
        ));
    };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    match std::str::from_utf8(name) {
        Ok(text)
            if (1..=100).contains(&name.len())
                && name.iter().all(is_plain)
                && !text.starts_with('.') =>
        {
            Ok(directory.join(text))
        }
        _ => Err(Failure::Refused(
            "a backup's name has 1 to 100 letters, digits, '-', '_' and '.', and does not begin \
             with '.': it is made in the server's --backup-dir under that name"
                .into(),
        )),
    }
}

/// Copies a directory of the server that is not open, a shield's or a store's, to a new one.
/// `progress` receives the number of records copied and about how many there are, and may stop
/// the copy. Returns the number of records.
///
/// The copy of a shield begins with a resync, since it does not know what its store has gained
/// or lost in the meantime.
///
/// # Errors
/// As [`twiceshy::store::backup()`].
pub fn backup(
    directory: &Path,
    to: &Path,
    progress: CopyProgress<'_>,
) -> Result<u64, twiceshy::store::Error> {
    let origin = shield::loose_copy(directory);
    let others: Vec<(&str, &[u8])> =
        origin.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    twiceshy::store::backup::<Redb>(directory, to, &others, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        let directory = Path::new("/backups");
        for name in ["a", "monday", "2026-11-17_03.25"] {
            let to = place(Some(directory), name.as_bytes()).expect("a plain name");
            assert_eq!(to, directory.join(name));
        }
        let long = "a".repeat(101);
        let bad =
            ["", ".", "..", ".hidden", "a/b", "/etc", "../a", "a\\b", "a\0", "a b", "ä", &long];
        for name in bad {
            let failure = place(Some(directory), name.as_bytes()).expect_err(name);
            assert!(matches!(failure, Failure::Refused(_)), "{name}: {failure}");
        }
        let failure = place(None, b"a").expect_err("nowhere to go");
        assert!(failure.to_string().contains("--backup-dir"), "{failure}");
    }
}
