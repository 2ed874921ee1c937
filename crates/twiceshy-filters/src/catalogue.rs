//! Every kind of filter: the only file that names them all.
//!
//! A kind has three lines here: its parameters in [`Spec`], its filter and remote in
//! [`Spec::visit`], and its usual parameters in [`Spec::all`]. All else, such as its name,
//! its limits and its sizes, is in the kind's own file.

use alloc::vec;
use alloc::vec::Vec;

use crate::broom::{self, Broom, FaithfulBroom};
use crate::cuckoo::{self, Cuckooing, Cyclic, Plain, PlainFull, Simplified, Swapping, Varying};
use crate::line::{self, LineFilter};
use crate::make::{Build, Grow};
use crate::memory::InMemory;
use crate::quotient::{self, Extending, Rsqf, Telescoping, Uncompressed};
use crate::remote::{MemoryIndex, MemoryMirror, MemorySet};

/// The description of a filter: its kind and the kind's own parameters.
///
/// As text it is `"name:parameter=value,..."`; a parameter that is left out has its
/// default. The parameters are listed at the `Params` of each kind.
///
/// ```
/// use twiceshy_filters::Spec;
/// let spec: Spec = "cyclic:f=7,s=1".parse()?;
/// assert_eq!(spec.to_string(), "cyclic:f=7,s=1,k=4,b=1,retry=1,search=bfs,full=rebuild");
/// let filter = spec.build(1000)?;
/// assert!(filter.stats().cells >= 1000);
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
///
/// A kind has no parameters but its own. This does not compile, because a filter that
/// does not adapt has no block that could be spent:
///
/// ```compile_fail,E0599
/// use twiceshy_filters::quotient::{rsqf, telescoping::WhenSpent};
/// let params = rsqf::Params::default().when_spent(WhenSpent::Reseed);
/// ```
///
/// This does:
///
/// ```
/// use twiceshy_filters::quotient::telescoping::{self, WhenSpent};
/// let params = telescoping::Params::default().when_spent(WhenSpent::Reseed);
/// assert!(params.is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spec {
    /// The original, partial-key cuckoo filter.
    Plain(cuckoo::plain::Params),
    /// The cuckoo filter with real hashes of the key.
    PlainFull(cuckoo::plain_full::Params),
    /// Eppstein's simplified cuckoo filter, with a stash.
    Simplified(cuckoo::simplified::Params),
    /// The cyclic adaptive cuckoo filter.
    Cyclic(cuckoo::cyclic::Params),
    /// The cyclic adaptive cuckoo filter with varying fingerprint ranges.
    Varying(cuckoo::varying::Params),
    /// The swapping adaptive cuckoo filter.
    Swapping(cuckoo::swapping::Params),
    /// The cuckooing adaptive cuckoo filter.
    Cuckooing(cuckoo::cuckooing::Params),
    /// The rank-and-select quotient filter.
    Rsqf(quotient::rsqf::Params),
    /// The telescoping adaptive filter.
    Telescoping(quotient::telescoping::Params),
    /// The telescoping adaptive filter with uncompressed selectors.
    Uncompressed(quotient::uncompressed::Params),
    /// The extension adaptive filter.
    Extension(quotient::extending::Params),
    /// The broom filter.
    Broom(broom::Params),
    /// The line filter.
    Line(line::Params),
}

