//! A whole line, written from its first bucket to its last.

use super::{Fields, Line};
use crate::line::fingerprint::{Epoch, Fingerprint};
use crate::line::shape::Shape;

/// A whole line, written bucket by bucket.
pub(in crate::line) struct Writing {
    line: Line,
    fields: Fields,
    used: usize,
}

impl Writing {
    /// No slot, in a line whose window has so many buckets and starts `drift` before its home.
    #[inline(always)]
    pub(in crate::line) fn start(window: usize, drift: i32, epoch: Epoch) -> Self {
        let fields = Fields { occupied: 1 << window, drift, epoch, ..Fields::EMPTY };
        Writing { line: Line::ZEROS, fields, used: 0 }
    }

    /// Slots written so far.
    #[inline(always)]
    pub(in crate::line) fn used(&self) -> usize {
        self.used
    }

    /// Adds a slot to the bucket at an index, which is not before those that have slots already.
    #[inline(always)]
    pub(in crate::line) fn push(&mut self, index: usize, fingerprint: Fingerprint, shape: &Shape) {
        let (slot, fields) = (self.used, &mut self.fields);
        self.line.0[slot] = fingerprint.remainder();
        for plane in 0..shape.planes {
            fields.planes[plane] |= fingerprint.plane(plane) & 1 << slot;
        }
        // The last slot of the same bucket is no longer the end of its run.
        let same = fields.occupied >> index & 1;
        fields.ends ^= 1 << slot | (same << slot) >> 1;
        fields.occupied |= 1 << index;
        self.used += 1;
    }

    /// The line.
    #[inline(always)]
    pub(in crate::line) fn finish(mut self, shape: &Shape) -> Line {
        self.line.pack(&self.fields, shape);
        self.line
    }
}
