//! The embedded store, which may have to be built first.

use std::mem;
use std::path::{Path, PathBuf};

use tracing::info;
use twiceshy::store::{Durability, Options, Redb};
use twiceshy_server::{Backend, Embedded, demo};

use super::scratch::Running;
use super::{Args, Survives};
use crate::progress::Progress;
use crate::table::bytes;

/// How the embedded store is opened.
pub(super) struct Own {
    directory: PathBuf,
    options: Options,
    /// The users to store first.
    users: Option<u64>,
}

impl Own {
    pub(super) fn new(args: &Args, directory: &Path) -> Result<Self, String> {
        let durability = match (args.durability, args.demo) {
            (Survives::Power, None) => Durability::Power,
            _ => Durability::Process,
        };
        if let Some(users) = args.demo {
            check_room(directory, users)?;
        }
        check_memory(args.capacity)?;
        let options = Options::default().capacity(args.capacity).durability(durability);
        Ok(Own { directory: directory.into(), options, users: args.demo })
    }

    pub(super) fn open(self, running: &Running) -> Result<Backend, twiceshy::store::Error> {
        let Own { directory, options, users } = self;
        let progress = Progress::counting();
        let store = match users {
            Some(users) => {
                show_building(&progress, users, 0, 0);
                let mut first = true;
                let records = demo::records(users).inspect(|_| {
                    if mem::take(&mut first) {
                        running.owned();
                    }
                });
                let progress = &mut |done, total| {
                    running.owned();
                    show_building(&progress, users, done, total);
                };
                let store = options.build::<Redb, _, _>(&directory, records, progress);
                if store.is_ok() {
                    running.owned();
                }
                store
            }
            None => {
                progress.phase("building the filter");
                options.open_with::<Redb>(&directory, &mut |done, total| {
                    progress.arrive_of(done, total);
                })
            }
        };
        progress.finish();
        let store = store?;
        info!(directory = %directory.display(), filter = %store.opened(), "opened");
        Ok(Backend::Embedded(Embedded::new(store)))
    }
}

/// Shows the progress of a demonstration's store: its users are stored (the total is 0), and
/// then its filter is built, which takes about a tenth of the time.
fn show_building(progress: &Progress, users: u64, done: u64, total: u64) {
    let stored = 9 * users;
    let (phase, share) = match total {
        0 => ("storing users", 9 * done),
        _ => ("building the filter", stored + u64::min(done, users)),
    };
    progress.phase(phase);
    progress.arrive_of(share, stored + users);
}

/// Returns an error if filters of so many keys cannot fit in memory, where allocating them would
/// end the process.
pub(super) fn check_memory(capacity: usize) -> Result<(), String> {
    /// The default filter takes 12 bits per key of its capacity.
    const BITS: usize = 12;
    let room = Vec::<u8>::new().try_reserve_exact(capacity.saturating_mul(BITS) / 8);
    room.map_err(|_| format!("no memory for filters of {capacity} keys; lower --capacity"))
}

/// Returns an error if the disk has no room for a demonstration.
fn check_room(directory: &Path, users: u64) -> Result<(), String> {
    // A directory that is not there will be made in the first that is.
    let mut above = directory.ancestors().filter(|above| above.exists());
    let Some(Ok(disk)) = above.next().map(rustix::fs::statvfs) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let needed = users * demo::BYTES_PER_USER;
    if needed <= free {
        return Ok(());
    }
    let [needed, free] = [needed, free].map(bytes);
    Err(format!(
        "{users} users take about {needed}, and {} has {free} free; ask for fewer with --demo=N, \
         or for another --dir",
        directory.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_noticed_before_a_demonstration_begins() {
        let directory = tempfile::tempdir().expect("a directory");
        let below = directory.path().join("not/there/yet");
        assert_eq!(check_room(&below, 1), Ok(()));
        let error = check_room(&below, u64::MAX / demo::BYTES_PER_USER).expect_err("too many");
        assert!(error.contains("EiB") && error.contains("--demo=N"), "{error}");
    }

    #[test]
    fn more_keys_than_memory_are_noticed_before_filters_are_made() {
        assert_eq!(check_memory(1 << 20), Ok(()));
        let error = check_memory(usize::MAX).expect_err("too many");
        assert!(error.contains("lower --capacity"), "{error}");
    }

    /// It never goes back, and ends with everything.
    #[test]
    fn the_bar_of_a_demonstration_goes_forward() {
        let progress = Progress::counting();
        let told = [(400, 0), (800, 0), (1000, 0), (10, 1000), (500, 1000), (1000, 1000)];
        let shares = told.map(|(done, total)| {
            show_building(&progress, 1000, done, total);
            progress.share().expect("a bar")
        });
        assert!(shares.is_sorted(), "{shares:?}");
        assert_eq!((shares[0], shares[5]), (0.36, 1.0));
    }
}
