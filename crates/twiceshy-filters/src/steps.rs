//! Steps of an operation that filters with an [`Ordered`] remote share.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter};
use crate::make::Build;
use crate::params::too_small;
use crate::remote::{Ordered, stored, strangers};

/// Stores a digest for which `filter` has no room: `renewed` is the filter rebuilt with it,
/// and takes its place.
///
/// # Errors
/// [`Error::Remote`] when the remote failed, or has keys that the filter did not know.
pub(crate) fn insert_renewed<F>(
    filter: &mut F,
    renewed: F,
    digest: Digest,
    remote: &mut dyn Ordered,
) -> Result<bool>
where
    F: DigestFilter<Remote = dyn Ordered>,
{
    let (len, renewed_len) = (filter.stats().len, renewed.stats().len);
    if renewed_len != len + 1 {
        return Err(Error::Remote(strangers(len, renewed_len - 1)));
    }
    remote.insert(digest).map_err(Error::Remote)?;
    *filter = renewed;
    Ok(true)
}

/// [`DigestFilter::remove`] of a filter that finds a fingerprint by the digest alone, with
/// its way to delete one.
///
/// # Errors
/// [`Error::Remote`] when the remote failed.
pub(crate) fn remove<F>(
    filter: &mut F,
    digest: Digest,
    remote: &mut dyn Ordered,
    delete: impl FnOnce(&mut F, Digest) -> bool,
) -> Result<bool>
where
    F: DigestFilter<Remote = dyn Ordered>,
{
    if !filter.contains(digest) || !remote.remove(digest).map_err(Error::Remote)? {
        return Ok(false);
    }
    assert!(delete(filter, digest), "{digest:?} was stored, so its fingerprint was");
    Ok(true)
}

/// [`DigestFilter::adapt`] of a filter that cannot adapt.
///
/// # Errors
/// [`Error::Remote`] when the remote failed.
pub(crate) fn adapt<F>(filter: &F, digest: Digest, remote: &mut dyn Ordered) -> Result<Adapted>
where
    F: DigestFilter<Remote = dyn Ordered>,
{
    if !filter.contains(digest) {
        return Ok(Adapted::Absent);
    }
    Ok(if stored(digest, remote)? { Adapted::Stored } else { Adapted::Unfixed })
}

/// The larger filter that was built for `capacity` keys, unless it was not, or has more.
///
/// # Errors
/// [`Error::Spec`].
pub(crate) fn fitting<F: Build>(filter: &F, larger: Option<F>, capacity: usize) -> Result<F> {
    let fits = larger.filter(|larger| larger.stats().len <= capacity);
    fits.ok_or_else(|| too_small(&filter.params(), filter.stats().len, capacity))
}
