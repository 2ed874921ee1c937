//! [`Memory`]: the memory of all connections together, and [`Share`]: that of one.
//!
//! The first [`FREE`] bytes of a connection are not counted. So small requests are answered
//! however much memory others take, and touch no shared counter.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that a connection may take without a reservation.
pub(crate) const FREE: usize = 64 << 10;

/// Memory is reserved and released in steps of this many bytes.
const STEP: usize = 256 << 10;

/// The memory of all connections together, beyond [`FREE`] each.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    taken: AtomicUsize,
}

impl Memory {
    /// Bytes that connections have reserved.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// The reservation of one connection, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    memory: &'a Memory,
    /// The limit for all of them together.
    most: usize,
    taken: usize,
}

impl<'a> Share<'a> {
    pub(crate) fn new(memory: &'a Memory, most: usize) -> Self {
        Share { memory, most, taken: 0 }
    }

    /// How much more a connection that takes `bytes` may take without a new reservation.
    pub(crate) fn room(&self, bytes: usize) -> usize {
        (FREE + self.taken).saturating_sub(bytes)
    }

    /// Reserves `bytes` in total, if there is room.
    #[must_use]
    pub(crate) fn cover(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE);
        if wanted <= self.taken {
            // Memory taken beyond the limit does not become part of the reservation.
            return wanted == 0 || self.memory.taken() <= self.most;
        }
        self.take(wanted.next_multiple_of(STEP) - self.taken) || self.take(wanted - self.taken)
    }

    fn take(&mut self, more: usize) -> bool {
        let enough = |taken: usize| taken.checked_add(more).filter(|sum| *sum <= self.most);
        let order = Ordering::Relaxed;
        let took = self.memory.taken.fetch_update(order, order, enough).is_ok();
        self.taken += if took { more } else { 0 };
        took
    }

    /// Sets the memory of the connection to `bytes` in total: releases what it no longer needs,
    /// and counts what it needs even if there is no room for it.
    pub(crate) fn set(&mut self, bytes: usize) {
        let wanted = bytes.saturating_sub(FREE).next_multiple_of(STEP);
        let taken = &self.memory.taken;
        match wanted.cmp(&self.taken) {
            std::cmp::Ordering::Equal => return,
            std::cmp::Ordering::Less => taken.fetch_sub(self.taken - wanted, Ordering::Relaxed),
            std::cmp::Ordering::Greater => taken.fetch_add(wanted - self.taken, Ordering::Relaxed),
        };
        self.taken = wanted;
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_have_more_than_there_is_and_give_all_back() {
        let memory = Memory::default();
        let most = 3 * STEP + 5;
        let mut one = Share::new(&memory, most);
        let mut other = Share::new(&memory, most);
        assert!(one.cover(FREE) && memory.taken() == 0, "what is free is not counted");
        assert_eq!(one.room(FREE), 0);
        assert!(one.cover(FREE + 1));
        assert_eq!((memory.taken(), one.room(FREE + 1)), (STEP, STEP - 1));
        assert!(other.cover(FREE + 2 * STEP));
        assert!(!one.cover(FREE + STEP + 6), "six more than there are");
        assert!(one.cover(FREE + STEP + 5), "the last five");
        assert_eq!(memory.taken(), most);
        assert!(other.cover(FREE + 2 * STEP), "what it has it keeps");
        other.set(FREE + 1);
        assert!(one.cover(FREE + 2 * STEP));
        drop(other);
        one.set(FREE);
        assert_eq!(memory.taken(), 0);
        // What is there is counted, whether it was asked for or not.
        one.set(FREE + 4 * STEP);
        assert_eq!(memory.taken(), 4 * STEP);
        assert!(!one.cover(FREE + 3 * STEP), "there is too much");
        assert!(one.cover(FREE), "except what is free");
        drop(one);
        assert_eq!(memory.taken(), 0);
    }
}
