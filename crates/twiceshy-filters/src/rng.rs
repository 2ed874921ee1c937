//! The random number generator of the filters.

/// SplitMix64: one word of state, saved with the filter so that a loaded filter continues
/// exactly as the saved one would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    pub(crate) state: u64,
}

impl Rng {
    /// A generator with its own stream for each seed.
    pub fn new(seed: u64) -> Self {
        Rng { state: seed }
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and has no use for adapters")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `range`.
    pub fn below(&mut self, range: u64) -> u64 {
        crate::digest::reduce64(self.next(), range)
    }

    /// Mixes a digest into the state, so that choices depend on the hasher's secret.
    pub fn stir(&mut self, digest: crate::digest::Digest) {
        self.state ^= digest.word(1);
    }
}
