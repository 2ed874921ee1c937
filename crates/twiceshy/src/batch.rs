//! Many queries at once: memory is asked for before it is needed.

use crate::digest::Digest;

/// Digests whose memory is on its way at a time; half as many are as good.
const GROUP: usize = 64;

/// How digests are looked for.
pub(crate) trait Probes {
    /// Where a digest would be.
    type Probe: Copy;

    /// Says where a digest would be.
    fn locate(&self, digest: Digest) -> Self::Probe;

    /// Asks for that memory.
    fn prefetch(&self, probe: &Self::Probe);

    /// Looks at it.
    fn test(&self, probe: &Self::Probe) -> bool;
}

impl<P: Copy, L, M, T> Probes for (L, M, T)
where
    L: Fn(Digest) -> P,
    M: Fn(&P),
    T: Fn(&P) -> bool,
{
    type Probe = P;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> P {
        self.0(digest)
    }

    #[inline(always)]
    fn prefetch(&self, probe: &P) {
        self.1(probe);
    }

    #[inline(always)]
    fn test(&self, probe: &P) -> bool {
        self.2(probe)
    }
}

/// Answers every digest, group by group: first the memory of all of a group is
/// asked for, then all are answered. A ring, where each answer makes room for the
/// next request, was as fast in some callers and 60 % slower in others.
///
/// `locate` says where a digest would be, `prefetch` asks for that memory, `test`
/// looks at it.
#[inline(always)]
pub(crate) fn in_batches<P: Copy>(
    digests: &[Digest],
    found: &mut [bool],
    locate: impl Fn(Digest) -> P,
    prefetch: impl Fn(&P),
    test: impl Fn(&P) -> bool,
) {
    probe_all(digests, found, &(locate, prefetch, test));
}

/// The same by [`Probes`], whose steps can be sure to be inlined, which closures
/// cannot.
#[inline(always)]
pub(crate) fn probe_all(digests: &[Digest], found: &mut [bool], probes: &impl Probes) {
    assert_eq!(digests.len(), found.len(), "one answer for each digest");
    let Some(&first) = digests.first() else { return };
    let mut group = [probes.locate(first); GROUP];
    for (digests, found) in digests.chunks(GROUP).zip(found.chunks_mut(GROUP)) {
        for (probe, &digest) in group.iter_mut().zip(digests) {
            *probe = probes.locate(digest);
            probes.prefetch(probe);
        }
        for (found, probe) in found.iter_mut().zip(&group) {
            *found = probes.test(probe);
        }
    }
}

/// Probes on their way at a time in a ring; half or twice as many are as good.
const RING: usize = 32;

/// The same in a ring: every answer makes room for the next request, so that
/// memory is never idle. For steps as short as those of a plain cuckoo filter.
#[inline(always)]
pub(crate) fn probe_in_ring(digests: &[Digest], found: &mut [bool], probes: &impl Probes) {
    assert_eq!(digests.len(), found.len(), "one answer for each digest");
    let Some(&first) = digests.first() else { return };
    let mut ring = [probes.locate(first); RING];
    for (probe, &digest) in ring.iter_mut().zip(digests) {
        *probe = probes.locate(digest);
        probes.prefetch(probe);
    }
    let (head, tail) = found.split_at_mut(digests.len().saturating_sub(RING));
    for (index, (found, &next)) in head.iter_mut().zip(digests.iter().skip(RING)).enumerate() {
        let probe = &mut ring[index % RING];
        let asked = *probe;
        *probe = probes.locate(next);
        probes.prefetch(probe);
        *found = probes.test(&asked);
    }
    for (index, found) in (head.len()..).zip(tail) {
        *found = probes.test(&ring[index % RING]);
    }
}
