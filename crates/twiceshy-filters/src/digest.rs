//! Digests: 128 hash bits of a key, and the hash functions that make them.
//!
//! A [`Digest`] is the first 128 bits of an endless stream of hash bits of a key. Filters read
//! the stream with [`Digest::bits`]; past bit 128 it continues with words derived from the first
//! two, so a filter never runs out of hash bits. A [`KeyHasher`] makes digests from keys.
//!
//! All of this is part of the file format: the values are the same on every platform and in
//! every version, and the tests compare them with golden vectors.

mod sip;

use core::fmt;

use crate::error::{Error, Result};

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// 128 hash bits of a key: all that a filter ever sees of it.
///
/// Digests are ordered as 128-bit numbers, first word first.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    words: [u64; 2],
}

/// Odd constants with no structure (digits of the golden ratio and of pi).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const PI_1: u64 = 0x243f_6a88_85a3_08d3;
const PI_2: u64 = 0x1319_8a2e_0370_7345;

/// Both halves of the 128-bit product, folded together.
#[inline]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Digest {
    /// The digest with these two words.
    #[must_use]
    pub const fn new(words: [u64; 2]) -> Self {
        Digest { words }
    }

    /// The digest's two words.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        self.words
    }

    /// The digest as a number; digests are in the order of their numbers.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u128 {
        (self.words[0] as u128) << 64 | self.words[1] as u128
    }

    /// The digest with this number.
    #[inline]
    #[must_use]
    pub const fn from_number(number: u128) -> Self {
        Digest::new([(number >> 64) as u64, number as u64])
    }

    /// Word `index` of the endless stream: the digest's own two words, then
    /// words derived from both.
    #[inline]
    #[must_use]
    pub const fn word(self, index: u32) -> u64 {
        match index {
            0 => self.words[0],
            1 => self.words[1],
            _ => self.derived(index),
        }
    }

    /// Word `index` of the stream, which must be at least 2.
    #[inline]
    pub(crate) const fn derived(self, index: u32) -> u64 {
        debug_assert!(index >= 2, "the first two words are stored");
        let step = (index as u64).wrapping_mul(GOLDEN);
        fold(self.words[0] ^ step, self.words[1] ^ PI_1)
    }

    /// `count` bits (1 to 64) of the stream from bit `at` on; bit 0 is the
    /// highest of the first word.
    #[inline]
    #[must_use]
    pub const fn bits(self, at: u32, count: u32) -> u64 {
        debug_assert!(count >= 1 && count <= 64, "1 to 64 bits at a time");
        let (index, skip) = (at / 64, at % 64);
        let mut window = self.word(index) << skip;
        if skip + count > 64 {
            window |= self.word(index + 1) >> (64 - skip);
        }
        window >> (64 - count)
    }

    /// The same key's digest under another set of hash functions. Seed 0 is the digest itself,
    /// so a filter that was never rebuilt pays nothing.
    #[inline]
    #[must_use]
    pub const fn rehashed(self, seed: u64) -> Digest {
        if seed == 0 {
            return self;
        }
        let (first, second) = reseed(self.words[0], self.words[1], seed);
        Digest::new([first, second])
    }
}

/// Both words of a digest under another set of hash functions. Out of line, and
/// of bare words, so that a filter which was never rebuilt keeps its query in
/// registers.
#[cold]
#[inline(never)]
const fn reseed(first: u64, second: u64, seed: u64) -> (u64, u64) {
    let turn = seed.wrapping_mul(GOLDEN);
    (fold(first ^ turn, second ^ PI_1), fold(second ^ turn ^ PI_2, first ^ PI_2))
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({:016x}{:016x})", self.words[0], self.words[1])
    }
}

/// A number below `range`, uniform when `hash` is a uniform 32-bit number.
#[inline]
pub(crate) const fn reduce32(hash: u64, range: u64) -> u64 {
    debug_assert!(hash >> 32 == 0 && range <= 1 << 32);
    (hash * range) >> 32
}

/// A number below `range`, uniform when `hash` is a uniform 64-bit number.
#[inline]
pub const fn reduce64(hash: u64, range: u64) -> u64 {
    ((hash as u128 * range as u128) >> 64) as u64
}

/// Mixes a small number (a fingerprint) into 64 bits whose high bits depend on
/// all of it. One multiplication alone would make an arithmetic progression: a
/// plain filter of 10^6 keys with 8 bits was then full at a load of 0.956 to
/// 0.964 instead of 0.972 to 0.974.
#[inline]
pub const fn mix(value: u64) -> u64 {
    let spread = value.wrapping_mul(GOLDEN);
    (spread ^ (spread >> 32)).wrapping_mul(PI_1)
}

/// Turns keys into digests.
///
/// Filters take two keys with equal digests for one key. Among 10^9 keys that happens with
/// probability 10^-21.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHasher {
    function: Function,
}

