//! A file that is looked at without being changed: what `redb` writes stays in memory.
//!
//! `redb` writes to a file by opening it. A file that is then refused should be as it was.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

const PAGE: u64 = 4096;

/// A file, and what would have been written to it.
#[derive(Debug)]
pub(super) struct Overlay {
    file: FileBackend,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    length: u64,
    /// How much of the file is seen: what was cut off does not come back.
    seen: u64,
    /// Pages that were written, by number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        let length = file.len()?;
        let state = State { length, seen: length, pages: BTreeMap::new() };
        Ok(Overlay { file, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it would be.
    fn page(&self, state: &State, number: u64) -> io::Result<Vec<u8>> {
        if let Some(page) = state.pages.get(&number) {
            return Ok(page.clone());
        }
        let (mut page, start) = (vec![0; PAGE as usize], number * PAGE);
        let there = state.seen.saturating_sub(start).min(PAGE);
        self.file.read(start, &mut page[..there as usize])?;
        Ok(page)
    }
}

/// The parts of a range by page: the page, where in it, and where in the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let size = (PAGE as usize - within).min(length - done);
        let part = (at / PAGE, within, done, size);
        done += size;
        (size > 0).then_some(part)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if offset + out.len() as u64 > state.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, within, done, size) in parts(offset, out.len()) {
            let page = self.page(&state, number)?;
            out[done..done + size].copy_from_slice(&page[within..within + size]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        if length < state.length {
            let _gone = state.pages.split_off(&length.div_ceil(PAGE));
            if let Some(last) = state.pages.get_mut(&(length / PAGE)) {
                last[(length % PAGE) as usize..].fill(0);
            }
            state.seen = state.seen.min(length);
        }
        state.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        for (number, within, done, size) in parts(offset, data.len()) {
            let mut page = self.page(&state, number)?;
            page[within..within + size].copy_from_slice(&data[done..done + size]);
            state.pages.insert(number, page);
        }
        state.length = state.length.max(offset + data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let mut truth: Vec<u8> = (0..3 * PAGE + 100).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &truth).expect("written");
        let before = truth.clone();
        let file = File::options().read(true).write(true).open(&path).expect("there");
        let overlay = Overlay::new(file).expect("there");
        let same = |truth: &[u8]| {
            assert_eq!(overlay.len().expect("known"), truth.len() as u64);
            for (from, to) in [(0, truth.len()), (1, 2), (4000, truth.len().min(9000))] {
                let mut out = vec![1; to - from];
                overlay.read(from as u64, &mut out).expect("within");
                assert!(out == truth[from..to], "{from}..{to}");
            }
        };
        same(&truth);
        for (offset, length) in [(10, 5), (4090, 20), (8000, 9000), (0, 4096)] {
            let data = vec![offset as u8; length];
            overlay.write(offset, &data).expect("in memory");
            let end = offset as usize + length;
            truth.resize(truth.len().max(end), 0);
            truth[offset as usize..end].copy_from_slice(&data);
            same(&truth);
        }
        for length in [9100, 20_000, 12_288, 30_000] {
            overlay.set_len(length as u64).expect("in memory");
            truth.resize(length, 0);
            same(&truth);
        }
        assert!(overlay.read(29_999, &mut [0; 2]).is_err(), "past the end");
        assert_eq!(fs::read(&path).expect("there"), before);
    }
}
