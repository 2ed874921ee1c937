//! Filters in front of a store: any that needs no more of its remote than the order of
//! digests.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::catalogue::{Spec, Visitor};
use crate::error::{Error, Result};
use crate::filter::DigestFilter;
use crate::format::Reader;
use crate::make::{Build, Grow};
use crate::memory::InMemory;
use crate::params::{self, Params as _};
use crate::quotient::Layout;
use crate::remote::Ordered;

/// Any filter whose remote is the bare set of digests.
pub trait OrderedFilter: DigestFilter<Remote = dyn Ordered> + Send + Sync {
    /// [`Grow::layout`].
    fn layout(&self) -> Option<Layout>;

    /// Whether such a filter can have room for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    fn check_capacity(&self, capacity: usize) -> Result<()>;

    /// [`Grow::grown`].
    ///
    /// # Errors
    /// [`Error::Spec`] when the stored keys do not fit; [`Error::Remote`].
    fn larger(
        &self,
        capacity: usize,
        remote: &mut (dyn Ordered + 'static),
    ) -> Result<Box<dyn OrderedFilter>>;
}

impl<F: Grow + Send + Sync + 'static> OrderedFilter for F {
    fn layout(&self) -> Option<Layout> {
        Grow::layout(self)
    }

    fn check_capacity(&self, capacity: usize) -> Result<()> {
        self.params().bins_for(capacity).map(drop)
    }

    fn larger(
        &self,
        capacity: usize,
        remote: &mut (dyn Ordered + 'static),
    ) -> Result<Box<dyn OrderedFilter>> {
        Ok(Box::new(self.grown(capacity, remote)?))
    }
}

/// An empty filter in front of a bare set of digests.
///
/// # Errors
/// [`Error::Spec`] for a kind that needs to know more, or a capacity of nothing.
pub fn ordered(mut spec: Spec, capacity: usize) -> Result<Box<dyn OrderedFilter>> {
    spec.visit(Origin::Empty { capacity })
}

/// The filter in a file, if it is one in front of a bare set of digests.
///
/// # Errors
/// [`Error::Format`], [`Error::Spec`].
pub fn load_ordered(bytes: &[u8]) -> Result<Box<dyn OrderedFilter>> {
    let reader = Reader::open(bytes)?;
    let mut spec: Spec = params::in_file(&reader)?;
    spec.visit(Origin::Saved(reader))
}

/// Where a filter comes from.
enum Origin<'a> {
    Empty { capacity: usize },
    Saved(Reader<'a>),
}

impl<'a> Visitor<'a> for Origin<'_> {
    type Output = Result<Box<dyn OrderedFilter>>;

    fn alone<F, M>(self, params: &'a mut F::Params) -> Self::Output
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        let specs = Spec::all().into_iter().filter(Spec::guards_a_store);
        let names: Vec<&str> = specs.map(|spec| spec.name()).collect();
        let reason = alloc::format!(
            "its remote is more than a store in digest order; use one of {}",
            names.join(", ")
        );
        Err(Error::spec(params.to_string(), reason))
    }

    fn in_front<F>(self, params: &'a mut F::Params) -> Self::Output
    where
        F: Grow + Send + Sync + 'static,
    {
        Ok(match self {
            Origin::Empty { capacity } => {
                Box::new(F::empty(*params, capacity, params.bins_for(capacity)?))
            }
            Origin::Saved(reader) => Box::new(F::read(*params, reader)?),
        })
    }
}
