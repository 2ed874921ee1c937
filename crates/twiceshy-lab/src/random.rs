//! Random numbers from a seed, the same on every machine.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use twiceshy_filters::KeyHasher;

/// The generator of everything random here.
pub type Rng = Xoshiro256PlusPlus;

/// The generator of a seed.
#[must_use]
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// The hasher of a seed, instead of a random secret: experiments have to be reproducible.
#[must_use]
pub fn hasher(seed: u64) -> KeyHasher {
    let words = [mix(seed), mix(!seed)].map(u64::to_le_bytes);
    let mut key = [0; 16];
    key.copy_from_slice(words.as_flattened());
    KeyHasher::keyed(key)
}

/// The finaliser of SplitMix64: a bijection of 64-bit numbers.
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
