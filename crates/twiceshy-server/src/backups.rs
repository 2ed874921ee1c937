//! TS.BACKUP: a copy of the store, made while it is served.
//!
//! Copies are made in one directory that the operator has named, under names that lead
//! nowhere else: a client can neither write elsewhere nor read what is there. There is one
//! at a time, and it ends when the server does.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use twiceshy::store::{CopyProgress, Redb};

use crate::backend::Failure;
use crate::server::Server;
use crate::shield;

/// The backup that is being made, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    running: Mutex<()>,
    stopping: AtomicBool,
}

impl Backups {
    /// Makes a backup, unless another one is being made.
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
            // Nothing is wrong with the server: the name is taken, say.
            twiceshy::store::Error::Directory { .. } | twiceshy::store::Error::Locked { .. } => {
                Failure::Refused(error.to_string())
            }
            error => error.into(),
        })
    }

    /// The backup that is being made, if there is one, ends soon, and no other begins.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the backup that is being made.
    pub(crate) fn wait(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Server {
    /// Makes a backup with a name that a client has chosen; returns how many records it
    /// has.
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

/// Copies a directory of the server that nobody has open, a shield's or a store's, to a
/// new one. `progress` is told how many records of about how many are copied, and may end
/// it. Returns how many there are.
///
/// The copy of a shield begins with a resync: what its store has got or lost meanwhile it
/// does not know.
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
