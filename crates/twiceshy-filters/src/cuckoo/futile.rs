//! When rebuilding a full filter is not worth another attempt.
//!
//! A rebuild costs as much as all insertions so far, and fails every time where digests pile up
//! in a few bins: then each refused key would cost a rebuild.

use crate::params::WhenFull;

/// The number of keys at which a rebuild last failed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Futile(Option<usize>);

impl Futile {
    /// With about as many keys, another attempt would most likely fail as well.
    const ABOUT: usize = 64;

    /// Notes that a rebuild has failed.
    pub(crate) fn note(&mut self, len: usize) {
        self.0 = Some(len);
    }

    /// Whether another rebuild would most likely fail: fewer than a 64th of the keys have been
    /// removed since. If the filter grows, only the refused key may be at fault, so it also
    /// tries again when a 64th more keys have come. (A filter of fewer than 64 keys tries again
    /// after each change, which is cheap.)
    pub(crate) fn applies(self, len: usize, full: WhenFull) -> bool {
        self.0.is_some_and(|failed| {
            let about = failed / Self::ABOUT;
            len + about >= failed && (full != WhenFull::Grow || len <= failed + about)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64th of 640 keys are ten, of 63 keys none.
    #[test]
    fn another_attempt_is_futile_with_about_as_many_keys() {
        for full in [WhenFull::Error, WhenFull::Rebuild, WhenFull::Grow] {
            assert!(!Futile::default().applies(640, full), "none has failed");
            for (failed, least, most) in [(640, 630, 650), (63, 63, 63)] {
                let mut futile = Futile::default();
                futile.note(failed);
                for len in 0..1000 {
                    let about = len >= least && (full != WhenFull::Grow || len <= most);
                    assert_eq!(futile.applies(len, full), about, "{failed}, {len} now");
                }
            }
        }
    }
}
