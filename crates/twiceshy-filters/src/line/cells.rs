//! One line: 64 bytes of remainders, planes and metadata. Knows nothing of digests.
//!
//! A line has a *window* of buckets. The slots of a bucket are its *run*; runs lie side by side
//! in bucket order from slot 0 on, and the slots behind the last run are unused.
//!
//! ```text
//! bucket       0   1   2   3   4   5
//! occupied     1   0   1   1   0   1   1 (one more: where the window ends)
//! slots        a a     b   c c c   d   - - -
//! run ends     0 1     1   0 0 1   1
//! ```
//!
//! All unused bits are zero, so equal lines have equal bytes.

use super::fingerprint::{Epoch, Fingerprint};
use super::lanes::Lanes;
use super::shape::{GROUPS, MOST_BUCKETS, MOST_PLANES, MOST_SLOTS, Shape};
use crate::bits::word::low_bits;

/// The byte whose upper seven bits are the epoch.
const EPOCH: usize = 55;
const DRIFT: usize = 56;
const STATES: usize = 57;

/// The byte from which eight hold the drift, the states and the occupied bits.
const LAST_WORD: usize = 56;

/// Bits of the last word below the occupied ones.
const BELOW_OCCUPIED: u32 = 16;

/// All bytes that can be remainders, and a few more.
const REMAINDERS: usize = 48;

/// A cache line of a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// The slots of one bucket, on their way to another line.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) len: usize,
    pub(super) remainders: [u8; MOST_SLOTS],
    pub(super) planes: [u64; MOST_PLANES],
}

impl Run {
    pub(super) const EMPTY: Self =
        Run { len: 0, remainders: [0; MOST_SLOTS], planes: [0; MOST_PLANES] };
}

/// Puts `count` zeros into a word at bit `at`.
#[inline(always)]
fn open_bits(word: u64, at: usize, count: usize) -> u64 {
    let low = low_bits(at as u32);
    word & low | (word & !low) << count
}

/// Takes `count` bits out of a word at bit `at`.
#[inline(always)]
fn close_bits(word: u64, at: usize, count: usize) -> u64 {
    let low = low_bits(at as u32);
    word & low | word >> count & !low
}

impl Line {
    /// A line with its own buckets and no slot in use.
    pub(super) fn empty(shape: &Shape) -> Self {
        Writing::EMPTY.finish(shape.buckets, 0, Epoch::FIRST, shape)
    }

    pub(super) const fn from_bytes(bytes: [u8; 64]) -> Self {
        Line(bytes)
    }