/// Does something with a filter's type, whichever it is.
pub trait Visitor<'a>: Sized {
    /// What comes of it.
    type Output;

    /// A filter that is used alone, with a remote in memory.
    fn alone<F, M>(self, params: &'a mut F::Params) -> Self::Output
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static;

    /// A filter that can stand in front of a store as well: its remote is any that is in
    /// the order of digests.
    fn in_front<F>(self, params: &'a mut F::Params) -> Self::Output
    where
        F: Grow + Send + Sync + 'static,
    {
        self.alone::<F, MemorySet>(params)
    }
}

impl Spec {
    /// Shows a visitor the filter's type and parameters.
    pub(crate) fn visit<'a, V: Visitor<'a>>(&'a mut self, visitor: V) -> V::Output {
        match self {
            Spec::Plain(params) => visitor.in_front::<Plain>(params),
            Spec::PlainFull(params) => visitor.alone::<PlainFull, MemoryMirror>(params),
            Spec::Simplified(params) => visitor.in_front::<Simplified>(params),
            Spec::Cyclic(params) => visitor.alone::<Cyclic, MemoryMirror>(params),
            Spec::Varying(params) => visitor.alone::<Varying, MemoryMirror>(params),
            Spec::Swapping(params) => visitor.alone::<Swapping, MemoryMirror>(params),
            Spec::Cuckooing(params) => visitor.alone::<Cuckooing, MemoryMirror>(params),
            Spec::Rsqf(params) => visitor.in_front::<Rsqf>(params),
            Spec::Telescoping(params) => visitor.in_front::<Telescoping>(params),
            Spec::Uncompressed(params) => visitor.in_front::<Uncompressed>(params),
            Spec::Extension(params) => visitor.in_front::<Extending>(params),
            Spec::Broom(params) => match params.form() {
                broom::Form::Practical => visitor.in_front::<Broom>(params),
                broom::Form::Faithful => visitor.alone::<FaithfulBroom, MemoryIndex>(params),
            },
            Spec::Line(params) => visitor.in_front::<LineFilter>(params),
        }
    }

    /// The usual filter of every kind.
    #[must_use]
    pub fn all() -> Vec<Spec> {
        vec![
            Spec::Plain(Default::default()),
            Spec::PlainFull(Default::default()),
            Spec::Simplified(Default::default()),
            Spec::Cyclic(Default::default()),
            Spec::Varying(Default::default()),
            Spec::Swapping(Default::default()),
            Spec::Cuckooing(Default::default()),
            Spec::Rsqf(Default::default()),
            Spec::Telescoping(Default::default()),
            Spec::Uncompressed(Default::default()),
            Spec::Extension(Default::default()),
            Spec::Broom(Default::default()),
            Spec::Line(Default::default()),
        ]
    }
}

/// The filter to use where nobody asks for another: telescoping, with 8-bit remainders and
/// blocks that are reseeded when they are spent, so that its rate holds against adversaries.
///
/// ```
/// assert_eq!(twiceshy_filters::Spec::default().label(), "telescoping-reseed");
/// ```
impl Default for Spec {
    fn default() -> Self {
        Spec::Telescoping(quotient::telescoping::Params::RESEEDING)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;

    use super::*;
    use crate::any::AnyFilter;
    use crate::digest::Digest;
    use crate::filter::Adapted;
    use crate::rng::Rng;

    /// A short life of every kind: keys come, false positives are adapted to, half of the keys go,
    /// and some come back. Lists are answered as one by one, and a file has all of it.
    #[test]
    fn every_kind_answers_lists_and_comes_back_from_its_file() {
        let literal = ["telescoping", "swapping", "plain"];
        let literal = literal.map(|name| alloc::format!("{name}:f=6,literal=1"));
        let literal = literal.iter().map(|text| text.parse().expect("a filter"));
        let short = Spec::all().into_iter().filter_map(|spec| spec.with_fingerprint(6).ok());
        // Short fingerprints have hundreds of false positives here, the usual ones few.
        let usual = Spec::all().into_iter().map(|spec| (spec, false));
        for (spec, is_short) in usual.chain(short.chain(literal).map(|spec| (spec, true))) {
            let mut rng = Rng::new(1);
            let mut filter = spec.build(300).expect("a capacity");
            let mut digests = || Digest::new([rng.next(), rng.next()]);
            let universe: Vec<Digest> = (0..3000).map(|_| digests()).collect();
            let mut stored = BTreeSet::new();
            let mut adaptations = 0;
            let check = |filter: &mut AnyFilter, stored: &BTreeSet<usize>| {
                let mut found = vec![false; universe.len()];
                filter.contains_many(&universe, &mut found);
                for (index, &digest) in universe.iter().enumerate() {
                    assert_eq!(found[index], filter.contains(digest), "{spec}");
                    assert!(found[index] || !stored.contains(&index), "{spec}: a false negative");
                }
                assert_eq!(filter.stats().len, stored.len(), "{spec}");
                filter.check().unwrap_or_else(|broken| panic!("{spec}: {broken}"));
                let bytes = filter.save();
                let loaded = AnyFilter::load(&bytes).expect("its own bytes");
                assert!(loaded.save() == bytes, "{spec}");
            };
            check(&mut filter, &stored);
            for (from, to, goes) in [(0, 280, false), (0, 140, true), (100, 200, false)] {
                for (index, &digest) in universe.iter().enumerate().take(to).skip(from) {
                    if goes {
                        let removed = filter.remove(digest).expect("in memory");
                        assert_eq!(removed, stored.remove(&index), "{spec}");
                    } else {
                        let added = filter.insert(digest).expect("room");
                        assert_eq!(added, stored.insert(index), "{spec}");
                    }
                }
                check(&mut filter, &stored);
                for (index, &query) in universe.iter().enumerate() {
                    let before = filter.contains(query);
                    let outcome = filter.adapt(query).expect("in memory");
                    let after = filter.contains(query);
                    let expected = match (before, after) {
                        (false, _) => Adapted::Absent,
                        _ if stored.contains(&index) => Adapted::Stored,
                        (true, false) => Adapted::Fixed,
                        (true, true) => Adapted::Unfixed,
                    };
                    assert_eq!(outcome, expected, "{spec}");
                    adaptations += u64::from(outcome == Adapted::Fixed);
                }
                check(&mut filter, &stored);
            }
            let counted = filter.stats().adaptations;
            assert!(counted >= adaptations && (counted == 0 || spec.adapts()), "{spec}: {counted}");
            assert!(counted > 0 || !is_short || !spec.adapts(), "{spec} did not adapt");
        }
    }
}
