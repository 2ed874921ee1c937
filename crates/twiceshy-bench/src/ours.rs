//! Our filters as contenders, each by its own type.

use std::marker::PhantomData;

use twiceshy_filters::cuckoo::{Plain, Simplified};
use twiceshy_filters::internals::{Build, InMemory, Visitor, visit};
use twiceshy_filters::line::LineFilter;
use twiceshy_filters::quotient::Rsqf;
use twiceshy_filters::{Digest, DigestFilter, KeyHasher, Params as _, Spec};

use crate::contender::{Adaptations, Contender, Entry, count, taken};
use crate::measure::{median, time};
use crate::workload::Item;

/// How an item becomes a digest.
pub trait Digester<I>: Clone + 'static {
    /// The digest of an item.
    fn digest(&self, item: I) -> Digest;

    /// The digests of many, in `room` where they are not there already.
    fn digests<'a>(&self, items: &'a [I], room: &'a mut Vec<Digest>) -> &'a [Digest];
}

/// Items are digests already.
#[derive(Clone, Copy)]
pub struct Ready;

impl Digester<Digest> for Ready {
    #[inline]
    fn digest(&self, item: Digest) -> Digest {
        item
    }

    fn digests<'a>(&self, items: &'a [Digest], _: &'a mut Vec<Digest>) -> &'a [Digest] {
        items
    }
}

impl Digester<u64> for KeyHasher {
    #[inline]
    fn digest(&self, item: u64) -> Digest {
        KeyHasher::digest(self, item.to_le_bytes())
    }

    fn digests<'a>(&self, items: &'a [u64], room: &'a mut Vec<Digest>) -> &'a [Digest] {
        room.clear();
        room.extend(items.iter().map(|&item| Digester::digest(self, item)));
        room
    }
}

/// The entry of a description, under that description and `note` as its name.
pub fn entry<I: Item>(text: &str, note: &str, digester: impl Digester<I>) -> Entry<I> {
    let spec: Spec = text.parse().expect("a description of ours");
    Entry {
        name: format!("{text}{note}"),
        make: Box::new(move |keys| contender(&spec, keys, digester.clone())),
    }
}

/// The same with the cells that a filter with a power of two of them takes, so
/// that both have the same load and memory.
pub fn entry_as_large<I: Item>(text: &str, name: &str, digester: impl Digester<I>) -> Entry<I> {
    let spec: Spec = text.parse().expect("a description of ours");
    let capacity = |keys: usize| keys.max(keys.next_power_of_two() / 20 * 19);
    Entry {
        name: name.to_string(),
        make: Box::new(move |keys| contender(&spec, capacity(keys), digester.clone())),
    }
}

/// The same, asked for so many absent keys a stored one before it is timed.
pub fn entry_adapted<I: Item>(
    text: &str,
    name: &str,
    capacity: usize,
    misses: usize,
    digester: impl Digester<I>,
) -> Entry<I> {
    let spec: Spec = text.parse().expect("a description of ours");
    Entry {
        name: name.to_string(),
        make: Box::new(move |_| {
            let mut contender = contender(&spec, capacity, digester.clone());
            contender.play(misses);
            contender
        }),
    }
}

/// The same with cells for that many keys, however few it is filled with.
pub fn entry_for<I: Item>(text: &str, capacity: usize, digester: impl Digester<I>) -> Entry<I> {
    let spec: Spec = text.parse().expect("a description of ours");
    Entry {
        name: text.to_string(),
        make: Box::new(move |_| contender(&spec, capacity, digester.clone())),
    }
}

/// The filter of a description, with its remote in memory if it needs one.
pub fn contender<I: Item, D: Digester<I>>(
    spec: &Spec,
    keys: usize,
    digester: D,
) -> Box<dyn Contender<I>> {
    match spec {
        // It adapts.
        Spec::Line(_) => None,
        _ => alone(spec, keys, digester.clone()),
    }
    .unwrap_or_else(|| visit(*spec, Pairing { keys, digester, item: PhantomData }))
}

