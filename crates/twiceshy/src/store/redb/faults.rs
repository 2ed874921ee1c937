//! A disk in memory that fails where a test says: the test's file system.
//!
//! It knows what the system shows to readers and what a loss of power would leave,
//! and fails one access or all of them from one on: an error before or after the
//! access, half a write, a full disk, a sync that loses what it was to save.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::backend::Medium;

/// Room is given in blocks.
const BLOCK: u64 = 4096;

/// How an access fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// An error instead of the access.
    Refused,
    /// An error, and the access happens all the same.
    Happens,
    /// Half of a write happens, and an error; other accesses are refused.
    Half,
    /// A sync fails and what it was to save is lost, though readers still see it; so
    /// does Linux. Other accesses are refused.
    Dropped,
    /// Every access is refused from this one on.
    Sticks,
    /// A read panics, as `redb` may do over a page that makes no sense. Other accesses are
    /// refused.
    Panics,
    /// Syncs from this access on say that all is well and save nothing.
    Lies,
}

#[derive(Default)]
struct State {
    /// What readers see.
    seen: Vec<u8>,
    /// What survives a loss of power.
    safe: Vec<u8>,
    /// Writes since the last sync: where, and what.
    unsafe_writes: Vec<(usize, Vec<u8>)>,
    /// Blocks that take room.
    taken: BTreeSet<u64>,
    /// How many there are.
    room: Option<usize>,
    /// Accesses until the fault; `None` is never.
    countdown: Option<(u64, Fault)>,
    /// The countdown that begins with the fault.
    next: Option<(u64, Fault)>,
    lies: bool,
    sticks: bool,
    /// Whether the fault has been.
    struck: bool,
    dead: bool,
    /// A byte, and how many reads of it are right before one is not.
    misread: Option<(usize, u64)>,
    /// Where reads began.
    reads: BTreeSet<u64>,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The `accesses`th access from now fails, counted from zero.
    pub(super) fn fail_in(&self, accesses: u64, fault: Fault) {
        let mut state = self.state();
        (state.countdown, state.struck) = (Some((accesses, fault)), false);
    }

    /// The `accesses`th access after the fault fails too. Whether the first one has been is
    /// not told then: see [`Disk::struck`].
    pub(super) fn fail_again_in(&self, accesses: u64, fault: Fault) {
        self.state().next = Some((accesses, fault));
    }

    /// Whether the fault has been.
    pub(super) fn struck(&self) -> bool {
        self.state().struck
    }

    /// Nothing fails any more.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        (state.countdown, state.next, state.sticks, state.room) = (None, None, false, None);
    }

    /// Room for so many bytes more.
    pub(super) fn room(&self, bytes: u64) {
        let mut state = self.state();
        state.room = Some(state.taken.len() + (bytes / BLOCK) as usize);
        state.struck = false;
    }

    /// What readers see.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.state().seen.clone()
    }

    /// Where reads began since this was last asked.
    pub(super) fn take_reads(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.state().reads)
    }

    /// Changes a byte, as a bad disk does.
    pub(super) fn damage(&self, at: usize) {
        self.state().seen[at] ^= 0x10;
    }

    /// The `reads`th read of a byte from now, counted from zero, gets another one.
    pub(super) fn misread_in(&self, reads: u64, at: usize) {
        self.state().misread = Some((at, reads));
    }

    /// Whether the misread has been.
    pub(super) fn misread(&self) -> bool {
        self.state().misread.is_none()
    }

    /// The disk as the next process finds it; this process changes nothing any more.
    pub(super) fn after_a_crash(&self) -> Self {
        let mut state = self.state();
        state.dead = true;
        Self::with(state.seen.clone())
    }

    /// The disk as it is after a loss of power.
    pub(super) fn after_a_loss_of_power(&self) -> Self {
        let mut state = self.state();
        state.dead = true;
        Self::with(state.safe.clone())
    }

    /// A disk with these bytes.
    pub(super) fn with(bytes: Vec<u8>) -> Self {
        let taken = (0..bytes.len() as u64).step_by(BLOCK as usize).map(|at| at / BLOCK).collect();
        let state = State { safe: bytes.clone(), seen: bytes, taken, ..State::default() };
        Disk(Arc::new(Mutex::new(state)))
    }
}

