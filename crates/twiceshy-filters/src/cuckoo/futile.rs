//! When building a full filter again is not worth another try.
//!
//! Building a filter again costs as much as all its insertions so far, and fails every
//! time where digests pile up on a few bins: then each refused key would cost that much.

use crate::params::WhenFull;

/// The number of keys with which building the filter again failed last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Futile(Option<usize>);

impl Futile {
    /// With about as many keys as then, another try would most likely fail again.
    const ABOUT: usize = 64;

    /// Building the filter again has failed.
    pub(crate) fn note(&mut self, len: usize) {
        self.0 = Some(len);
    }

    /// Whether it would fail again: fewer than a 64th of the keys have gone since. Where
    /// the filter grows it may be the refused key alone that fits nowhere; so it
    /// tries again when as many keys have come, too. (A filter of fewer than 64 keys
    /// tries again with one more or less: that is cheap.)
    pub(crate) fn applies(self, len: usize, full: WhenFull) -> bool {
        self.0.is_some_and(|failed| {
            let about = failed / Self::ABOUT;
            len + about >= failed && (full != WhenFull::Grow || len <= failed + about)
        })
    }
}
