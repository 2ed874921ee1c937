//! One block of a telescoping or extension filter with its budget: sampled.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", sections 3 to 5. The distribution of
//! selectors determines when a block is first spent. What follows a reset, or happens in a
//! stream too short to find every false positive, is simulated here: 64 slots, their keys'
//! selectors (or extensions), and the absent keys that collide with each. A block that is spent
//! forgets, and known false positives come back: with probability 1 (`reset`), or with that of a
//! first pass (`reseed`).

use rand::RngExt as _;

use crate::random::{Rng, rng};

use super::cell::{Effort, Estimate, estimate};
use super::poisson;
use super::popularity::{Asks, Popularity};
use super::telescoping::SLOTS;

/// The states of a block's slots: how they adapt to false positives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStates {
    /// The next remainder of the key.
    Selectors,
    /// As many more bits as it takes.
    Extensions,
}

/// What a block does.
#[derive(Clone, Debug)]
pub struct Block {
    /// How its slots adapt.
    pub states: SlotStates,
    /// The probability that remainders collide.
    pub epsilon: f64,
    /// Bits of its code; infinite without one.
    pub budget: f64,
    /// Bits of the code for a slot after so many adaptations, up to the most that it can have.
    pub bits: Vec<f64>,
    /// Whether a spent block takes other hash functions.
    pub reseeds: bool,
}

/// What happens in a stream, for each query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// False positives.
    pub rate: Estimate,
    /// Blocks spent.
    pub spent: f64,
}

/// An absent key that collides with a slot.
struct Colliding {
    asks: Asks,
    /// Bits that it shares beyond the remainder, for extensions.
    common: usize,
}

/// A key of the block.
struct Key {
    slot: usize,
    /// Its selector, or the length of its extension.
    depth: usize,
    /// Absent keys of its quotient, but for those that collide at first.
    others: f64,
    /// The absent keys that collide with each of its remainders so far; extensions have one
    /// list.
    lists: Vec<Vec<Colliding>>,
    /// When it is hit next, and by whom.
    next: Option<(f64, usize)>,
}

impl Block {
    /// False positives in a stream of queries for `absent` keys per stored key.
    #[must_use]
    pub fn rate(
        &self,
        load: f64,
        absent: f64,
        popularity: &Popularity,
        effort: Effort,
        seed: u64,
    ) -> Outcome {
        let queries = SLOTS as f64 * load * absent * popularity.repeats();
        let (mut spent, mut samples) = (0.0, 0.0);
        let seen = estimate(effort, &mut rng(seed), |rng| {
            let slots: Vec<usize> = (0..SLOTS).filter(|_| rng.random::<f64>() < load).collect();
            let colliding = slots.len() as f64 * load * absent * self.epsilon;
            samples += 1.0;
            if colliding == 0.0 {
                return (0.0, 0);
            }
            // Blocks in which nothing ever happens are not drawn.
            let weight = -(-colliding).exp_m1();
            let mut game = Game {
                block: self,
                popularity,
                mean: load * absent,
                keys: Vec::with_capacity(slots.len()),
                beyond_zeros: 0.0,
            };
            let (seen, spent_here) = game.play(&slots, poisson::draw_some(colliding, rng), rng);
            spent += weight * spent_here as f64;
            (weight * seen as f64, seen)
        });
        Outcome { rate: seen.times(1.0 / queries), spent: spent / samples / queries }
    }
}

struct Game<'a> {
    block: &'a Block,
    popularity: &'a Popularity,
    /// Absent keys of a quotient, on average.
    mean: f64,
    keys: Vec<Key>,
    /// Bits of the block's code beyond those of zeros.
    beyond_zeros: f64,
}

