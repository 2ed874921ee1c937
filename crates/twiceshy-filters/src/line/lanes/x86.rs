//! The twins for x86-64: AVX2 or AVX-512 to compare remainders, BMI2 to find runs.
//!
//! Zen 1 and 2 have BMI2, but their `pdep` and `pext` take up to 250 cycles: they get the
//! portable way to find runs and AVX2 to compare.

use core::arch::x86_64::{
    __cpuid, __m128i, __m256i, __m512i, _bzhi_u64, _mm_cmpeq_epi8, _mm_loadu_si128,
    _mm_movemask_epi8, _mm_set1_epi8, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8,
    _mm256_set1_epi8, _mm512_cmpeq_epi8_mask, _mm512_loadu_si512, _mm512_set1_epi8, _pdep_u64,
    _pext_u64,
};
use std::arch::is_x86_feature_detected;

use super::{Lanes, Line, Portable, Twin};
use crate::digest::Digest;
use crate::line::hot;

/// The twins of this processor, the fastest last.
pub(super) fn twins<const K: usize>() -> impl Iterator<Item = Twin> {
    let level3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt");
    let fast_pdep = level3 && !pdep_is_slow();
    let level4 = fast_pdep && is_x86_feature_detected!("avx512bw");
    let compared = Twin {
        contains: contains_compared::<K>,
        forms: [contains_compared::<K>, contains_adapted_compared::<K>],
        contains_many: contains_many_compared::<K>,
        insert: insert_compared::<K>,
        delete: delete_compared::<K>,
    };
    let avx2 = Twin {
        contains: contains_avx2::<K>,
        forms: [contains_avx2::<K>, contains_adapted_avx2::<K>],
        contains_many: contains_many_avx2::<K>,
        insert: insert_avx2::<K>,
        delete: delete_avx2::<K>,
    };
    let avx512 = Twin {
        contains: contains_avx512::<K>,
        forms: [contains_avx512::<K>, contains_adapted_avx512::<K>],
        contains_many: contains_many_avx512::<K>,
        insert: insert_avx2::<K>,
        delete: delete_avx2::<K>,
    };
    [(level3, compared), (fast_pdep, avx2), (level4, avx512)]
        .into_iter()
        .filter_map(|(works, twin)| works.then_some(twin))
}

/// AMD's families 15h and 17h (Excavator, Zen 1 and 2) have `pdep` in microcode.
fn pdep_is_slow() -> bool {
    #[allow(unused_unsafe, reason = "safe from Rust 1.93 on")]
    // SAFETY: every x86-64 processor has this instruction and these leaves.
    let (vendor, version) = unsafe { (__cpuid(0), __cpuid(1)) };
    let family = (version.eax >> 8 & 0xf) + (version.eax >> 20 & 0xff);
    vendor.ebx == u32::from_le_bytes(*b"Auth") && matches!(family, 0x15 | 0x17)
}

/// AVX2 compares, all else is portable. A value is proof that this processor has AVX2.
#[derive(Clone, Copy)]
struct Compared(());

impl Lanes for Compared {
    #[inline(always)]
    fn below(self, index: u32) -> u64 {
        Portable.below(index)
    }

    #[inline(always)]
    fn run(self, below: u64, occupied: u64, starts: u64) -> u64 {
        Portable.run(below, occupied, starts)
    }

    #[inline(always)]
    fn select(self, word: u64, index: u32) -> u32 {
        Portable.select(word, index)
    }

    #[inline(always)]
    fn matches(self, line: &[u8; 64], remainder: u8, slots: u64) -> u64 {
        // SAFETY: a value of this type is proof of AVX2.
        unsafe { matches_avx2(line, remainder) & slots }
    }

    #[inline(always)]
    fn compress(self, word: u64, mask: u64) -> u64 {
        Portable.compress(word, mask)
    }

