//! A random order of `0..len` that takes no memory.

use crate::random::mix;

/// Enough for the order to pass for random; four are the least with a proof.
const ROUNDS: usize = 6;

/// Halves of fewer than six bits would show a bias. What the walk costs is
/// bounded: all indices together visit each number of the power of two once.
const LEAST_BITS: u32 = 12;

/// A bijection of `0..len`, drawn by a seed: a Feistel network on a power of two
/// that holds `len`, walked until it falls below `len`.
///
/// ```text
///   high ──▶ xor ◀── F_round(low) ── low      and the halves change places
/// ```
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    low_bits: u32,
    high_bits: u32,
    round_keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..len` that belongs to a seed.
    ///
    /// # Panics
    /// Beyond 2^63.
    #[must_use]
    pub fn new(len: u64, seed: u64) -> Self {
        assert!(len <= 1 << 63, "{len} is beyond 2^63");
        let bits = len.next_power_of_two().ilog2().max(LEAST_BITS);
        let mut key = mix(seed);
        let round_keys = std::array::from_fn(|_| {
            key = mix(key);
            key
        });
        Permutation { len, low_bits: bits / 2, high_bits: bits - bits / 2, round_keys }
    }

    /// How many numbers it permutes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to permute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where `index` goes.
    ///
    /// # Panics
    /// For an index that is not below the length.
    #[must_use]
    pub fn get(&self, index: u64) -> u64 {
        assert!(index < self.len, "{index} is not below {}", self.len);
        let mut number = self.shuffle(index);
        // The cycle of `index` comes back to `index`, which is below.
        while number >= self.len {
            number = self.shuffle(number);
        }
        number
    }

    /// One application of the network to the power of two.
    fn shuffle(&self, number: u64) -> u64 {
        let (mut low_bits, mut high_bits) = (self.low_bits, self.high_bits);
        let mut low = number & mask(low_bits);
        let mut high = number >> low_bits;
        for key in self.round_keys {
            high ^= mix(low ^ key) & mask(high_bits);
            (low, high) = (high, low);
            (low_bits, high_bits) = (high_bits, low_bits);
        }
        // An even number of rounds: each half is as wide again as it was.
        high << low_bits | low
    }
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}
