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
//! Queries read a [`Line`] as it is. A change moves its remainders in place; all else it takes
//! apart into [`Fields`], changes those in registers and packs them again: fields share bytes, and
//! a load of bytes that were just stored in other pieces waits for the store. All unused bits are
//! zero, so equal lines have equal bytes.
//!
//! In memory, two bits are inverted: the one below the run ends, and the one that ends a window of
//! [`USUAL_WINDOW`] buckets. So an empty line is all zeros, and an empty filter is memory that the
//! system gives untouched. Files have the bits as they are.

mod writing;

use core::cmp::Ordering;

use super::fingerprint::{Epoch, Fingerprint};
use super::lanes::{Lanes, Portable};
use super::shape::{GROUPS, MOST_BUCKETS, MOST_PLANES, MOST_SLOTS, Shape};
use crate::bits::pages::Zero;
use crate::bits::word::low_bits;

pub(super) use writing::Writing;

/// The byte whose upper seven bits are the epoch.
const EPOCH: usize = 55;
const DRIFT: usize = 56;
const STATES: usize = 57;

/// The byte from which eight hold the drift, the states and the occupied bits.
const LAST_WORD: usize = 56;

/// Bits of the last word below the occupied ones.
const BELOW_OCCUPIED: u32 = 16;

/// Buckets of a line whose window has not moved, in all shapes but the one of 8 planes.
const USUAL_WINDOW: u32 = 40;

/// The bit of the last byte that ends such a window.
const WINDOW_END: u8 = 1 << ((BELOW_OCCUPIED + USUAL_WINDOW) % 8);
const _: () = assert!(8 * LAST_WORD as u32 + BELOW_OCCUPIED + USUAL_WINDOW >= 8 * 63);

/// Words of the run ends, the planes and the epoch, which start behind the remainders.
const MIDDLE_WORDS: usize = 4;

/// A cache line of a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

// SAFETY: a line is bytes, and any bytes are a value.
unsafe impl Zero for Line {}

impl Line {
    /// The empty line of most shapes.
    pub(super) const ZEROS: Self = Line([0; 64]);

    /// A line with its own buckets and no slot in use.
    pub(super) fn empty(epoch: Epoch, shape: &Shape) -> Self {
        Writing::start(shape.buckets, 0, epoch).finish(shape)
    }

    /// The line with its window and no slot in use.
    pub(super) fn emptied(&self, epoch: Epoch, shape: &Shape) -> Self {
        Writing::start(self.window(), self.drift(), epoch).finish(shape)
    }

    /// The line with these bytes in a file.
    pub(super) fn from_file(bytes: [u8; 64], shape: &Shape) -> Self {
        Line(inverted(bytes, shape))
    }

    /// Its bytes in a file.
    pub(super) fn to_file(self, shape: &Shape) -> [u8; 64] {
        inverted(self.0, shape)
    }

