//! Runs against one list a quotient.

use super::offsets::LONG;
use super::*;
use crate::bits::packed::mask;
use crate::bits::word::{Words, Work, tuned};
use crate::rng::Rng;
use alloc::vec;
use alloc::vec::Vec;

impl Runs {
    fn insert(
        &mut self,
        quotient: usize,
        remainder: u64,
        index: impl FnOnce(&Self, Range<usize>) -> usize,
    ) -> Shift {
        let index = self.run(quotient).map_or(0, |run| index(self, run));
        let gap = self.gap(quotient, index);
        self.fill(gap, remainder)
    }

    fn remove(&mut self, quotient: usize, index: usize) -> Shift {
        let hole = self.hole(quotient, index);
        self.close(hole)
    }
}

/// The slow obvious version: one list a quotient. Slots follow from it.
struct Lists(Vec<Vec<u64>>);

impl Lists {
    fn runs(&self) -> Vec<(usize, Range<usize>)> {
        let mut used = 0;
        let occupied = self.0.iter().enumerate().filter(|(_, list)| !list.is_empty());
        occupied
            .map(|(quotient, list)| {
                let start = used.max(quotient);
                used = start + list.len();
                (quotient, start..used)
            })
            .collect()
    }

    fn compare(&self, runs: &Runs) {
        runs.check().unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!(runs.iter().collect::<Vec<_>>(), self.runs());
        assert_eq!(runs.len(), self.0.iter().map(Vec::len).sum::<usize>());
        for (quotient, list) in self.0.iter().enumerate() {
            let held = runs
                .run(quotient)
                .map_or(Vec::new(), |run| run.map(|slot| runs.remainder(slot)).collect::<Vec<_>>());
            assert_eq!(&held, list, "quotient {quotient}");
            for remainder in list.iter().flat_map(|&held| [held, held ^ 1]).chain([0]) {
                let holds = tuned(Holds(runs, quotient, remainder));
                assert_eq!(holds, list.contains(&remainder), "quotient {quotient}");
                let comes = !list.contains(&remainder) && list.is_sorted();
                let index = list.iter().filter(|&&held| held <= remainder).count();
                let gap = runs.gap_in_order(quotient, remainder);
                assert_eq!(gap, comes.then(|| runs.gap(quotient, index)), "{remainder}");
            }
        }
    }
}

struct Holds<'a>(&'a Runs, usize, u64);

impl Work for Holds<'_> {
    type Outcome = bool;

    fn run(self, words: impl Words) -> bool {
        self.0.holds(words, self.1, self.2)
    }
}

/// One value for each slot, moved by the shifts that are reported.
struct Moved(Vec<u64>);

impl Moved {
    fn insert(&mut self, shift: Shift, remainder: u64) {
        self.0.resize(self.0.len().max(shift.to + 1), 0);
        self.0.copy_within(shift.from..shift.to, shift.from + 1);
        self.0[shift.from] = remainder;
    }

    fn remove(&mut self, shift: Shift) {
        self.0.copy_within(shift.from + 1..shift.to + 1, shift.from);
        self.0[shift.to] = 0;
    }
}

/// Random insertions and removals; `pick` chooses quotients.
fn play(quotients: usize, width: u32, steps: usize, pick: impl Fn(&mut Rng) -> usize) {
    let mut rng = Rng::new(quotients as u64 * 64 + u64::from(width));
    let mut runs = Runs::new(quotients, width, (width % 4) as usize);
    let mut lists = Lists(vec![Vec::new(); quotients]);
    let mut moved = Moved(Vec::new());
    for step in 0..steps {
        let quotient = pick(&mut rng);
        let list = &mut lists.0[quotient];
        // First mostly insertions, then mostly removals.
        let insert = rng.below(100) < if step < steps / 2 { 75 } else { 30 };
        if insert && runs.len() < 2 * quotients + 600 {
            let index = rng.below(list.len() as u64 + 1) as usize;
            let remainder = rng.next() & mask(width);
            list.insert(index, remainder);
            moved.insert(runs.insert(quotient, remainder, |_, _| index), remainder);
        } else if !list.is_empty() {
            let index = rng.below(list.len() as u64) as usize;
            list.remove(index);
            moved.remove(runs.remove(quotient, index));
        }
        if step % 97 == 0 || steps < 200 {
            lists.compare(&runs);
            let whole = runs.as_bytes();
            let again = Runs::from_bytes(whole, quotients, width, (width % 4) as usize);
            assert!(again.is_ok_and(|again| again == runs));
        }
    }
    lists.compare(&runs);
    let values = moved.0.iter().enumerate();
    assert!(values.clone().all(|(slot, &value)| runs.remainder(slot) == value), "shifts lie");
    while let Some((quotient, run)) = runs.iter().last() {
        moved.remove(runs.remove(quotient, run.len() - 1));
    }
    runs.check().expect("nothing is left");
    assert!(moved.0.iter().all(|&value| value == 0) && runs.len() == 0);
}

#[test]
fn runs_agree_with_lists_at_every_width_and_odd_sizes() {
    let steps = if cfg!(miri) { 60 } else { 1500 };
    for width in 1..=32 {
        let quotients = [1, 2, 63, 64, 65, 128, 200, 517][width as usize % 8];
        play(quotients, width, steps, |rng| rng.below(quotients as u64) as usize);
    }
}

