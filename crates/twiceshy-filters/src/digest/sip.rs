//! SipHash-1-3 with 128 bits of a whole slice.
//!
//! Aumasson and Bernstein, "SipHash: a fast short-input PRF", with one round per block, three
//! at the end, and the 128-bit output of the authors' reference code. A streaming hasher
//! keeps a partial block and its length between calls; the keys of a filter are slices, so
//! nothing is kept: hashing 16 to 32 bytes takes half as long as with crate `siphasher`,
//! whose digests these are.

use super::Digest;
use crate::bits::word::{Words, Work, tuned_loop};

/// The 128 bits as two words, first word first.
#[inline]
pub(super) fn hash(key: &[u8; 16], bytes: &[u8]) -> [u64; 2] {
    let mut state = State::new(key);
    let (blocks, rest) = bytes.as_chunks::<8>();
    for &block in blocks {
        state.absorb(u64::from_le_bytes(block));
    }
    state.absorb(last_block(bytes, rest));
    state.finish()
}

/// [`hash`] of each word's eight bytes, little-endian. Where the processor has AVX2, the compiler
/// hashes four at once, and with AVX-512 eight.
pub(super) fn hash_words(key: &[u8; 16], words: &[u64], digests: &mut [Digest]) {
    tuned_loop(EachWord { key, words, digests });
}

struct EachWord<'a> {
    key: &'a [u8; 16],
    words: &'a [u64],
    digests: &'a mut [Digest],
}

impl Work for EachWord<'_> {
    type Outcome = ();

    #[inline(always)]
    fn run(self, _: impl Words) {
        for (word, digest) in self.words.iter().zip(self.digests) {
            let mut state = State::new(self.key);
            state.absorb(*word);
            state.absorb(8 << 56);
            *digest = Digest::new(state.finish());
        }
    }
}

/// The bytes behind the last whole block, and the length's lowest byte on top.
#[inline]
fn last_block(bytes: &[u8], rest: &[u8]) -> u64 {
    let length = (bytes.len() as u64) << 56;
    // Every load is of a fixed size: a copy of up to seven bytes is a loop or a call.
    let rest = match (bytes.last_chunk::<8>(), rest.len()) {
        (_, 0) => 0,
        // The block before and the rest overlap; the shift drops what was hashed already.
        (Some(&end), len) => u64::from_le_bytes(end) >> (64 - 8 * len),
        (None, len @ 4..) => {
            let [low, high] = [half(&rest[..4]), half(&rest[len - 4..])];
            low | high << (8 * (len - 4))
        }
        // One to three bytes: the first, the middle and the last are all of them.
        (None, len) => {
            let byte = |index: usize| u64::from(rest[index]) << (8 * index);
            byte(0) | byte(len / 2) | byte(len - 1)
        }
    };
    length | rest
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[inline]
fn half(bytes: &[u8]) -> u64 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes")).into()
}

struct State([u64; 4]);

impl State {
    #[inline(always)]
    fn new(key: &[u8; 16]) -> Self {
        let [k0, k1] = [word(&key[..8]), word(&key[8..])];
        State([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline(always)]
    fn finish(mut self) -> [u64; 2] {
        self.0[2] ^= 0xee;
        let first = self.squeeze();
        self.0[1] ^= 0xdd;
        [first, self.squeeze()]
    }

    #[inline(always)]
    fn absorb(&mut self, block: u64) {
        self.0[3] ^= block;
        self.round();
        self.0[0] ^= block;
    }

    #[inline(always)]
    fn squeeze(&mut self) -> u64 {
        self.round();
        self.round();
        self.round();
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }

    #[inline(always)]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use siphasher::sip128::SipHasher13;

    use super::*;

    /// Every length up to a few blocks, at every alignment.
    #[test]
    fn digests_are_those_of_the_streaming_hasher() {
        let key: [u8; 16] = core::array::from_fn(|index| index as u8);
        let bytes: Vec<u8> = (0..200_u32).map(|index| (index * 151 + 7) as u8).collect();
        for start in 0..8 {
            for end in start..bytes.len() {
                let slice = &bytes[start..end];
                let expected = SipHasher13::new_with_key(&key).hash(slice);
                assert_eq!(hash(&key, slice), [expected.h1, expected.h2], "{start}..{end}");
            }
        }
    }

    /// Both the groups of four and what is left over.
    #[test]
    fn words_are_hashed_as_their_bytes() {
        let key: [u8; 16] = core::array::from_fn(|index| index as u8 * 3);
        for len in 0..40 {
            let words: Vec<u64> = (1..=len).map(|number: u64| number.pow(9) << 7).collect();
            let mut digests = alloc::vec![Digest::default(); words.len()];
            hash_words(&key, &words, &mut digests);
            let expected: Vec<Digest> =
                words.iter().map(|word| Digest::new(hash(&key, &word.to_le_bytes()))).collect();
            assert_eq!(digests, expected);
        }
    }
}