    #[inline(always)]
    fn contains_anywhere<const K: usize>(
        self,
        lines: &[Line],
        count: usize,
        first: u64,
        second: u64,
    ) -> bool {
        // SAFETY: a value of this type is proof of these instructions.
        unsafe { anywhere_compared::<K>(lines, count, first, second) }
    }
}

/// AVX2 and fast BMI2. A value is proof that this processor has both.
#[derive(Clone, Copy)]
struct Avx2(());

impl Lanes for Avx2 {
    #[inline(always)]
    fn below(self, index: u32) -> u64 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { _bzhi_u64(u64::MAX, index) }
    }

    #[inline(always)]
    fn run(self, below: u64, occupied: u64, starts: u64) -> u64 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { run_bmi2(below, occupied, starts) }
    }

    #[inline(always)]
    fn select(self, word: u64, index: u32) -> u32 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { _pdep_u64(1 << index, word) }.trailing_zeros()
    }

    #[inline(always)]
    fn matches(self, line: &[u8; 64], remainder: u8, slots: u64) -> u64 {
        // SAFETY: a value of this type is proof of AVX2.
        unsafe { matches_avx2(line, remainder) & slots }
    }

    #[inline(always)]
    fn compress(self, word: u64, mask: u64) -> u64 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { _pext_u64(word, mask) }
    }

    #[inline(always)]
    fn contains_anywhere<const K: usize>(
        self,
        lines: &[Line],
        count: usize,
        first: u64,
        second: u64,
    ) -> bool {
        // SAFETY: a value of this type is proof of these instructions.
        unsafe { anywhere_avx2::<K>(lines, count, first, second) }
    }
}

/// AVX-512BW and fast BMI2. A value is proof that this processor has both.
#[derive(Clone, Copy)]
struct Avx512(());

impl Lanes for Avx512 {
    #[inline(always)]
    fn below(self, index: u32) -> u64 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { _bzhi_u64(u64::MAX, index) }
    }

    #[inline(always)]
    fn run(self, below: u64, occupied: u64, starts: u64) -> u64 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { run_bmi2(below, occupied, starts) }
    }

    #[inline(always)]
    fn select(self, word: u64, index: u32) -> u32 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { _pdep_u64(1 << index, word) }.trailing_zeros()
    }

    #[inline(always)]
    fn matches(self, line: &[u8; 64], remainder: u8, slots: u64) -> u64 {
        // SAFETY: a value of this type is proof of AVX-512BW.
        unsafe { matches_avx512(line, remainder) & slots }
    }

    #[inline(always)]
    fn compress(self, word: u64, mask: u64) -> u64 {
        // SAFETY: a value of this type is proof of BMI2.
        unsafe { _pext_u64(word, mask) }
    }

    #[inline(always)]
    fn contains_anywhere<const K: usize>(
        self,
        lines: &[Line],
        count: usize,
        first: u64,
        second: u64,
    ) -> bool {
        // SAFETY: a value of this type is proof of these instructions.
        unsafe { anywhere_avx512::<K>(lines, count, first, second) }
    }
}

/// An empty bucket has no bit to deposit, and its difference is zero.
#[inline]
#[target_feature(enable = "bmi2")]
fn run_bmi2(below: u64, occupied: u64, starts: u64) -> u64 {
    let number = _pext_u64(below.wrapping_add(1), occupied);
    _pdep_u64(2 * number, starts).wrapping_sub(_pdep_u64(number, starts))
}

/// The first 48 bytes are all that may be remainders.
#[inline]
#[target_feature(enable = "avx2")]
fn matches_avx2(line: &[u8; 64], remainder: u8) -> u64 {
    // SAFETY: both reads are within the 64 bytes of the line.
    let (low, high) = unsafe {
        let start = line.as_ptr();
        (_mm256_loadu_si256(start.cast::<__m256i>()), {
            _mm_loadu_si128(start.add(32).cast::<__m128i>())
        })
    };
    let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, _mm256_set1_epi8(remainder as i8)));
    let high = _mm_movemask_epi8(_mm_cmpeq_epi8(high, _mm_set1_epi8(remainder as i8)));
    u64::from(low as u32) | u64::from(high as u32) << 32
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn matches_avx512(line: &[u8; 64], remainder: u8) -> u64 {
    // SAFETY: the read is of the 64 bytes of the line.
    let all = unsafe { _mm512_loadu_si512(line.as_ptr().cast::<__m512i>()) };
    _mm512_cmpeq_epi8_mask(all, _mm512_set1_epi8(remainder as i8))
}