#[test]
fn piles_on_few_quotients_agree_with_lists() {
    let steps = if cfg!(miri) { 60 } else { 6000 };
    for (quotients, pile) in [(300, 0), (300, 299), (300, 63), (300, 64), (65, 3), (1, 0)] {
        play(quotients, 5, steps, |rng| match rng.below(4) {
            0 => rng.below(quotients as u64) as usize,
            _ => pile,
        });
    }
}

/// The figure at the top of this file.
#[test]
fn runs_drawn_by_hand() {
    let mut runs = Runs::new(8, 8, 0);
    for (quotient, index, letter) in
        [(6, 0, b'e'), (1, 0, b'c'), (0, 0, b'b'), (3, 0, b'd'), (0, 0, b'a')]
    {
        let _ = runs.insert(quotient, u64::from(letter), |_, _| index);
    }
    assert_eq!(&runs.as_bytes()[17..25], b"abcd\0\0e\0");
    assert_eq!(runs.as_bytes()[0], 0b0100_1011);
    assert_eq!(runs.as_bytes()[8], 0b0100_1110);
    // d is at its own slot: what is removed before it does not move it.
    assert_eq!(runs.remove(0, 0), Shift { from: 0, to: 2 });
    assert_eq!(runs.insert(2, u64::from(b'x'), |_, _| 0), Shift { from: 2, to: 2 });
    assert_eq!(&runs.as_bytes()[17..25], b"bcxd\0\0e\0");
}

/// 5,000 slots in one run reach over 79 blocks, most of them with an offset
/// that a byte cannot hold.
#[test]
fn a_run_of_thousands_of_slots_has_long_offsets() {
    let count = if cfg!(miri) { 600 } else { 5000 };
    let mut runs = Runs::new(1000, 6, 0);
    for index in 0..count {
        let _ = runs.insert(70, index as u64 & 63, |_, run| run.len());
    }
    let _ = runs.insert(71, 1, |_, _| 0);
    let _ = runs.insert(999, 2, |_, _| 0);
    runs.check().expect("every offset is right");
    assert_eq!(runs.run(70), Some(70..70 + count));
    let behind = 70 + count;
    assert_eq!(runs.run(71), Some(behind..behind + 1));
    assert_eq!(runs.run(999).map(|run| run.start), Some(999.max(behind + 1)));
    let long = runs.long_offsets.len();
    assert!(long > 0 && runs.bits() > runs.blocks.bits(), "{long} long offsets are counted");
    // Exactly at the limit, and back below it.
    while let Some(run) = runs.run(70) {
        let shift = runs.remove(70, run.len() / 2);
        assert_eq!(shift.from, run.start + run.len() / 2);
    }
    runs.check().expect("every offset is right again");
    assert!(runs.long_offsets.is_empty() && runs.len() == 2);
    assert_eq!([runs.run(71), runs.run(999)], [Some(71..72), Some(999..1000)]);
}

#[test]
fn offsets_around_the_limit_of_a_byte() {
    let mut runs = Runs::new(64, 3, 0);
    // Slot 64 is the first of block 1.
    for len in 1..=64 + 260 {
        let _ = runs.insert(0, 5, |_, _| 0);
        runs.check().unwrap_or_else(|broken| panic!("{len}: {broken}"));
        let long = len >= 64 + usize::from(LONG);
        assert_eq!(runs.find_long(1).is_ok(), long, "{len}");
    }
}

/// A quotient behind them would start behind the last block.
#[test]
fn runs_may_take_every_slot_of_every_block() {
    let mut runs = Runs::new(64, 8, 0);
    for remainder in 0..128 {
        let _ = runs.insert_in_order(62, remainder);
    }
    assert_eq!(runs.run(62), Some(62..190));
    let _ = runs.insert_in_order(61, 5);
    let _ = runs.insert_in_order(61, 6);
    assert_eq!(runs.run(62), Some(63..191));
    let _ = runs.insert_in_order(61, 7);
    assert_eq!(runs.run(62), Some(64..192));
    assert_eq!(runs.blocks.slots(), 192, "none is left");
    assert!(runs.run(63).is_none() && runs.remove_one(63, 9).is_none());
    assert!(!tuned(Holds(&runs, 63, 0)) && tuned(Holds(&runs, 62, 127)));
    let shift = runs.insert_in_order(63, 9);
    assert_eq!(shift, Shift { from: 192, to: 192 });
    runs.check().expect("every invariant holds");
}

#[test]
fn damaged_blocks_are_refused() {
    let mut runs = Runs::new(100, 4, 0);
    for quotient in [3, 3, 3, 40, 99, 99] {
        let _ = runs.insert(quotient, 9, |_, _| 0);
    }
    let whole = runs.as_bytes();
    assert!(Runs::from_bytes(&whole[1..], 100, 4, 0).is_err());
    assert!(Runs::from_bytes(&whole[..49], 100, 4, 0).is_err(), "too few blocks");
    assert!(Runs::from_bytes(whole, 99, 4, 0).is_err(), "a quotient too many");
    // A wrong remainder of a slot in use is all that it cannot notice.
    let unnoticed = (0..whole.len() * 8).filter(|bit| {
        let mut flipped = whole.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        Runs::from_bytes(&flipped, 100, 4, 0).is_ok()
    });
    // Beside them, a runend may be elsewhere in a run only in pairs.
    assert_eq!(unnoticed.count(), 6 * 4);
}
