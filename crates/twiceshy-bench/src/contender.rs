//! What a filter has to offer to be timed.
//!
//! Each method works on a whole slice: the loop is compiled together with the
//! filter's own code, and the one dynamic call is outside of it.

use crate::workload::Item;

/// A filter under test.
pub trait Contender<I> {
    /// Puts the items in, in order, up to the first that finds no room; how
    /// many went in.
    fn fill(&mut self, items: &[I]) -> usize;

    /// How many of the items are answered "maybe", asked one by one.
    fn hits(&self, items: &[I]) -> usize;

    /// The same in batches, where the filter has them.
    fn hits_in_batches(&self, _: &[I]) -> Option<usize> {
        None
    }

    /// Takes the items out, where the filter can; how many were found.
    fn empty(&mut self, _: &[I]) -> Option<usize> {
        None
    }

    /// The items in the order that [`Contender::fill_sorted`] takes them, where
    /// the filter can be built from items in order.
    fn sorted(&self, _: &[I]) -> Option<Vec<I>> {
        None
    }

    /// Becomes the filter of these items in order, allocation included; how
    /// many went in.
    fn fill_sorted(&mut self, _: &[I]) -> usize {
        0
    }

    /// From how many misses per key it adapts to before it is asked.
    fn play(&mut self, _: usize) {}

    /// Adapts the filter before it is asked, if the entry says so.
    fn adapt_first(&mut self) -> Option<Adaptations> {
        None
    }

    /// Memory, in bits, without a remote.
    fn bits(&self) -> usize;

    /// The share of cells that are occupied, for filters that have cells.
    fn load(&self) -> Option<f64> {
        None
    }

    /// Keys moved to another cell, where the filter counts them.
    fn kicks(&self) -> Option<u64> {
        None
    }
}

/// What adapting took, and what it costs queries.
#[derive(Clone, Copy)]
pub struct Adaptations {
    /// The median time of telling it of a false positive, in nanoseconds.
    pub adapt_median: f64,
    /// Codes that a query of an absent key decodes, on average.
    pub decodes: f64,
}

/// A contender before it is built.
pub struct Entry<I> {
    /// Its name in the tables.
    pub name: String,
    /// Makes an empty one for that many keys.
    pub make: Box<dyn Fn(usize) -> Box<dyn Contender<I>>>,
}

impl<I: Item> Entry<I> {
    /// The contender that `make` makes.
    pub fn new<C: Contender<I> + 'static>(
        name: impl Into<String>,
        make: impl Fn(usize) -> C + 'static,
    ) -> Self {
        Entry { name: name.into(), make: Box::new(move |keys| Box::new(make(keys))) }
    }
}

/// How many items `add` took before it refused one.
#[inline]
pub fn taken<I: Item>(items: &[I], mut add: impl FnMut(I) -> bool) -> usize {
    items.iter().position(|&item| !add(item)).unwrap_or(items.len())
}

/// How many items satisfy `test`.
#[inline]
pub fn count<I: Item>(items: &[I], mut test: impl FnMut(I) -> bool) -> usize {
    items.iter().filter(|&&item| test(item)).count()
}