impl State {
    /// The fault of this access, if it has one.
    fn strikes(&mut self) -> Option<Fault> {
        if self.dead || self.sticks {
            return Some(Fault::Refused);
        }
        let (left, fault) = self.countdown?;
        self.countdown = left.checked_sub(1).map(|left| (left, fault));
        if left > 0 {
            return None;
        }
        self.countdown = self.next.take();
        self.struck = self.countdown.is_none();
        self.sticks |= fault == Fault::Sticks;
        self.lies |= fault == Fault::Lies;
        (fault != Fault::Lies).then_some(fault)
    }

    fn write(&mut self, at: usize, data: &[u8]) -> io::Result<()> {
        for (index, chunk) in data.chunks(BLOCK as usize).enumerate() {
            let at = at + index * BLOCK as usize;
            let block = at as u64 / BLOCK;
            let full = self.room.is_some_and(|room| self.taken.len() >= room);
            if full && !self.taken.contains(&block) {
                self.struck = true;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.taken.insert(block);
            let end = at + chunk.len();
            if end > self.seen.len() {
                self.seen.resize(end, 0);
            }
            self.seen[at..end].copy_from_slice(chunk);
            self.unsafe_writes.push((at, chunk.to_vec()));
        }
        Ok(())
    }

    fn sync(&mut self) {
        if self.lies {
            return;
        }
        self.safe.resize(self.seen.len(), 0);
        for (at, data) in self.unsafe_writes.drain(..) {
            let end = (at + data.len()).min(self.safe.len());
            if at < end {
                self.safe[at..end].copy_from_slice(&data[..end - at]);
            }
        }
    }
}

fn eio() -> io::Error {
    io::Error::other("the disk failed")
}

impl Medium for Disk {
    fn backend(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(self.clone()))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.state();
        let fault = state.strikes();
        fault.map_or(Ok(state.seen.len() as u64), |_| Err(eio()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        match state.strikes() {
            None => (),
            Some(Fault::Panics) => {
                drop(state);
                panic!("a page makes no sense");
            }
            Some(_) => return Err(eio()),
        }
        state.reads.insert(offset);
        let start = offset as usize;
        let bytes = state.seen.get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        if let Some((at, left)) = &mut state.misread
            && let Some(byte) = at.checked_sub(start).and_then(|at| out.get_mut(at))
        {
            *byte ^= if *left == 0 { 0x10 } else { 0 };
            state.misread = left.checked_sub(1).map(|left| (*at, left));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.strikes();
        if matches!(fault, None | Some(Fault::Happens)) {
            state.seen.resize(len as usize, 0);
            let blocks = len.div_ceil(BLOCK);
            state.taken.retain(|&block| block < blocks);
        }
        fault.map_or(Ok(()), |_| Err(eio()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        match state.strikes() {
            None => state.sync(),
            Some(fault) => {
                match fault {
                    Fault::Happens => state.sync(),
                    Fault::Dropped => state.unsafe_writes.clear(),
                    _ => (),
                }
                return Err(eio());
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.strikes();
        let written = match fault {
            None | Some(Fault::Happens) => data.len(),
            Some(Fault::Half) => data.len() / 2,
            Some(_) => 0,
        };
        state.write(offset as usize, &data[..written])?;
        fault.map_or(Ok(()), |_| Err(eio()))
    }

    fn try_lock_range(
        &self,
        _start: std::ops::Bound<u64>,
        _end: std::ops::Bound<u64>,
    ) -> Result<bool, BackendError> {
        Err(BackendError::Unsupported)
    }
}
