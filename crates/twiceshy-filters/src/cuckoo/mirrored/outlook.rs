//! Which queries a filter may ever get wrong, if its keys stay the same.
//!
//! A key of a cyclic, varying or swapping filter never leaves its bin when the filter adapts. It
//! only leaves another of a few values there: one for each selector, or for each cell of the bin.
//! A query that shares none of these with any key of its bins is answered "absent" whatever was
//! asked before, and changes nothing. Simulations of many queries skip it.

use alloc::boxed::Box;
use alloc::vec;

use super::super::table::EMPTY;
use super::{Mirror, Mirrored, Rule};
use crate::any::Outlook;
use crate::error::{Error, Result};

/// As many as there are parameters for.
const MOST_TABLES: usize = 16;

impl<R: Rule> Mirrored<R> {
    /// [`AnyFilter::outlook`](crate::AnyFilter::outlook).
    pub(super) fn look_ahead(&self, remote: &mut dyn Mirror) -> Result<Option<Outlook>> {
        let (rule, shape, seed) = (self.rule, self.table.shape, self.seed);
        let Some(variants) = rule.variants(&shape) else { return Ok(None) };
        // What the key of each cell may leave, cell by cell. No value is that of an empty cell.
        let mut values = vec![EMPTY as u32; shape.cells() * variants as usize];
        for (cell, values) in values.chunks_exact_mut(variants as usize).enumerate() {
            if let Some(digest) = remote.get(cell).map_err(Error::Remote)? {
                let hashes = self.hashes(digest);
                let left = (0..variants).map(|variant| rule.variant(hashes, variant) as u32);
                values.iter_mut().zip(left).for_each(|(value, left)| *value = left);
            }
        }
        Ok(Some(Box::new(move |digest| {
            let hashes = super::Hashes::new(digest, seed, shape.tables);
            let mut bins = [0; MOST_TABLES];
            let bins = &mut bins[..shape.tables as usize];
            bins.iter_mut().zip(0..).for_each(|(bin, table)| *bin = hashes.bin(table, &shape));
            (0..variants).any(|variant| {
                let own = rule.variant(hashes, variant) as u32;
                let leaves = |cell| values[cell * variants as usize + variant as usize];
                bins.iter().any(|&bin| shape.cells_of(bin).any(|cell| leaves(cell) == own))
            })
        })))
    }
}