    #[inline(always)]
    pub(super) const fn bytes(&self) -> &[u8; 64] {
        &self.0
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    /// Writes `width` bits at bit `at`; both ends are within eight bytes from `at / 8` on.
    #[inline(always)]
    fn set_bits(&mut self, at: u32, width: usize, bits: u64) {
        let (byte, shift) = ((at / 8) as usize, at % 8);
        let mask = low_bits(width as u32) << shift;
        let word = self.word(byte) & !mask | bits << shift & mask;
        self.0[byte..byte + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// A bit for each bucket of the window, and one above them.
    #[inline(always)]
    pub(super) fn occupied(&self) -> u64 {
        self.word(LAST_WORD) >> BELOW_OCCUPIED
    }

    #[inline(always)]
    fn set_occupied(&mut self, bits: u64) {
        debug_assert!(bits >> (MOST_BUCKETS + 1) == 0, "the window is too long");
        let word = self.word(LAST_WORD) & low_bits(BELOW_OCCUPIED) | bits << BELOW_OCCUPIED;
        self.0[LAST_WORD..].copy_from_slice(&word.to_le_bytes());
    }

    /// Bit `s` is set where a run starts at slot `s`, or the last one ends before it. Bits above
    /// are those of other fields.
    #[inline(always)]
    pub(super) fn starts_and_more(&self, shape: &Shape) -> u64 {
        self.word(shape.slots)
    }

    /// A bit for each slot that is the last of its run.
    #[inline(always)]
    pub(super) fn ends(&self, shape: &Shape) -> u64 {
        self.starts_and_more(shape) >> 1 & low_bits(shape.slots as u32)
    }

    #[inline(always)]
    fn set_ends(&mut self, bits: u64, shape: &Shape) {
        self.set_bits(8 * shape.slots as u32, shape.slots + 1, (2 * bits) | 1);
    }

    /// A plane, with bits of the other fields above it.
    #[inline(always)]
    pub(super) fn plane_and_more(&self, plane: usize, shape: &Shape) -> u64 {
        let at = shape.plane_at(plane);
        self.word((at / 8) as usize) >> (at % 8)
    }

    /// A plane: a bit for each slot.
    #[inline(always)]
    pub(super) fn plane(&self, plane: usize, shape: &Shape) -> u64 {
        self.plane_and_more(plane, shape) & low_bits(shape.slots as u32)
    }

    fn set_plane(&mut self, plane: usize, bits: u64, shape: &Shape) {
        self.set_bits(shape.plane_at(plane), shape.slots, bits);
    }

    /// A bit for each group: whether it has adapted.
    #[inline(always)]
    pub(super) fn states(&self) -> u8 {
        self.0[STATES]
    }

    /// How many buckets before its home the window starts.
    #[inline(always)]
    pub(super) fn drift(&self) -> i32 {
        i32::from(self.0[DRIFT] as i8)
    }

    fn set_drift(&mut self, drift: i32) {
        self.0[DRIFT] = i8::try_from(drift).expect("no plan drifts farther") as u8;
    }

    /// Which hash functions its fingerprints come from.
    #[inline(always)]
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.0[EPOCH] | 1)
    }

    /// Buckets in the window.
    pub(super) fn window(&self) -> usize {
        self.occupied().ilog2() as usize
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn used(&self, shape: &Shape) -> usize {
        (u64::BITS - self.ends(shape).leading_zeros()) as usize
    }

    /// Where a bucket is in the window, as a byte: 64 or more, or at least the window's length,
    /// for a bucket that is not in it. `bucket` is counted from the line's home.
    #[inline(always)]
    pub(super) fn index_of(&self, bucket: u32) -> u8 {
        (bucket as u8).wrapping_add(self.0[DRIFT])
    }

    /// Whether the window has a bucket whose index has these bits below it.
    #[inline(always)]
    pub(super) fn has(&self, below: u64) -> bool {
        2u64.wrapping_mul(below) | 1 < self.occupied()
    }

    /// The slots of the bucket at an index: none if it is empty.
    #[inline(always)]
    pub(super) fn run(&self, lanes: impl Lanes, index: u8, shape: &Shape) -> u64 {
        lanes.run(lanes.below(index), self.occupied(), self.starts_and_more(shape))
    }

    /// Adds a slot in front of the run at an index.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        lanes: impl Lanes,
        index: u8,
        adapted: bool,
        fingerprint: Fingerprint,
        shape: &Shape,
    ) {
        let occupied = self.occupied();
        let ends = self.ends(shape);
        let bucket = 1 << index;
        let rank = (occupied & (bucket - 1)).count_ones();
        let at = lanes.select(self.starts_and_more(shape), rank) as usize;
        let is_new = occupied & bucket == 0;
        self.open(at, 1, shape);
        self.0[at] = fingerprint.remainder();
        self.set_ends(open_bits(ends, at, 1) | u64::from(is_new) << at, shape);
        self.set_occupied(occupied | bucket);
        for plane in usize::from(adapted)..shape.planes {
            let bits =
                open_bits(self.plane(plane, shape), at, 1) | fingerprint.plane(plane) & 1 << at;
            self.set_plane(plane, bits, shape);
        }
        if adapted {
            // A zero above the selector, which stays as it is.
            let above = if is_new { at } else { at + (ends >> at).trailing_zeros() as usize + 1 };
            self.set_plane(0, open_bits(self.plane(0, shape), above, 1), shape);
        }
    }

    /// Removes slot `at` of the run at an index. Of a group that has adapted, the selector loses
    /// its highest bit.
    pub(super) fn remove(&mut self, index: u8, run: u64, at: u32, adapted: bool, shape: &Shape) {
        let (start, last) = (run.trailing_zeros() as usize, run.ilog2() as usize);
        self.close(at as usize, 1, shape);
        self.set_ends(close_bits(self.ends(shape), start, 1), shape);
        if start == last {
            self.set_occupied(self.occupied() ^ 1 << index);
        }
        for plane in 0..shape.planes {
            let from = if adapted && plane == 0 { last } else { at as usize };
            self.set_plane(plane, close_bits(self.plane(plane, shape), from, 1), shape);
        }
    }

    /// Moves the remainders from `at` on up by `count`.
    #[inline(always)]
    fn open(&mut self, at: usize, count: usize, shape: &Shape) {
        if count == 1 {
            // Without a branch on `at`: the compiler compares and blends 16 at a time.
            let old = self.0;
            for slot in 1..REMAINDERS {
                let moves = slot > at && slot < shape.slots;
                self.0[slot] = if moves { old[slot - 1] } else { old[slot] };
            }
        } else {
            self.0.copy_within(at..shape.slots - count, at + count);
        }
    }

    /// Moves the remainders behind `at + count` down by `count`.
    fn close(&mut self, at: usize, count: usize, shape: &Shape) {
        self.0.copy_within(at + count..shape.slots, at);
        self.0[shape.slots - count..shape.slots].fill(0);
    }

    /// The length of the last run of `ends`, or 0.
    fn last_len(ends: u64) -> usize {
        let Some(last) = ends.checked_ilog2() else { return 0 };
        let before = ends ^ 1 << last;
        (before.leading_zeros() - ends.leading_zeros()) as usize
    }

    /// The length of each run from the window's first bucket on; 0 for an empty bucket.
    pub(super) fn lengths(&self, shape: &Shape) -> impl DoubleEndedIterator<Item = usize> + use<> {
        Lengths { occupied: self.occupied(), ends: self.ends(shape) }
    }

    /// The run of the window's first bucket, which leaves the line.
    pub(super) fn take_first(&mut self, shape: &Shape) -> Run {
        let (occupied, ends) = (self.occupied(), self.ends(shape));
        let len = if occupied & 1 == 1 { ends.trailing_zeros() as usize + 1 } else { 0 };
        let run = self.copy(0, len, shape);
        if len > 0 {
            self.close(0, len, shape);
            self.set_ends(ends >> len, shape);
            for plane in 0..shape.planes {
                self.set_plane(plane, self.plane(plane, shape) >> len, shape);
            }
        }
        self.set_occupied(occupied >> 1);
        self.set_drift(self.drift() - 1);
        run
    }

    /// The run of the window's last bucket, which leaves the line.
    pub(super) fn take_last(&mut self, shape: &Shape) -> Run {
        let (occupied, ends) = (self.occupied(), self.ends(shape));
        let last = 1 << (self.window() - 1);
        let len = if occupied & last != 0 { Self::last_len(ends) } else { 0 };
        let start = self.used(shape) - len;
        let run = self.copy(start, len, shape);
        if len > 0 {
            self.0[start..start + len].fill(0);
            let below = low_bits(start as u32);
            self.set_ends(ends & below, shape);
            for plane in 0..shape.planes {
                self.set_plane(plane, self.plane(plane, shape) & below, shape);
            }
        }
        self.set_occupied(occupied & (last - 1) | last);
        run
    }

    /// A bucket comes in front of the window.
    pub(super) fn put_first(&mut self, run: &Run, shape: &Shape) {
        let Run { len, ref remainders, ref planes } = *run;
        if len > 0 {
            debug_assert!(self.used(shape) + len <= shape.slots, "the plan has room");
            self.0.copy_within(..shape.slots - len, len);
            self.0[..len].copy_from_slice(&remainders[..len]);
            self.set_ends(self.ends(shape) << len | 1 << (len - 1), shape);
            for (plane, bits) in planes.iter().enumerate().take(shape.planes) {
                self.set_plane(plane, self.plane(plane, shape) << len | bits, shape);
            }
        }
        self.set_occupied(self.occupied() << 1 | u64::from(len > 0));
        self.set_drift(self.drift() + 1);
    }

    /// A bucket comes behind the window.
    pub(super) fn put_last(&mut self, run: &Run, shape: &Shape) {
        let Run { len, ref remainders, ref planes } = *run;
        let (used, window) = (self.used(shape), self.window());
        if len > 0 {
            debug_assert!(used + len <= shape.slots, "the plan has room");
            self.0[used..used + len].copy_from_slice(&remainders[..len]);
            self.set_ends(self.ends(shape) | 1 << (used + len - 1), shape);
            for (plane, bits) in planes.iter().enumerate().take(shape.planes) {
                self.set_plane(plane, self.plane(plane, shape) | bits << used, shape);
            }
        }
        let below = self.occupied() ^ 1 << window;
        self.set_occupied(below | (2 | u64::from(len > 0)) << window);
    }

    fn copy(&self, start: usize, len: usize, shape: &Shape) -> Run {
        let mut run = Run { len, ..Run::EMPTY };
        run.remainders[..len].copy_from_slice(&self.0[start..start + len]);
        for (plane, bits) in run.planes.iter_mut().enumerate().take(shape.planes) {
            *bits = self.plane(plane, shape) >> start & low_bits(len as u32);
        }
        run
    }

    /// Writes other fingerprints into the slots of a run, which keeps its length.
    pub(super) fn overwrite(&mut self, slots: u64, run: &Run, shape: &Shape) {
        let start = slots.trailing_zeros() as usize;
        self.0[start..start + run.len].copy_from_slice(&run.remainders[..run.len]);
        for (plane, &bits) in run.planes.iter().enumerate().take(shape.planes) {
            let kept = self.plane(plane, shape) & !slots;
            self.set_plane(plane, kept | bits << start, shape);
        }
    }

    /// The group of the bucket at an index, of which `first` is the number of the first bucket
    /// of the window.
    pub(super) fn group(first: usize, index: usize) -> usize {
        (first + index) % GROUPS
    }

    /// Makes a group one that has adapted: all its runs get selector 0, which compares one bit
    /// less.
    pub(super) fn adapt_group(&mut self, group: usize, first: usize, shape: &Shape) {
        if self.states() >> group & 1 == 1 {
            return;
        }
        let (mut start, mut kept) = (0, 0);
        for (index, len) in self.lengths(shape).enumerate() {
            if Self::group(first, index) != group {
                kept |= low_bits(len as u32) << start;
            }
            start += len;
        }
        self.set_plane(0, self.plane(0, shape) & kept, shape);
        self.0[STATES] |= 1 << group;
    }

    /// The invariants that a line alone can have.
    pub(super) fn is_sound(&self, shape: &Shape) -> bool {
        let (occupied, ends) = (self.occupied(), self.ends(shape));
        if occupied == 0 {
            return false;
        }
        let runs = (occupied ^ 1 << self.window()).count_ones();
        let used = self.used(shape);
        let mut written = Line([0; 64]);
        written.0[..used].copy_from_slice(&self.0[..used]);
        written.0[LAST_WORD..].copy_from_slice(&self.0[LAST_WORD..]);
        written.0[EPOCH] = self.0[EPOCH] & !1;
        written.set_ends(ends, shape);
        for plane in 0..shape.planes {
            let bits = self.plane(plane, shape) & low_bits(used as u32);
            written.set_plane(plane, bits, shape);
        }
        ends.count_ones() == runs && written == *self
    }
}

/// The lengths of the runs of a window.
struct Lengths {
    occupied: u64,
    ends: u64,
}

impl Iterator for Lengths {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.occupied <= 1 {
            return None;
        }
        let is_occupied = self.occupied & 1 == 1;
        self.occupied >>= 1;
        if !is_occupied {
            return Some(0);
        }
        let len = self.ends.trailing_zeros() + 1;
        self.ends >>= len;
        Some(len as usize)
    }
}