impl Game<'_> {
    /// False positives, and how often the block was spent. `colliding` absent keys
    /// collide at first.
    fn play(&mut self, slots: &[usize], colliding: u64, rng: &mut Rng) -> (u64, u64) {
        let others = self.mean * (1.0 - self.block.epsilon);
        for &slot in slots {
            let others = poisson::draw(others, rng) as f64;
            self.keys.push(Key { slot, depth: 0, others, lists: vec![Vec::new()], next: None });
        }
        let keys = slots.len();
        for _ in 0..colliding {
            let hit = rng.random_range(0..keys);
            let absent = self.colliding(rng);
            self.keys[hit].lists[0].push(absent);
        }
        self.forget();
        for key in 0..keys {
            self.look_ahead(key, 0.0, rng);
        }
        let (mut seen, mut spent) = (0, 0);
        loop {
            let events = self.keys.iter().enumerate().filter_map(|(key, k)| Some((k.next?, key)));
            let Some(((now, by), key)) = events.min_by(|a, b| a.0.0.total_cmp(&b.0.0)) else {
                return (seen, spent);
            };
            seen += 1;
            let before = self.keys[key].depth;
            self.watched(key, now);
            if !self.adapt(key, by) {
                spent += 1;
                // What is forgotten was watched until now.
                (0..keys).filter(|other| *other != key).for_each(|other| self.watched(other, now));
                self.spend(key, by, before);
                (0..keys).for_each(|key| self.look_ahead(key, now, rng));
            }
            self.look_ahead(key, now, rng);
        }
    }

    fn colliding(&self, rng: &mut Rng) -> Colliding {
        let common = rng.random::<u64>().leading_zeros() as usize;
        Colliding { asks: Asks::new(self.popularity.draw(rng)), common }
    }

    /// The list of absent keys that may collide with a key.
    fn list(&self, key: usize) -> usize {
        match self.block.states {
            SlotStates::Selectors => self.keys[key].depth,
            SlotStates::Extensions => 0,
        }
    }

    /// Notes that of the absent keys that collide with a key, the one that hit it was asked at
    /// `now`, and the others were not asked since they were last looked at.
    fn watched(&mut self, key: usize, now: f64) {
        let list = self.list(key);
        let hit = &mut self.keys[key];
        let by = hit.next.filter(|(at, _)| *at == now).map(|(_, by)| by);
        for (index, absent) in hit.lists[list].iter_mut().enumerate() {
            if !active(self.block.states, hit.depth, absent) {
                continue;
            }
            if by == Some(index) { absent.asks.one_at(now) } else { absent.asks.none_until(now) }
        }
        hit.next = None;
    }

    /// Adapts to a false positive. `false` when the block's budget is spent.
    fn adapt(&mut self, key: usize, by: usize) -> bool {
        let hit = &mut self.keys[key];
        let depth = match self.block.states {
            SlotStates::Selectors => hit.depth + 1,
            SlotStates::Extensions => hit.lists[0][by].common + 1,
        };
        let Some(bits) = self.block.bits.get(depth) else { return false };
        self.beyond_zeros += bits - self.block.bits[hit.depth];
        hit.depth = depth;
        // Zeros behind the last adapted slot cost nothing: they are
        // what the code's lowest point decodes to.
        let last = self.keys.iter().rfind(|key| key.depth != 0).map_or(0, |key| key.slot + 1);
        last as f64 * self.block.bits[0] + self.beyond_zeros <= self.block.budget
    }

    /// The block forgets, and adapts to the cause again if that is still a false positive.
    fn spend(&mut self, key: usize, by: usize, before: usize) {
        let again = match self.block.states {
            SlotStates::Selectors => usize::from(before == 0),
            SlotStates::Extensions => self.keys[key].lists[0][by].common + 1,
        };
        self.forget();
        if self.block.reseeds {
            self.keys.iter_mut().for_each(|key| key.lists.clear());
        } else if let Some(bits) = self.block.bits.get(again) {
            self.keys[key].depth = again;
            self.beyond_zeros = bits - self.block.bits[0];
        }
    }

    fn forget(&mut self) {
        self.keys.iter_mut().for_each(|key| key.depth = 0);
        self.beyond_zeros = 0.0;
    }

    /// Finds out when a key is hit next.
    fn look_ahead(&mut self, key: usize, now: f64, rng: &mut Rng) {
        let list = self.list(key);
        let depth = self.keys[key].depth;
        while self.keys[key].lists.len() <= list {
            let hit = &self.keys[key];
            let met = hit.lists.first().map_or(0.0, |first| first.len() as f64);
            let count = poisson::draw((hit.others + met) * self.block.epsilon, rng);
            let absent = (0..count).map(|_| self.colliding(rng)).collect();
            self.keys[key].lists.push(absent);
        }
        let mut next: Option<(f64, usize)> = None;
        for (index, absent) in self.keys[key].lists[list].iter_mut().enumerate() {
            if active(self.block.states, depth, absent)
                && let Some(at) = absent.asks.next(now, rng)
                && next.is_none_or(|(first, _)| at < first)
            {
                next = Some((at, index));
            }
        }
        self.keys[key].next = next;
    }
}

