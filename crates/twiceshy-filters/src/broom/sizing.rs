//! The size of a broom filter: its load, and where signatures begin.

use crate::cuckoo::bounds::surplus;

use super::group::SLOTS;
use super::level::{Level, Shape};

/// Keys per 1000 slots of a full filter: the paper's `1 / (1 + alpha)`.
///
/// The paper's alpha is above 3 for any real number of keys. A group of 64 slots that gets a
/// Poisson number of keys of mean 54.4 overflows with probability 0.09, and 0.6 % of all keys go
/// to the yard, at 20 bytes each: one bit per key overall. At 0.8 or 0.9 the sum of groups and
/// yard is larger.
pub(crate) const TARGET_PERMILLE: u32 = 850;

/// The most quotients with which a filter of `keys` keys stays within `room` bits.
/// A key leaves the yard only when it is swept, so four times as many may be there
/// as there is no room for at any time: with all quotients rehashed, 2.5 % instead
/// of 0.6 %. And three standard deviations more.
pub(crate) fn quotients_within(f: u32, room: usize, keys: usize) -> Option<usize> {
    let group = Level::group_bits(shape(f, keys));
    let fits = |groups: &usize| {
        let (mean, square) = surplus(keys as f64 / *groups as f64, SLOTS as f64);
        let yard = 4.0 * *groups as f64 * mean + 3.0 * libm::sqrt(*groups as f64 * square);
        // 16 bytes and a quarter, and the root of the trie.
        groups * group + (20.0 * yard + 128.0) as usize * 8 <= room
    };
    let most = room / group;
    (1..=most).rev().take(most / 8 + 2).find(fits).map(|groups| groups * SLOTS)
}

/// Signatures are the first `2 log2 log2 n` bits of remainders that have more.
pub(super) fn shape(f: u32, quotients: usize) -> Shape {
    let log = libm::log2(quotients.max(4) as f64);
    let signature = libm::ceil(2.0 * libm::log2(log)) as u32;
    let head = f.min(signature);
    Shape { head, tail: f - head }
}