#[derive(Clone, PartialEq, Eq)]
enum Function {
    Sip { key: [u8; 16] },
    Fast { seed: u64 },
}

/// The first byte of a saved hasher.
const SIP: u8 = 1;
const FAST: u8 = 2;

impl KeyHasher {
    /// The default: SipHash-1-3 with a random secret, so that an attacker who chooses keys
    /// cannot predict their digests.
    ///
    /// # Panics
    /// If the operating system provides no random bytes.
    #[cfg(feature = "getrandom")]
    #[must_use]
    pub fn random() -> Self {
        let mut key = [0; 16];
        getrandom::fill(&mut key).expect("the operating system gives random bytes");
        Self::keyed(key)
    }

    /// SipHash-1-3 with your own secret. Store it with the saved filter, and protect it as well
    /// as the keys.
    #[must_use]
    pub const fn keyed(key: [u8; 16]) -> Self {
        KeyHasher { function: Function::Sip { key } }
    }

    /// XXH3 with 128 bits: three times as fast, for keys that no attacker chooses. The seed is
    /// not a secret.
    #[must_use]
    pub const fn fast(seed: u64) -> Self {
        KeyHasher { function: Function::Fast { seed } }
    }

    /// The digest of a key.
    #[inline]
    #[must_use]
    pub fn digest(&self, key: impl AsRef<[u8]>) -> Digest {
        let key_bytes = key.as_ref();
        match &self.function {
            Function::Sip { key } => Digest::new(sip::hash(key, key_bytes)),
            Function::Fast { seed } => {
                let hash = xxh3_128_with_seed(key_bytes, *seed);
                Digest::new([(hash >> 64) as u64, hash as u64])
            }
        }
    }

    /// The digests of many keys of eight bytes each, which are little-endian words. With SipHash
    /// this is faster than [`KeyHasher::digest`] of each where the processor has AVX2.
    ///
    /// ```
    /// use twiceshy_filters::{Digest, KeyHasher};
    /// let hasher = KeyHasher::keyed([7; 16]);
    /// let mut digests = [Digest::default(); 2];
    /// hasher.digest_words(&[1, 2], &mut digests);
    /// assert_eq!(digests, [1u64, 2].map(|word| hasher.digest(word.to_le_bytes())));
    /// ```
    ///
    /// # Panics
    /// If there are not as many digests as words.
    pub fn digest_words(&self, words: &[u64], digests: &mut [Digest]) {
        assert_eq!(words.len(), digests.len(), "a digest for each word");
        match &self.function {
            Function::Sip { key } => sip::hash_words(key, words, digests),
            Function::Fast { .. } => {
                for (word, digest) in words.iter().zip(digests) {
                    *digest = self.digest(word.to_le_bytes());
                }
            }
        }
    }

    /// The hasher as bytes, its secret included. Protect them as well as the keys.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 17] {
        let mut bytes = [0; 17];
        match self.function {
            Function::Sip { key } => {
                bytes[0] = SIP;
                bytes[1..].copy_from_slice(&key);
            }
            Function::Fast { seed } => {
                bytes[0] = FAST;
                bytes[1..9].copy_from_slice(&seed.to_le_bytes());
            }
        }
        bytes
    }

    /// The hasher that [`KeyHasher::to_bytes`] gave.
    ///
    /// # Errors
    /// [`Error::Format`] for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match *bytes {
            [SIP, ref key @ ..] if key.len() == 16 => {
                Ok(Self::keyed(key.try_into().expect("16 bytes")))
            }
            [FAST, ref rest @ ..] if rest.len() == 16 && rest[8..] == [0; 8] => {
                Ok(Self::fast(u64::from_le_bytes(rest[..8].try_into().expect("8 bytes"))))
            }
            _ => Err(Error::format("these bytes are not a hasher")),
        }
    }

    /// A number by which a saved filter recognises its hasher; it reveals nothing about the
    /// secret.
    #[doc(hidden)]
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.digest("twiceshy: which hasher is this?").word(2)
    }
}

impl fmt::Debug for KeyHasher {
    /// Names the function, never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.function {
            Function::Sip { .. } => f.write_str("KeyHasher(SipHash-1-3, secret key)"),
            Function::Fast { seed } => write!(f, "KeyHasher(XXH3-128, seed {seed})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn numbers_are_ordered_as_digests_are() {
        let words = [0, 1, 255, 256, 1 << 63, u64::MAX];
        let digests: Vec<Digest> =
            words.iter().flat_map(|&high| words.map(|low| Digest::new([high, low]))).collect();
        assert!(digests.is_sorted());
        assert!(digests.iter().map(|digest| digest.number()).is_sorted());
        assert!(digests.iter().all(|&digest| Digest::from_number(digest.number()) == digest));
        assert_eq!(Digest::new([0x0102, 3]).number(), 0x0102 << 64 | 3);
    }
}
