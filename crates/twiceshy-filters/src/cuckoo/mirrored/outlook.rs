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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::cyclic::{Cyclic, Params};
    use crate::cuckoo::plain_full::PlainFull;
    use crate::cuckoo::swapping::Swapping;
    use crate::filter::DigestFilter as _;
    use crate::remote::MemoryMirror;
    use crate::rng::Rng;
    use alloc::vec::Vec;

    fn random(count: usize, rng: &mut Rng) -> Vec<Digest> {
        (0..count).map(|_| Digest::new([rng.next(), rng.next()])).collect()
    }

    fn filled<R: Rule>(text: &str, rng: &mut Rng) -> (Mirrored<R>, MemoryMirror) {
        let params = text.parse().expect("a filter");
        let mut filter = Mirrored::<R>::new(&params, 200).expect("a capacity");
        let mut mirror = MemoryMirror::new(filter.stats().cells);
        for key in random(200, rng) {
            assert!(filter.insert(key, &mut mirror).expect("room"), "{text}");
        }
        (filter, mirror)
    }

    /// Whatever is asked and fixed, no other query is answered "maybe". Each of the others collides
    /// with a key that the outlook names, in a variant that it names; a key shares them all with
    /// itself.
    fn only_what_collides_is_ever_wrong<R: Rule>(text: &str, variants: u32) {
        let mut rng = Rng::new(1);
        let (mut filter, mut mirror) = filled::<R>(text, &mut rng);
        let outlook = filter.look_ahead(&mut mirror).expect("in memory").expect("it has one");
        assert_eq!(outlook.variants, variants, "{text}");
        for cell in filter.table.occupied() {
            let key = mirror.get(cell).expect("in memory").expect("it is occupied");
            let mut own = None;
            outlook.collisions(key, &mut |at, same| {
                if at == cell {
                    own = Some(same);
                }
            });
            assert_eq!(own, Some(u32::MAX >> (u32::BITS - variants)), "{text}: cell {cell}");
        }
        let queries = random(8000, &mut rng);
        let (suspects, others): (Vec<_>, Vec<_>) =
            queries.into_iter().partition(|&query| outlook.may(query));
        assert!(suspects.len() > 500 && others.len() > 500, "{text}: {}", suspects.len());
        let mut wrong = 0;
        for _ in 0..5 {
            for &query in &suspects {
                if filter.contains(query) {
                    wrong += 1;
                    filter.adapt(query, &mut mirror).expect("in memory");
                }
            }
            assert!(!others.iter().any(|&query| filter.contains(query)), "{text}");
        }
        assert!(wrong > 500, "{text}: {wrong} mistakes prove little");
    }

    #[test]
    fn what_collides_with_no_key_is_never_wrong() {
        only_what_collides_is_ever_wrong::<Cyclic<Params>>("cyclic:f=5,s=2,k=4,b=1", 4);
        only_what_collides_is_ever_wrong::<Swapping>("swapping:f=5,k=2,b=4", 4);
    }

    /// Selectors of five bits have as many values as a word has bits, and one more bit too many.
    #[test]
    fn an_outlook_has_at_most_as_many_variants_as_a_word_has_bits() {
        let variants = |s: u32| {
            let (filter, mut mirror) = filled::<Cyclic<Params>>(
                &alloc::format!("cyclic:f=5,s={s},k=4,b=1"),
                &mut Rng::new(2),
            );
            filter.look_ahead(&mut mirror).expect("in memory").map(|outlook| outlook.variants)
        };
        assert_eq!([variants(1), variants(5), variants(6)], [Some(2), Some(32), None]);
        let (filter, mut mirror) = filled::<PlainFull>("plain-full:f=5", &mut Rng::new(3));
        assert!(filter.look_ahead(&mut mirror).expect("in memory").is_none());
    }
}
