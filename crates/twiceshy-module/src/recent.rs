//! The keys that were added last.
//!
//! Between a client's look at its database and its `AF.ADAPT`, another client may have stored the
//! key. A filter without a remote cannot tell, and would hide it. So it remembers the last
//! additions, and `AF.ADAPT` of one of those answers "stored".

use twiceshy::Digest;

/// Additions to remember per key of capacity, and at least and at most.
const SHARE: usize = 64;
const LEAST: usize = 16;
const MOST: usize = 1024;

/// A ring of half digests. Two keys share one with probability 2^-64: then a false positive
/// stays one until the ring has turned.
#[derive(Clone)]
pub struct Recent {
    ring: Box<[u64]>,
    next: usize,
}

impl Recent {
    /// None yet, for a filter of that capacity.
    pub fn for_capacity(capacity: usize) -> Self {
        let len = (capacity / SHARE).clamp(LEAST, MOST);
        Recent { ring: vec![0; len].into(), next: 0 }
    }

    pub fn note(&mut self, digest: Digest) {
        self.ring[self.next] = digest.words()[0];
        self.next = (self.next + 1) % self.ring.len();
    }

    pub fn has(&self, digest: Digest) -> bool {
        self.ring.contains(&digest.words()[0])
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_the_last_additions_and_forgets_older_ones() {
        let digest = |number: u64| Digest::new([7, 9]).rehashed(number);
        let mut recent = Recent::for_capacity(64 * 20);
        assert_eq!(recent.bytes(), 160);
        for number in 1..=100 {
            assert!(!recent.has(digest(number)));
            recent.note(digest(number));
            assert!(
                (number.saturating_sub(19).max(1)..=number).all(|last| recent.has(digest(last)))
            );
            assert!(number <= 20 || !recent.has(digest(number - 20)));
        }
        assert_eq!(Recent::for_capacity(1).bytes(), 8 * LEAST);
        assert_eq!(Recent::for_capacity(usize::MAX).bytes(), 8 * MOST);
    }
}
