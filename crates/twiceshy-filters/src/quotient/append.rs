//! Runs from remainders that come in order.
//!
//! A remainder goes right behind the last one, or to its quotient's own slot if that is
//! further. Nothing moves, and every word of a block is written once, when the next has
//! begun. Offsets are those of [`super::runs`]: when the first quotient of a block comes, it
//! is known how far the runs of all earlier blocks reach.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::remote::{EVERY_DIGEST, Ordered};

use super::block::SLOTS;
use super::place::Place;
use super::runs::Runs;

/// The runs of all digests of a remote, each with its first remainder; `None` if there are
/// more digests than slots.
pub(crate) fn runs_of(
    remote: &mut dyn Ordered,
    slots: usize,
    width: u32,
    state: usize,
) -> Result<Option<Runs>> {
    let mut appending = Appending::new(slots, width, state);
    let mut last = 0;
    let (mut fits, mut in_order) = (true, true);
    remote
        .visit(EVERY_DIGEST, &mut |digest: Digest| {
            in_order &= last <= digest.word(0);
            fits &= appending.len() < slots;
            if in_order && fits {
                let place = Place::new(digest, slots);
                appending.append(place.quotient, place.remainder(width));
                last = digest.word(0);
            }
        })
        .map_err(Error::Remote)?;
    if !in_order {
        return Err(Error::Remote("its digests are to be visited in order".into()));
    }
    Ok(fits.then(|| appending.finish()))
}

/// Runs that are being written.
pub(crate) struct Appending {
    runs: Runs,
    /// The last quotient.
    quotient: usize,
    /// The slot behind the last run.
    next: usize,
    /// The occupieds of the last quotient's block, so far.
    occupieds: u64,
    /// The block of the last slot, and its runends before that slot.
    block: usize,
    runends: u64,
    /// The word of remainders with the last slot, and which of the block's it is.
    remainders: u64,
    word: usize,
}

impl Appending {
    /// No runs yet, as [`Runs::new`].
    pub(crate) fn new(quotients: usize, width: u32, state: usize) -> Self {
        let runs = Runs::new(quotients, width, state);
        let [occupieds, runends, remainders] = [0; 3];
        Appending { runs, quotient: 0, next: 0, occupieds, block: 0, runends, remainders, word: 0 }
    }

    /// Remainders so far.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.runs.len
    }

    /// Puts a remainder at the end of a quotient's run. No later quotient may
    /// have one.
    ///
    /// # Panics
    /// If one has, or there is no such quotient.
    #[inline]
    pub(crate) fn append(&mut self, quotient: usize, remainder: u64) {
        let (last, quotients) = (self.quotient, self.runs.quotients);
        assert!(last <= quotient && quotient < quotients, "{quotient} of {quotients} after {last}");
        // Whether the last slot was the end of its run is known only now.
        let ended = quotient != self.quotient && self.next != 0;
        self.runends |= u64::from(ended) << (self.next.wrapping_sub(1) % SLOTS);
        if quotient / SLOTS != self.quotient / SLOTS {
            self.begin_quotients(quotient / SLOTS);
        }
        self.occupieds |= 1 << (quotient % SLOTS);
        let slot = self.next.max(quotient);
        if slot / SLOTS != self.block {
            self.begin_slots(slot / SLOTS);
        }
        self.write(slot % SLOTS, remainder);
        self.quotient = quotient;
        self.next = slot + 1;
        self.runs.len += 1;
    }

    /// Writes a remainder into its block.
    #[inline]
    fn write(&mut self, slot: usize, remainder: u64) {
        let width = self.runs.width();
        let at = slot * width as usize;
        if at / 64 != self.word {
            self.runs.blocks.set_word(self.block, self.word, self.remainders);
            (self.word, self.remainders) = (at / 64, 0);
        }
        let shift = (at % 64) as u32;
        self.remainders |= remainder << shift;
        if shift + width > 64 {
            self.runs.blocks.set_word(self.block, self.word, self.remainders);
            (self.word, self.remainders) = (at / 64 + 1, remainder >> (64 - shift));
        }
    }

    /// The next quotient is in a later block.
    fn begin_quotients(&mut self, block: usize) {
        let done = self.quotient / SLOTS;
        self.runs.blocks.set_occupieds(done, self.occupieds);
        self.occupieds = 0;
        let reached = (done + 1..block + 1).take_while(|block| block * SLOTS < self.next);
        for block in reached {
            self.runs.set_offset(block, self.next - block * SLOTS);
        }
    }

    /// The next slot is in a later block.
    fn begin_slots(&mut self, block: usize) {
        self.runs.blocks.set_runends(self.block, self.runends);
        self.runs.blocks.set_word(self.block, self.word, self.remainders);
        (self.block, self.runends, self.word, self.remainders) = (block, 0, 0, 0);
        if block == self.runs.blocks.count() {
            self.runs.add_block();
        }
    }

    /// The runs.
    pub(crate) fn finish(mut self) -> Runs {
        if self.next != 0 {
            self.runends |= 1 << ((self.next - 1) % SLOTS);
        }
        self.begin_quotients(self.runs.blocks.count() - 1);
        self.begin_slots(self.block);
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::bits::packed::mask;
    use crate::rng::Rng;

    /// Appended in order, runs are byte for byte those inserted in any order.
    fn compare(quotients: usize, width: u32, mut pairs: Vec<(usize, u64)>) {
        let state = (width % 3) as usize;
        let mut inserted = Runs::new(quotients, width, state);
        for &(quotient, remainder) in &pairs {
            let _ = inserted.insert_in_order(quotient, remainder);
        }
        pairs.sort_unstable();
        let mut appending = Appending::new(quotients, width, state);
        for (index, &(quotient, remainder)) in pairs.iter().enumerate() {
            assert_eq!(appending.len(), index);
            appending.append(quotient, remainder);
        }
        let appended = appending.finish();
        appended.check().unwrap_or_else(|broken| panic!("{quotients} f={width}: {broken}"));
        assert!(appended == inserted, "{} in {quotients}, f={width}", pairs.len());
    }

    #[test]
    fn appended_runs_are_inserted_runs() {
        let mut rng = Rng::new(8);
        for width in 1..=32 {
            for quotients in [1, 63, 64, 65, 300, 1000] {
                for percent in [0, 3, 50, 95, 100, 160] {
                    if cfg!(miri) && quotients * percent > 6500 {
                        continue;
                    }
                    let pairs = (0..quotients * percent / 100)
                        .map(|_| (rng.below(quotients as u64) as usize, rng.next() & mask(width)));
                    compare(quotients, width, pairs.collect());
                }
            }
        }
    }

    #[test]
    fn appended_piles_have_long_offsets() {
        let mut rng = Rng::new(9);
        let count = if cfg!(miri) { 400 } else { 3000 };
        for (quotients, pile) in [(1000, 0), (1000, 700), (1000, 999), (1, 0), (64, 63)] {
            let pairs = (0..count).map(|index| {
                let anywhere = rng.below(quotients as u64) as usize;
                (if index % 5 == 0 { anywhere } else { pile }, rng.next() & 127)
            });
            compare(quotients, 7, pairs.collect());
        }
    }

    #[test]
    #[should_panic(expected = "3 of 10 after 4")]
    fn quotients_that_go_back_are_refused() {
        let mut appending = Appending::new(10, 8, 0);
        appending.append(4, 0);
        appending.append(3, 0);
    }
}