/// Whether an absent key of a key's list collides with it as it is.
fn active(states: SlotStates, depth: usize, absent: &Colliding) -> bool {
    states == SlotStates::Selectors || absent.common >= depth
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::telescoping::at_least;

    fn block(states: SlotStates, budget: f64) -> Block {
        // The code of C.3 with x = 3, y = 4, or that of C.4.
        let bits = match states {
            SlotStates::Selectors => {
                (0..9).map(|v| crate::model::telescoping::general_bits(3, 4, v)).collect()
            }
            SlotStates::Extensions => {
                (0..33).map(|l| crate::model::extension::code_bits(3.0 / 32.0, l)).collect()
            }
        };
        Block { states, epsilon: 1.0 / 256.0, budget, bits, reseeds: false }
    }

    const EFFORT: Effort = Effort { error: 0.005, events: 2_000_000 };

    /// Without a budget, and asked until nothing changes, a key has as many false
    /// positives as its selector says: `E[v] = sum of Pr[v >= k]`. Six standard
    /// errors are exceeded with probability 2e-9; beside them, 300 repeats leave the
    /// last steps of a percent of the keys undone.
    #[test]
    fn long_streams_find_every_selector() {
        let filter = block(SlotStates::Selectors, f64::INFINITY);
        for absent in [5.0, 20.0, 40.0] {
            let outcome = filter.rate(0.95, absent, &Popularity::equal(300.0), EFFORT, 1);
            let expected: f64 = at_least(filter.epsilon, 0.95 * absent)[1..].iter().sum();
            let expected = expected / (absent * 300.0);
            let allowed = 6.0 * outcome.rate.error + 0.01 * expected;
            let difference = (outcome.rate.mean - expected).abs();
            assert!(difference < allowed, "{absent}: {outcome:?}, not {expected}");
            assert_eq!(outcome.spent, 0.0);
        }
    }

    /// Asked once, every key is a false positive with the probability of a first
    /// pass, spent or not.
    #[test]
    fn without_repeats_adapting_changes_nothing() {
        for states in [SlotStates::Selectors, SlotStates::Extensions] {
            for budget in [f64::INFINITY, 56.0] {
                let outcome =
                    block(states, budget).rate(0.95, 50.0, &Popularity::equal(1.0), EFFORT, 1);
                let expected = 0.95 / 256.0;
                // Extensions are apart for good: what shares a remainder and its
                // first bits collides less often than selectors say, never more.
                let less = if states == SlotStates::Extensions { 0.5 } else { 0.0 };
                let difference = outcome.rate.mean - expected;
                let error = 6.0 * outcome.rate.error;
                assert!(difference < error, "{states:?}: {outcome:?}, not {expected}");
                assert!(difference > -error - less * expected, "{states:?}: {outcome:?}");
            }
        }
    }

    /// A block is spent in a long stream as often as the sum of its code says, and, as
    /// it takes other functions then, again with that probability. The formula charges
    /// zeros behind the last adapted slot, 3 bits on average here, which
    /// the filter has for free. Six standard errors beside, of a number of blocks.
    #[test]
    fn blocks_are_spent_as_their_code_says() {
        use crate::model::telescoping::{general_bits, overflow, slot_selectors};
        let absent = 40.0;
        let mut filter = block(SlotStates::Selectors, 56.0);
        filter.reseeds = true;
        let outcome = filter.rate(0.95, absent, &Popularity::equal(300.0), EFFORT, 1);
        let blocks = outcome.spent * SLOTS as f64 * 0.95 * absent * 300.0;
        let slot = slot_selectors(filter.epsilon, 0.95, absent);
        let [most, least] =
            [56.0, 60.0].map(|budget| overflow(&slot, |v| general_bits(3, 4, v), budget));
        let (most, least) = (most / (1.0 - most), least / (1.0 - least));
        let error = 6.0 * (most / outcome.rate.samples as f64).sqrt();
        assert!(blocks < most + error && blocks > least - error, "{blocks}: {least} to {most}");
    }
}