    /// The remainders, and more.
    #[inline(always)]
    pub(super) const fn bytes(&self) -> &[u8; 64] {
        &self.0
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    /// A bit for each bucket of the window, and one above them.
    #[inline(always)]
    pub(super) fn occupied(&self) -> u64 {
        self.word(LAST_WORD) >> BELOW_OCCUPIED ^ 1 << USUAL_WINDOW
    }

    /// Bit `s` is set where a run starts at slot `s`, or the last one ends before it. Bits above
    /// are those of other fields.
    #[inline(always)]
    pub(super) fn starts_and_more(&self, shape: &Shape) -> u64 {
        self.word(shape.slots) | 1
    }

    /// A bit for each slot that is the last of its run.
    #[inline(always)]
    pub(super) fn ends(&self, shape: &Shape) -> u64 {
        self.starts_and_more(shape) >> 1 & low_bits(shape.slots as u32)
    }

    /// A plane, with bits of the other fields above it.
    #[inline(always)]
    pub(super) fn plane_and_more(&self, plane: usize, shape: &Shape) -> u64 {
        let at = shape.plane_at(plane);
        self.word((at / 8) as usize) >> (at % 8)
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

    /// Which hash functions its fingerprints come from.
    #[inline(always)]
    pub(super) fn epoch(&self) -> Epoch {
        Epoch::of(self.0[EPOCH])
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

    /// Where a bucket is in the window: the low byte of the answer, at least the window's length
    /// for a bucket that is not in it. `bucket` is counted from the line's home.
    #[inline(always)]
    pub(super) fn index_of(&self, bucket: u32) -> u32 {
        bucket.wrapping_add(u32::from(self.0[DRIFT]))
    }

    /// Whether the window has a bucket whose index has these bits below it.
    #[inline(always)]
    pub(super) fn has(&self, below: u64) -> bool {
        2u64.wrapping_mul(below) | 1 < self.occupied()
    }

    /// The slots of the bucket at an index: none if it is empty.
    #[inline(always)]
    pub(super) fn run(&self, lanes: impl Lanes, index: u32, shape: &Shape) -> u64 {
        lanes.run(lanes.below(index), self.occupied(), self.starts_and_more(shape))
    }

    /// The length of each run from the window's first bucket on; 0 for an empty bucket.
    pub(super) fn lengths(&self, shape: &Shape) -> Lengths {
        Lengths { occupied: self.occupied(), ends: self.ends(shape) }
    }

    /// All but the remainders, to be changed.
    #[inline(always)]
    fn fields(&self, shape: &Shape) -> Fields {
        let mut planes = [0; MOST_PLANES];
        for (plane, bits) in planes.iter_mut().enumerate().take(shape.planes) {
            *bits = self.plane_and_more(plane, shape) & low_bits(shape.slots as u32);
        }
        Fields {
            planes,
            ends: self.ends(shape),
            occupied: self.occupied(),
            states: self.states(),
            drift: self.drift(),
            epoch: self.epoch(),
        }
    }

    /// Writes all but the remainders.
    #[inline(always)]
    fn pack(&mut self, fields: &Fields, shape: &Shape) {
        debug_assert!(fields.occupied >> (MOST_BUCKETS + 1) == 0, "the window is too long");
        debug_assert!(fields.used() <= shape.slots, "the runs are too long");
        let start = 8 * shape.slots as u32;
        let mut middle = [0u64; MIDDLE_WORDS];
        let mut put = |at: u32, bits: u64| {
            let (word, shift) = (((at - start) / 64) as usize, (at - start) % 64);
            middle[word] |= bits << shift;
            if shift > 0 && word + 1 < MIDDLE_WORDS {
                middle[word + 1] |= bits >> (64 - shift);
            }
        };
        put(start, 2 * fields.ends);
        for plane in 0..shape.planes {
            put(shape.plane_at(plane), fields.planes[plane]);
        }
        put(8 * EPOCH as u32, u64::from(fields.epoch.byte()));
        let mut bytes = [0; 8 * MIDDLE_WORDS];
        for (eight, word) in bytes.chunks_exact_mut(8).zip(middle) {
            eight.copy_from_slice(&word.to_le_bytes());
        }
        self.0[shape.slots..LAST_WORD].copy_from_slice(&bytes[..LAST_WORD - shape.slots]);
        let last = (fields.occupied ^ 1 << USUAL_WINDOW) << BELOW_OCCUPIED
            | u64::from(fields.states) << 8
            | u64::from(fields.drift as i8 as u8);
        self.0[LAST_WORD..].copy_from_slice(&last.to_le_bytes());
    }

    /// The invariants that a line alone can have: there is a window with as many runs as occupied
    /// buckets, and nothing in unused slots and bits.
    pub(super) fn is_sound(&self, shape: &Shape) -> bool {
        let mut fields = self.fields(shape);
        if fields.occupied == 0 {
            return false;
        }
        let runs = fields.occupied.count_ones() - 1;
        let used = fields.used();
        for bits in &mut fields.planes {
            *bits &= low_bits(used as u32);
        }
        let mut packed = Line::ZEROS;
        packed.0[..used].copy_from_slice(&self.0[..used]);
        packed.pack(&fields, shape);
        fields.ends.count_ones() == runs && packed == *self
    }

    /// Adds a slot at `at`, in front of the run at an index. Of a group that has adapted, the
    /// selector stays as it is.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        index: u32,
        at: usize,
        adapted: bool,
        fingerprint: Fingerprint,
        shape: &Shape,
    ) {
        let mut fields = self.fields(shape);
        let bucket = 1 << index;
        let is_new = fields.occupied & bucket == 0;
        for plane in usize::from(adapted)..shape.planes {
            let bits = open_bits(fields.planes[plane], at, 1);
            fields.planes[plane] = bits | fingerprint.plane(plane) & 1 << at;
        }
        if adapted {
            // A zero above the selector.
            let len = if is_new { 0 } else { (fields.ends >> at).trailing_zeros() as usize + 1 };
            fields.planes[0] = open_bits(fields.planes[0], at + len, 1);
        }
        fields.ends = open_bits(fields.ends, at, 1) | u64::from(is_new) << at;
        fields.occupied |= bucket;
        self.0.copy_within(at..shape.slots - 1, at + 1);
        self.0[at] = fingerprint.remainder();
        self.pack(&fields, shape);
    }

    /// Removes slot `at` of the run at an index. Of a group that has adapted, the selector loses
    /// its highest bit.
    #[inline(always)]
    pub(super) fn remove(&mut self, index: u32, run: u64, at: usize, adapted: bool, shape: &Shape) {
        let mut fields = self.fields(shape);
        let (start, last) = (run.trailing_zeros() as usize, run.ilog2() as usize);
        for plane in 0..shape.planes {
            let from = if adapted && plane == 0 { last } else { at };
            fields.planes[plane] = close_bits(fields.planes[plane], from, 1);
        }
        fields.ends = close_bits(fields.ends, start, 1);
        fields.occupied ^= u64::from(start == last) << index;
        self.0.copy_within(at + 1..shape.slots, at);
        self.0[shape.slots - 1] = 0;
        self.pack(&fields, shape);
    }

    /// The run of the window's first bucket, which leaves the line.
    pub(super) fn take_first(&mut self, shape: &Shape) -> Run {
        let mut fields = self.fields(shape);
        let is_occupied = fields.occupied & 1 == 1;
        let len = if is_occupied { fields.ends.trailing_zeros() as usize + 1 } else { 0 };
        let run = self.copy(&fields, 0, len);
        if len > 0 {
            self.0.copy_within(len..shape.slots, 0);
            self.0[shape.slots - len..shape.slots].fill(0);
            fields.ends >>= len;
            fields.planes.iter_mut().for_each(|bits| *bits >>= len);
        }
        fields.occupied >>= 1;
        fields.drift -= 1;
        self.pack(&fields, shape);
        run
    }

    /// The run of the window's last bucket, which leaves the line.
    pub(super) fn take_last(&mut self, shape: &Shape) -> Run {
        let mut fields = self.fields(shape);
        let last = 1 << (self.window() - 1);
        let len = if fields.occupied & last != 0 { last_len(fields.ends) } else { 0 };
        let start = fields.used() - len;
        let run = self.copy(&fields, start, len);
        if len > 0 {
            self.0[start..start + len].fill(0);
            let below = low_bits(start as u32);
            fields.ends &= below;
            fields.planes.iter_mut().for_each(|bits| *bits &= below);
        }
        fields.occupied = fields.occupied & (last - 1) | last;
        self.pack(&fields, shape);
        run
    }

    /// A bucket comes in front of the window.
    pub(super) fn put_first(&mut self, run: &Run, shape: &Shape) {
        let mut fields = self.fields(shape);
        let len = run.len;
        if len > 0 {
            self.0.copy_within(..shape.slots - len, len);
            self.0[..len].copy_from_slice(&run.remainders[..len]);
            fields.ends = fields.ends << len | 1 << (len - 1);
            for (bits, new) in fields.planes.iter_mut().zip(run.planes) {
                *bits = *bits << len | new;
            }
        }
        fields.occupied = fields.occupied << 1 | u64::from(len > 0);
        fields.drift += 1;
        self.pack(&fields, shape);
    }

    /// A bucket comes behind the window.
    pub(super) fn put_last(&mut self, run: &Run, shape: &Shape) {
        let mut fields = self.fields(shape);
        let (used, len, window) = (fields.used(), run.len, self.window());
        if len > 0 {
            self.0[used..used + len].copy_from_slice(&run.remainders[..len]);
            fields.ends |= 1 << (used + len - 1);
            for (bits, new) in fields.planes.iter_mut().zip(run.planes) {
                *bits |= new << used;
            }
        }
        fields.occupied ^= (3 ^ u64::from(len > 0)) << window;
        self.pack(&fields, shape);
    }

    fn copy(&self, fields: &Fields, start: usize, len: usize) -> Run {
        let mut run = Run { len, ..Run::EMPTY };
        run.remainders[..len].copy_from_slice(&self.0[start..start + len]);
        for (new, bits) in run.planes.iter_mut().zip(fields.planes) {
            *new = bits >> start & low_bits(len as u32);
        }
        run
    }

    /// Gives the run at an index, whose group has adapted, so many slots; what they hold is to be
    /// written.
    pub(super) fn resize(&mut self, index: u32, slots: usize, shape: &Shape) {
        loop {
            let run = self.run(Portable, index, shape);
            let before = (self.occupied() & Portable.below(index)).count_ones();
            let start = Portable.select(self.starts_and_more(shape), before) as usize;
            match slots.cmp(&(run.count_ones() as usize)) {
                Ordering::Less => self.remove(index, run, start, true, shape),
                Ordering::Equal => return,
                Ordering::Greater => self.insert(index, start, true, Fingerprint::NONE, shape),
            }
        }
    }

    /// Writes other fingerprints into the slots of a run, which keeps its length.
    pub(super) fn overwrite(&mut self, slots: u64, run: &Run, shape: &Shape) {
        let mut fields = self.fields(shape);
        let start = slots.trailing_zeros() as usize;
        self.0[start..start + run.len].copy_from_slice(&run.remainders[..run.len]);
        for (bits, new) in fields.planes.iter_mut().zip(run.planes) {
            *bits = *bits & !slots | new << start;
        }
        self.pack(&fields, shape);
    }

    /// Makes a group one that has adapted: all its runs get selector 0, which compares one bit
    /// less. `first` is the number of the first bucket of the window.
    pub(super) fn adapt_group(&mut self, group: usize, first: usize, shape: &Shape) {
        if self.states() >> group & 1 == 1 {
            return;
        }
        let mut fields = self.fields(shape);
        let (mut start, mut kept) = (0, 0);
        for (bucket, len) in (first..).zip(self.lengths(shape)) {
            if bucket % GROUPS != group {
                kept |= low_bits(len as u32) << start;
            }
            start += len;
        }
        fields.planes[0] &= kept;
        fields.states |= 1 << group;
        self.pack(&fields, shape);
    }
}

/// The lengths of the runs of a window.
pub(super) struct Lengths {
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
        let len = last_len(self.ends);
        self.ends ^= 1 << self.ends.ilog2();
        Some(len)
    }
}

/// The length of the last run; 0 if there is none.
fn last_len(ends: u64) -> usize {
    let Some(last) = ends.checked_ilog2() else { return 0 };
    let before = ends ^ 1 << last;
    (before.leading_zeros() - ends.leading_zeros()) as usize
}

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

/// All of a line but its remainders.
#[derive(Clone, Copy)]
struct Fields {
    planes: [u64; MOST_PLANES],
    ends: u64,
    occupied: u64,
    states: u8,
    drift: i32,
    epoch: Epoch,
}

impl Fields {
    /// No bucket and no slot.
    const EMPTY: Self = Fields {
        planes: [0; MOST_PLANES],
        ends: 0,
        occupied: 1,
        states: 0,
        drift: 0,
        epoch: Epoch::FIRST,
    };

    /// Slots in use.
    #[inline(always)]
    fn used(&self) -> usize {
        (u64::BITS - self.ends.leading_zeros()) as usize
    }
}

/// With the two bits inverted that files have as they are.
fn inverted(mut bytes: [u8; 64], shape: &Shape) -> [u8; 64] {
    bytes[shape.slots] ^= 1;
    bytes[63] ^= WINDOW_END;
    bytes
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

#[cfg(test)]
mod tests;
