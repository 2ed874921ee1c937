//! How the 512 bits of a line are divided, for each number of planes.
//!
//! ```text
//! bit 0        8S    8S+1       9S+1     (9+k)S+1   441     448   456      464        512
//! | remainders | 1 | run ends | planes | (unused) | epoch |  F  | states | occupied |
//! |   S bytes  |   |    S     | k x S  |          |   7   |  8  |   8    |    48    |
//! ```
//!
//! The run ends, with the one below them, start with a byte, so that a query needs no instruction
//! to cut them out.

/// Bits of a remainder: a byte, so that one instruction compares all of a line.
pub(super) const REMAINDER_BITS: u32 = 8;

/// The most buckets that a line can have: one bit above them says where its window ends.
pub const MOST_BUCKETS: usize = 47;

/// Groups of buckets in a line, each with a state of its own.
pub(super) const GROUPS: usize = 8;

/// The farthest that a window may start from its line's home. An index in the window is a byte
/// that wraps, and this far indices before and behind the window are still different bytes.
pub(super) const MOST_DRIFT: i32 = 100;

/// The most planes of any shape.
pub(super) const MOST_PLANES: usize = 8;

/// The most slots of any shape.
pub(super) const MOST_SLOTS: usize = 44;

/// The sizes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bits of a slot beside its remainder (k).
    pub planes: usize,
    /// Slots of a line (S).
    pub slots: usize,
    /// Buckets whose home is one line (Q).
    pub buckets: usize,
    /// Keys that a filter is made for, per thousand lines.
    pub keys_per_1000_lines: usize,
}

impl Shape {
    /// The shape with so many planes; `None` where there is none.
    ///
    /// `docs/line-filter.md`, "Shapes", says why: as many slots as fit, and as many buckets and
    /// keys as leave insertions a way to free slots.
    #[must_use]
    pub const fn of(planes: usize) -> Option<Self> {
        let (slots, buckets, keys_per_1000_lines) = match planes {
            1 => (44, 40, 41_000),
            2 => (40, 40, 37_200),
            3 => (36, 40, 33_300),
            4 => (33, 40, 30_400),
            8 => (25, 36, 22_700),
            _ => return None,
        };
        Some(Shape { planes, slots, buckets, keys_per_1000_lines })
    }

    /// [`Shape::of`] a number of planes that has one.
    pub(super) const fn with_planes<const K: usize>() -> Self {
        match Shape::of(K) {
            Some(shape) => shape,
            None => panic!("no shape has so many planes"),
        }
    }

    /// Lines for so many keys. At the two ends windows can drift to one side only, so a filter
    /// of more than one line has a line to spare. The farthest drift of any line grows with the
    /// logarithm of their number: very large filters have emptier lines.
    pub(super) fn lines_for(&self, keys: usize) -> u128 {
        if keys <= self.slots {
            return 1;
        }
        let emptier = match keys {
            0..50_000_000 => 0,
            50_000_000..500_000_000 => self.keys_per_1000_lines / 80,
            _ => self.keys_per_1000_lines / 40,
        };
        let keys_per_1000_lines = (self.keys_per_1000_lines - emptier) as u128;
        (keys as u128 * 1000).div_ceil(keys_per_1000_lines) + 1
    }

    /// Bits of a fingerprint in a group that has not adapted.
    pub(super) const fn fingerprint_bits(&self) -> u32 {
        REMAINDER_BITS + self.planes as u32
    }

    /// Selectors whose fingerprints are of different bits of a hash: a run that has used them up
    /// needs new hash functions.
    pub(super) const fn selectors(&self) -> u32 {
        u64::BITS / self.fingerprint_bits()
    }

    /// The first bit of a plane.
    pub(super) const fn plane_at(&self, plane: usize) -> u32 {
        ((9 + plane) * self.slots + 1) as u32
    }
}

/// Where a digest belongs: its home line, and which of that line's buckets it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub(super) line: usize,
    pub(super) bucket: u32,
}

impl Home {
    /// Of the first word of a digest, in so many lines. The order of digests is that of buckets.
    #[inline(always)]
    pub(super) fn of(word: u64, lines: usize, shape: &Shape) -> Self {
        let place = u128::from(word) * lines as u128;
        let bucket = (u128::from(place as u64) * shape.buckets as u128) >> 64;
        Home { line: (place >> 64) as usize, bucket: bucket as u32 }
    }

    /// Its number among the buckets of the filter.
    #[inline(always)]
    pub(super) fn number(&self, shape: &Shape) -> usize {
        self.line * shape.buckets + self.bucket as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quotient::place::digests_of;
    use crate::rng::Rng;

    const ALL: [usize; 5] = [1, 2, 3, 4, 8];

    #[test]
    fn every_shape_fits_a_line() {
        for shape in ALL.map(|planes| Shape::of(planes).expect("a shape")) {
            assert!(shape.plane_at(shape.planes) <= 441, "{shape:?}");
            // Reads of eight bytes stay within the line, and an index in a byte.
            assert!(shape.plane_at(shape.planes - 1) / 8 + 8 <= 64);
            assert!(shape.buckets + 2 * MOST_DRIFT as usize <= 256);
            assert!(shape.slots <= MOST_SLOTS && shape.planes <= MOST_PLANES);
            assert_eq!(shape.slots, 440 / (9 + shape.planes), "{shape:?}: the most that fit");
        }
    }

    #[test]
    fn a_bucket_is_one_range_of_digests() {
        let mut rng = Rng::new(1);
        for lines in [1, 2, 3, 1000, 12_345_678] {
            for shape in ALL.map(|planes| Shape::of(planes).expect("a shape")) {
                for _ in 0..100 {
                    let word = rng.next();
                    let number = |word| Home::of(word, lines, &shape).number(&shape);
                    let bucket = number(word);
                    let range = digests_of(bucket..=bucket, lines * shape.buckets);
                    let (first, last) = (range.start().word(0), range.end().word(0));
                    assert!((first..=last).contains(&word));
                    assert_eq!([number(first), number(last)], [bucket; 2]);
                    assert!(first == 0 || number(first - 1) + 1 == bucket);
                    assert!(last == u64::MAX || number(last + 1) == bucket + 1);
                }
            }
        }
    }
}