// The same operations for each instruction set. In a function that is compiled for it, the
// values that prove it can be made.

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn contains_compared<const K: usize>(
    lines: &[Line],
    count: usize,
    first: u64,
    second: u64,
) -> bool {
    hot::contains_with::<K>(Compared(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn contains_many_compared<const K: usize>(
    lines: &[Line],
    count: usize,
    digests: &[Digest],
    found: &mut [bool],
) {
    hot::contains_many_with::<K>(Compared(()), lines, count, digests, found);
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn insert_compared<const K: usize>(lines: &mut [Line], count: usize, digest: Digest) -> bool {
    hot::insert_with::<K>(Compared(()), lines, count, digest)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn contains_avx2<const K: usize>(lines: &[Line], count: usize, first: u64, second: u64) -> bool {
    hot::contains_with::<K>(Avx2(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn contains_many_avx2<const K: usize>(
    lines: &[Line],
    count: usize,
    digests: &[Digest],
    found: &mut [bool],
) {
    hot::contains_many_with::<K>(Avx2(()), lines, count, digests, found);
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn insert_avx2<const K: usize>(lines: &mut [Line], count: usize, digest: Digest) -> bool {
    hot::insert_with::<K>(Avx2(()), lines, count, digest)
}

#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn contains_avx512<const K: usize>(lines: &[Line], count: usize, first: u64, second: u64) -> bool {
    hot::contains_with::<K>(Avx512(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn contains_many_avx512<const K: usize>(
    lines: &[Line],
    count: usize,
    digests: &[Digest],
    found: &mut [bool],
) {
    hot::contains_many_with::<K>(Avx512(()), lines, count, digests, found);
}

#[inline(never)]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn anywhere_compared<const K: usize>(
    lines: &[Line],
    count: usize,
    first: u64,
    second: u64,
) -> bool {
    hot::contains_anywhere_with::<K>(Compared(()), lines, count, Digest::new([first, second]))
}

#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn anywhere_avx2<const K: usize>(lines: &[Line], count: usize, first: u64, second: u64) -> bool {
    hot::contains_anywhere_with::<K>(Avx2(()), lines, count, Digest::new([first, second]))
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn anywhere_avx512<const K: usize>(lines: &[Line], count: usize, first: u64, second: u64) -> bool {
    hot::contains_anywhere_with::<K>(Avx512(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn contains_adapted_compared<const K: usize>(
    lines: &[Line],
    count: usize,
    first: u64,
    second: u64,
) -> bool {
    hot::contains_adapted_with::<K>(Compared(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn contains_adapted_avx2<const K: usize>(
    lines: &[Line],
    count: usize,
    first: u64,
    second: u64,
) -> bool {
    hot::contains_adapted_with::<K>(Avx2(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn contains_adapted_avx512<const K: usize>(
    lines: &[Line],
    count: usize,
    first: u64,
    second: u64,
) -> bool {
    hot::contains_adapted_with::<K>(Avx512(()), lines, count, Digest::new([first, second]))
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn delete_compared<const K: usize>(
    lines: &mut [Line],
    count: usize,
    digest: Digest,
) -> Option<usize> {
    hot::delete_with::<K>(Compared(()), lines, count, digest)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn delete_avx2<const K: usize>(lines: &mut [Line], count: usize, digest: Digest) -> Option<usize> {
    hot::delete_with::<K>(Avx2(()), lines, count, digest)
}

#[cfg(test)]
mod tests;
