//! Where a digest's block is, for who has not locked the filter yet: it is then on
//! its way while the lock is taken. With 10^7 keys that saves 10 ns of 98.
//!
//! What is noted may be of a filter that is gone, or the start of one and the size of
//! another: then something else is asked for, which harms nothing but time.

use std::sync::atomic::{AtomicUsize, Ordering};

use twiceshy_filters::Digest;
use twiceshy_filters::internals::Layout;
use twiceshy_filters::internals::OrderedFilter;
use twiceshy_filters::internals::prefetch_address;
use twiceshy_filters::internals::reduce64;

/// The [`Layout`] of a shard's filter, or zeros if it has none.
#[derive(Default)]
pub(super) struct Ahead {
    start: AtomicUsize,
    quotients: AtomicUsize,
    stride: AtomicUsize,
}

impl Ahead {
    pub(super) fn of(filter: &dyn OrderedFilter) -> Self {
        let ahead = Ahead::default();
        ahead.note(filter);
        ahead
    }

    /// Notes where the blocks of a filter are.
    pub(super) fn note(&self, filter: &dyn OrderedFilter) {
        let Layout { start, quotients, stride } = filter.layout().unwrap_or_default();
        self.start.store(start, Ordering::Relaxed);
        self.quotients.store(quotients, Ordering::Relaxed);
        self.stride.store(stride, Ordering::Relaxed);
    }

    /// Asks for a digest's block.
    #[inline(always)]
    pub(super) fn prefetch(&self, digest: Digest) {
        let layout = Layout {
            start: self.start.load(Ordering::Relaxed),
            quotients: self.quotients.load(Ordering::Relaxed),
            stride: self.stride.load(Ordering::Relaxed),
        };
        if layout.start == 0 {
            return;
        }
        let quotient = reduce64(digest.word(0), layout.quotients as u64) as usize;
        layout.addresses(quotient).into_iter().for_each(prefetch_address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::staged::Staged;
    use twiceshy_filters::Spec;
    use twiceshy_filters::internals::ordered;
    use twiceshy_filters::remote::EVERY_DIGEST;

    fn noted(ahead: &Ahead) -> Layout {
        let [start, quotients, stride] = [&ahead.start, &ahead.quotients, &ahead.stride]
            .map(|part| part.load(Ordering::Relaxed));
        Layout { start, quotients, stride }
    }

    /// A filter that grew has its blocks elsewhere, and more of them.
    #[test]
    fn it_points_into_the_filter_that_was_noted_last() {
        let spec: Spec = "telescoping:f=8,spent=reseed".parse().expect("a filter");
        let small = ordered(spec, 1000).expect("a filter");
        let ahead = Ahead::of(&*small);
        assert_eq!(noted(&ahead), small.layout().expect("blocks"));
        let mut staged = Staged::default();
        staged.add(EVERY_DIGEST, Vec::new());
        let large = small.larger(100_000, &mut staged).expect("room");
        ahead.note(&*large);
        let layout = large.layout().expect("blocks");
        assert_eq!(noted(&ahead), layout);
        assert!(layout.quotients >= 100_000 && layout.start != 0, "{layout:?}");

        let cuckoo = ordered("plain:f=8".parse().expect("a filter"), 1000).expect("a filter");
        ahead.note(&*cuckoo);
        assert_eq!(noted(&ahead), Layout::default());
        ahead.prefetch(Digest::new([u64::MAX; 2]));
    }
}