/// The filter of a description without a remote, if it can do without.
pub fn alone<I: Item, D: Digester<I>>(
    spec: &Spec,
    keys: usize,
    digester: D,
) -> Option<Box<dyn Contender<I>>> {
    let fits = "a capacity that our filters can have";
    Some(match spec {
        Spec::Plain(params) => {
            Box::new(Alone::new(Plain::new(params, keys).expect(fits), digester))
        }
        Spec::Simplified(params) => {
            Box::new(Alone::new(Simplified::new(params, keys).expect(fits), digester))
        }
        Spec::Rsqf(params) => Box::new(Alone::new(Rsqf::new(params, keys).expect(fits), digester)),
        Spec::Line(params) => {
            Box::new(Alone::new(LineFilter::new(params, keys).expect(fits), digester))
        }
        _ => return None,
    })
}

/// Pairs a filter with its remote in memory, each by its own type.
struct Pairing<I, D> {
    keys: usize,
    digester: D,
    item: PhantomData<I>,
}

impl<'a, I: Item, D: Digester<I>> Visitor<'a> for Pairing<I, D> {
    type Output = Box<dyn Contender<I>>;

    fn alone<F, M>(self, params: &'a mut F::Params) -> Self::Output
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        let bins = params.bins_for(self.keys).expect("a capacity that our filters can have");
        let filter = F::empty(*params, self.keys, bins);
        let memory = M::behind(&filter.stats());
        Box::new(Paired { filter, memory, digester: self.digester, misses: 0 })
    }
}

/// A filter that is changed without a remote, as its peers are.
trait Partial: DigestFilter + Sized {
    /// Whether it can be built from digests in order.
    const IN_ORDER: bool = false;

    fn add(&mut self, digest: Digest) -> bool;
    fn delete(&mut self, digest: Digest) -> bool;

    /// A filter of the same shape, of these digests in order.
    fn in_order(&self, _: impl Iterator<Item = Digest>) -> Option<Self> {
        None
    }
}

impl Partial for Plain {
    #[inline]
    fn add(&mut self, digest: Digest) -> bool {
        Plain::add(self, digest)
    }

    #[inline]
    fn delete(&mut self, digest: Digest) -> bool {
        Plain::delete(self, digest)
    }
}

impl Partial for Simplified {
    #[inline]
    fn add(&mut self, digest: Digest) -> bool {
        Simplified::add(self, digest)
    }

    #[inline]
    fn delete(&mut self, digest: Digest) -> bool {
        Simplified::delete(self, digest)
    }
}

impl Partial for LineFilter {
    const IN_ORDER: bool = true;

    #[inline]
    fn add(&mut self, digest: Digest) -> bool {
        LineFilter::add(self, digest)
    }

    #[inline]
    fn delete(&mut self, digest: Digest) -> bool {
        LineFilter::delete(self, digest)
    }

    fn in_order(&self, digests: impl Iterator<Item = Digest>) -> Option<Self> {
        LineFilter::from_sorted(&self.params(), self.stats().capacity, digests).ok()
    }
}

impl Partial for Rsqf {
    const IN_ORDER: bool = true;

    #[inline]
    fn add(&mut self, digest: Digest) -> bool {
        Rsqf::add(self, digest)
    }

    #[inline]
    fn delete(&mut self, digest: Digest) -> bool {
        Rsqf::delete(self, digest)
    }

    fn in_order(&self, digests: impl Iterator<Item = Digest>) -> Option<Self> {
        Rsqf::from_sorted(&self.params(), self.stats().capacity, digests).ok()
    }
}

/// A filter without a remote.
struct Alone<F, D> {
    filter: F,
    digester: D,
}

impl<F: Partial, D> Alone<F, D> {
    fn new(filter: F, digester: D) -> Self {
        Alone { filter, digester }
    }
}

