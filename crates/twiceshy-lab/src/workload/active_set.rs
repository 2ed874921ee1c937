//! FireHose's active set: keys that come, are asked for ever more often, and go.
//! The generator of Sandia's FireHose benchmark, from its description; used in
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 6.1.
//!
//! ```text
//! ring of slots    [ ] [k7 k2] [ ] [k9] ...      one list of live keys a slot
//!                        ▲ visited in a cycle, each list emptied last in, first out
//! after a use      back in, `gap` slots ahead; at the end of its life a new key
//!                  takes its place, in a random slot
//! gap over a life  6740 ... 1 ... 8180           a bell of rates: slow, fast, slow
//! ```

use rand::RngExt;

use super::Key;
use crate::random::{Rng, mix, rng};

/// Keys without end, of which about [`ActiveSet::LIVE`] are alive at a time.
#[derive(Clone, Debug)]
pub struct ActiveSet {
    /// Uses of a key, one of which is drawn for each.
    lives: Vec<u32>,
    /// Slots ahead in each part of a life.
    gaps: Vec<u32>,
    live: Vec<Live>,
    /// The first live key of each slot's list.
    ring: Vec<u32>,
    slot: usize,
    /// What is left of the list of the slot that is being visited.
    current: u32,
    serial: u64,
    /// What sets the keys of this seed apart.
    offset: u64,
    rng: Rng,
}

/// A key that is alive.
#[derive(Clone, Debug)]
struct Live {
    key: Key,
    used: u32,
    uses: u32,
    next: u32,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Lengths of life in the table.
const LIVES: u32 = 65_536;

/// Parts of a life.
const PARTS: u32 = 1024;

impl ActiveSet {
    /// Keys alive at a time.
    pub const LIVE: u64 = 131_072;

    /// Slots of the ring.
    pub const SLOTS: u64 = 16_384;

    /// The exponent of FireHose itself: nearly all keys are used once.
    pub const FIREHOSE: f64 = -1.5;

    /// The exponent of the telescoping filter's paper, which forces repeats.
    ///
    /// The paper says 0.5 and, of its 10 million queries, "about 57 repeats a
    /// key". FireHose's constant has a sign: with -0.5 a key is used 54 times,
    /// and keys come and go; with +0.5 it would be 76 times, and hardly any key
    /// of the first set would be gone by the end.
    pub const TELESCOPING: f64 = -0.5;

    /// Queries in the paper's experiment.
    pub const QUERIES: u64 = 10_000_000;

    /// The active set of an exponent.
    ///
    /// # Panics
    /// For exponent 0 and for no number, which have no lengths of life.
    #[must_use]
    pub fn new(exponent: f64, seed: u64) -> Self {
        Self::scaled(exponent, 1.0, seed)
    }

    /// A smaller active set: `scale` times as many live keys and slots, so that
    /// a stream of `scale` times the queries has the same shape.
    ///
    /// # Panics
    /// For exponent 0, for no number, and for a scale that is not in (0, 1].
    #[must_use]
    pub fn scaled(exponent: f64, scale: f64, seed: u64) -> Self {
        assert!(exponent.is_finite() && exponent != 0.0, "exponent {exponent}");
        assert!(scale > 0.0 && scale <= 1.0, "scale {scale}");
        let size = |full: u64| (full as f64 * scale).round().max(2.0);
        let slots = size(Self::SLOTS);
        let mut set = ActiveSet {
            lives: lives(exponent),
            gaps: gaps((slots / 2.0).trunc()),
            live: Vec::new(),
            ring: vec![NONE; slots as usize],
            slot: 0,
            current: NONE,
            serial: 0,
            offset: mix(!seed),
            rng: rng(seed),
        };
        for _ in 0..size(Self::LIVE) as u32 {
            let born = set.born();
            set.live.push(born);
            set.put_anywhere(set.live.len() as u32 - 1);
        }
        set.current = std::mem::replace(&mut set.ring[0], NONE);
        set
    }

    fn born(&mut self) -> Live {
        let key = mix(self.serial.wrapping_add(self.offset));
        self.serial += 1;
        let life = self.rng.random_range(0..self.lives.len());
        Live { key, used: 0, uses: self.lives[life], next: NONE }
    }

    fn put(&mut self, index: u32, slot: usize) {
        self.live[index as usize].next = self.ring[slot];
        self.ring[slot] = index;
    }

    fn put_anywhere(&mut self, index: u32) {
        let slot = self.rng.random_range(0..self.ring.len());
        self.put(index, slot);
    }
}

impl Iterator for ActiveSet {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        while self.current == NONE {
            self.slot = (self.slot + 1) % self.ring.len();
            self.current = std::mem::replace(&mut self.ring[self.slot], NONE);
        }
        let index = self.current;
        let live = &mut self.live[index as usize];
        let key = live.key;
        self.current = live.next;
        live.used += 1;
        if live.used == live.uses {
            self.live[index as usize] = self.born();
            self.put_anywhere(index);
        } else {
            let part = u64::from(PARTS) * u64::from(live.used) / u64::from(live.uses);
            let slot = (self.slot + self.gaps[part as usize] as usize) % self.ring.len();
            self.put(index, slot);
        }
        Some(key)
    }
}

/// The table of lengths of life: a power of the entry's number, stretched over 1
/// to 65,537 uses.
fn lives(exponent: f64) -> Vec<u32> {
    let power = |entry: u32| libm::pow(entry.into(), exponent);
    let least = power(LIVES);
    let share = |entry| (power(entry) - least) / (1.0 - least);
    (1..=LIVES).map(|entry| 1 + (f64::from(LIVES) * share(entry)).floor() as u32).collect()
}

/// How many slots ahead a key is put in each part of its life: a bell curve made
/// of two logistic functions, upside down.
fn gaps(widest: f64) -> Vec<u32> {
    let logistic = |x: f64| 1.0 / (1.0 + libm::exp(-x));
    let bell = |x: f64| logistic(x - 2.0) - logistic(x - 5.0);
    // Symmetric about the middle of its two bends.
    let highest = bell(3.5);
    let x = |part: u32| 12.0 * f64::from(part) / f64::from(PARTS);
    let gap = |part| (widest * (1.0 - bell(x(part)) / highest)).trunc().max(1.0) as u32;
    (0..PARTS).map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the benchmark's description states them.
    #[test]
    fn lives_and_gaps_are_those_of_firehose() {
        let lives = lives(ActiveSet::FIREHOSE);
        let once = lives.iter().filter(|&&uses| uses == 1).count() as f64 / f64::from(LIVES);
        let mean = lives.iter().map(|&uses| f64::from(uses)).sum::<f64>() / f64::from(LIVES);
        assert_eq!((format!("{once:.4}"), format!("{mean:.3}")), ("0.9753".into(), "3.552".into()));
        assert_eq!((lives.iter().max(), lives.iter().min()), (Some(&65_537), Some(&1)));

        let gaps = gaps(8192.0);
        assert_eq!((gaps[0], gaps.iter().min(), gaps[1023]), (6740, Some(&1), 8180));
    }
}