impl DoubleEndedIterator for Lengths {
    #[inline]
    fn next_back(&mut self) -> Option<usize> {
        if self.occupied <= 1 {
            return None;
        }
        let last = 1 << (self.occupied.ilog2() - 1);
        let is_occupied = self.occupied & last != 0;
        self.occupied = self.occupied & (last - 1) | last;
        if !is_occupied {
            return Some(0);
        }
        let len = Line::last_len(self.ends);
        self.ends ^= 1 << self.ends.ilog2();
        Some(len)
    }
}

/// Writes a whole line, bucket by bucket.
pub(super) struct Writing {
    remainders: [u8; REMAINDERS],
    planes: [u64; MOST_PLANES],
    ends: u64,
    occupied: u64,
    used: usize,
    states: u8,
}

impl Writing {
    pub(super) const EMPTY: Self = Writing {
        remainders: [0; REMAINDERS],
        planes: [0; MOST_PLANES],
        ends: 0,
        occupied: 0,
        used: 0,
        states: 0,
    };

    /// Slots written so far.
    #[inline(always)]
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Adds a slot to the bucket at an index, which is not before those that have slots already.
    #[inline(always)]
    pub(super) fn push(&mut self, index: usize, fingerprint: Fingerprint, shape: &Shape) {
        let slot = self.used;
        self.remainders[slot] = fingerprint.remainder();
        for plane in 0..shape.planes {
            self.planes[plane] |= fingerprint.plane(plane) & 1 << slot;
        }
        // The last slot of the same bucket is no longer the end of its run.
        let same = self.occupied >> index & 1;
        self.ends ^= (1 << slot) | (same << slot) >> 1;
        self.occupied |= 1 << index;
        self.used += 1;
    }

    /// Gives the bucket at an index, the last that has slots, a selector; its group has adapted.
    pub(super) fn select(&mut self, len: usize, selector: u32, group: usize) {
        let start = self.used - len;
        let run = low_bits(len as u32) << start;
        self.planes[0] = self.planes[0] & !run | u64::from(selector) << start;
        self.states |= 1 << group;
    }

    /// The line, with so many buckets in its window.
    #[inline(always)]
    pub(super) fn finish(&self, window: usize, drift: i32, epoch: Epoch, shape: &Shape) -> Line {
        let mut line = Line([0; 64]);
        line.0[..shape.slots].copy_from_slice(&self.remainders[..shape.slots]);
        for plane in 0..shape.planes {
            line.set_plane(plane, self.planes[plane], shape);
        }
        line.set_ends(self.ends, shape);
        line.set_occupied(self.occupied | 1 << window);
        line.0[STATES] = self.states;
        line.set_drift(drift);
        line.0[EPOCH] = line.0[EPOCH] & 1 | epoch.0 & !1;
        line
    }
}