impl<I: Item, F: Partial, D: Digester<I>> Contender<I> for Alone<F, D> {
    fn fill(&mut self, items: &[I]) -> usize {
        taken(items, |item| self.filter.add(self.digester.digest(item)))
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains(self.digester.digest(item)))
    }

    fn hits_in_batches(&self, items: &[I]) -> Option<usize> {
        Some(batches(&self.filter, &self.digester, items))
    }

    fn empty(&mut self, items: &[I]) -> Option<usize> {
        Some(count(items, |item| self.filter.delete(self.digester.digest(item))))
    }

    fn sorted(&self, items: &[I]) -> Option<Vec<I>> {
        let mut sorted = F::IN_ORDER.then(|| items.to_vec())?;
        sorted.sort_unstable_by_key(|&item| self.digester.digest(item));
        Some(sorted)
    }

    fn fill_sorted(&mut self, items: &[I]) -> usize {
        let digests = items.iter().map(|&item| self.digester.digest(item));
        let Some(filter) = self.filter.in_order(digests) else { return 0 };
        self.filter = filter;
        items.len()
    }

    fn bits(&self) -> usize {
        self.filter.stats().bits
    }

    fn load(&self) -> Option<f64> {
        Some(self.filter.stats().load())
    }

    fn kicks(&self) -> Option<u64> {
        Some(self.filter.stats().kicks)
    }
}

/// A filter with its remote in memory.
struct Paired<F, M, D> {
    filter: F,
    memory: M,
    digester: D,
    /// Distinct absent keys per stored key that it is asked before it is timed.
    misses: usize,
}

impl<I, F, M, D> Contender<I> for Paired<F, M, D>
where
    I: Item,
    F: Build + 'static,
    M: InMemory<F::Remote> + 'static,
    D: Digester<I>,
{
    fn fill(&mut self, items: &[I]) -> usize {
        taken(items, |item| {
            let digest = self.digester.digest(item);
            self.filter.insert(digest, self.memory.remote()).is_ok()
        })
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains(self.digester.digest(item)))
    }

    fn hits_in_batches(&self, items: &[I]) -> Option<usize> {
        Some(batches(&self.filter, &self.digester, items))
    }

    fn empty(&mut self, items: &[I]) -> Option<usize> {
        Some(count(items, |item| {
            let digest = self.digester.digest(item);
            let removed = self.filter.remove(digest, self.memory.remote());
            removed.expect("memory never fails")
        }))
    }

    fn play(&mut self, misses: usize) {
        self.misses = misses;
    }

    fn adapt_first(&mut self) -> Option<Adaptations> {
        if self.misses == 0 {
            return None;
        }
        let hasher = KeyHasher::fast(5);
        let queries = (self.misses * self.filter.stats().len) as u64;
        let mut times = Vec::new();
        for query in 0..queries {
            let digest = hasher.digest(query.to_le_bytes());
            if self.filter.contains(digest) {
                let adapt = || self.filter.adapt(digest, self.memory.remote());
                let (took, outcome) = time(1, adapt);
                outcome.expect("memory never fails");
                times.push(took);
            }
        }
        let sample = (queries..queries + 100_000).map(|query| hasher.digest(query.to_le_bytes()));
        let decodes: usize = sample.map(|digest| self.filter.decodes(digest)).sum();
        Some(Adaptations { adapt_median: median(times)?, decodes: decodes as f64 / 1e5 })
    }

    fn bits(&self) -> usize {
        self.filter.stats().bits
    }

    fn load(&self) -> Option<f64> {
        Some(self.filter.stats().load())
    }

    fn kicks(&self) -> Option<u64> {
        Some(self.filter.stats().kicks)
    }
}

/// Digests handed to the filter in one call.
const SLICE: usize = 1024;

/// How many of the items are answered "maybe", asked in batches.
pub fn batches<I: Item, D: Digester<I>>(
    filter: &impl DigestFilter,
    digester: &D,
    items: &[I],
) -> usize {
    let mut room = Vec::with_capacity(SLICE);
    let mut found = [false; SLICE];
    let mut hits = 0;
    for slice in items.chunks(SLICE) {
        let found = &mut found[..slice.len()];
        filter.contains_many(digester.digests(slice, &mut room), found);
        hits += found.iter().filter(|&&hit| hit).count();
    }
    hits
}
