//! Which queries a filter may ever get wrong, if its keys stay the same.
//!
//! A key of a cyclic, varying or swapping filter never leaves its bin when the filter adapts. It
//! only leaves another of a few values there: one for each selector, or for each cell of the bin.
//! A query that shares none of these with any key of its bins is answered "absent" whatever was
//! asked before, and changes nothing. Simulations of many queries skip it.

use alloc::boxed::Box;
use alloc::vec;

use super::super::table::EMPTY;
use super::{Hashes, Mirror, Mirrored, Rule};
use crate::any::Outlook;
use crate::digest::Digest;
use crate::error::{Error, Result};

/// A bit for each.
const MOST_VARIANTS: usize = u32::BITS as usize;

impl<R: Rule> Mirrored<R> {
    /// [`AnyFilter::outlook`](crate::AnyFilter::outlook).
    pub(super) fn look_ahead(&self, remote: &mut dyn Mirror) -> Result<Option<Outlook>> {
        let (rule, shape, seed) = (self.rule, self.table.shape, self.seed);
        let Some(variants) = rule.variants(&shape) else { return Ok(None) };
        let count = variants as usize;
        if count > MOST_VARIANTS {
            return Ok(None);
        }
        let leaves = move |hashes: Hashes, values: &mut [u32]| {
            let left = (0..variants).map(|variant| rule.variant(hashes, variant) as u32);
            values.iter_mut().zip(left).for_each(|(value, left)| *value = left);
        };
        // What the key of each cell may leave, cell by cell. No value is that of an empty cell.
        let mut values = vec![EMPTY as u32; shape.cells() * count];
        for (cell, values) in values.chunks_exact_mut(count).enumerate() {
            if let Some(digest) = remote.get(cell).map_err(Error::Remote)? {
                leaves(self.hashes(digest), values);
            }
        }
        let collisions = move |digest: Digest, found: &mut dyn FnMut(usize, u32)| {
            let hashes = Hashes::new(digest, seed, shape.tables);
            let mut own = [EMPTY as u32; MOST_VARIANTS];
            leaves(hashes, &mut own[..count]);
            for table in 0..shape.tables {
                for cell in shape.cells_of(hashes.bin(table, &shape)) {
                    let of_key = values[cell * count..][..count].iter().zip(&own).zip(0..);
                    let same = of_key.map(|((key, own), bit)| u32::from(key == own) << bit).sum();
                    if same != 0 {
                        found(cell, same);
                    }
                }
            }
        };
        let coins = R::DRAWS_CELLS.then(|| self.rng.clone());
        Ok(Some(Outlook { variants, coins, collisions: Box::new(collisions) }))
    }
}
