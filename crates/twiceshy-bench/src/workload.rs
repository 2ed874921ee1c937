//! The keys that every contender gets.

use twiceshy_filters::{Digest, KeyHasher};

/// What a contender is given for a key: a ready digest, or the key itself.
pub trait Item: Copy + 'static {
    /// 64 bits of it: all that a peer takes.
    fn word(self) -> u64;
}

impl Item for Digest {
    #[inline]
    fn word(self) -> u64 {
        self.words()[0]
    }
}

impl Item for u64 {
    #[inline]
    fn word(self) -> u64 {
        self
    }
}

/// Keys to store and as many that are absent.
pub struct Workload<I> {
    /// Keys to store.
    pub stored: Vec<I>,
    /// Other keys.
    pub absent: Vec<I>,
}

/// The random `u64` keys of a run.
pub type Keys = Workload<u64>;

impl Keys {
    /// As many stored and absent keys, all distinct, the same in every run.
    pub fn random(count: usize) -> Self {
        let mut stream = (0..2 * count as u64).map(scramble);
        Workload { stored: stream.by_ref().take(count).collect(), absent: stream.collect() }
    }

    /// Their digests.
    pub fn digests(&self) -> Workload<Digest> {
        let hasher = KeyHasher::fast(1);
        let all = |keys: &[u64]| keys.iter().map(|key| hasher.digest(key.to_le_bytes())).collect();
        Workload { stored: all(&self.stored), absent: all(&self.absent) }
    }
}

/// The mixing step of SplitMix64: distinct numbers become distinct keys.
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
