//! [`Memory`]: what all connections take together, and [`Share`]: what one of them does.
//!
//! The first [`FREE`] bytes of a connection are not counted, so that small requests are
//! answered however much others take, and touch nothing that connections share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What a connection may take without asking.
pub(crate) const FREE: usize = 64 << 10;

/// Memory is asked for, and given back, in steps of this many bytes.
const STEP: usize = 256 << 10;

/// What all connections take together, beyond what is free.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    taken: AtomicUsize,
}

impl Memory {
    /// Bytes that connections have taken, or may take without asking again.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// What one connection has of it; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    memory: &'a Memory,
    /// What all may have together.
    most: usize,
    taken: usize,
}

impl<'a> Share<'a> {
    pub(crate) fn new(memory: &'a Memory, most: usize) -> Self {
        Share { memory, most, taken: 0 }
    }

    /// How much a connection that takes `bytes` may take besides, without asking.
    pub(crate) fn room(&self, bytes: usize) -> usize {
        (FREE + self.taken).saturating_sub(bytes)
    }

    /// Asks for leave to take `bytes` in all.
    #[must_use]
    pub(crate) fn cover(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE);
        if wanted <= self.taken {
            // What was taken without leave does not become right by that.
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

    /// Says that the connection takes `bytes` in all: what it does not need is given
    /// back, and what it needs is counted even if there is no room for it.
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
