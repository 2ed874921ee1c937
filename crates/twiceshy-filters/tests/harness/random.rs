//! Random numbers for tests.
#![allow(dead_code, reason = "each test file uses its own part")]

use twiceshy_filters::Digest;

/// SplitMix64, so that the tests do not lean on the generator they test.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn digest(&mut self) -> Digest {
        Digest::new([self.next(), self.next()])
    }

    pub fn digests(&mut self, count: usize) -> Vec<Digest> {
        (0..count).map(|_| self.digest()).collect()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
