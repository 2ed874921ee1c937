//! Many queries at once: memory is asked for some digests ahead.

use crate::digest::Digest;

/// Digests whose memory is on its way at a time.
const AHEAD: usize = 64;

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

/// Answers every digest, [`AHEAD`] digests after its memory was asked for.
/// `locate` says where a digest would be, `prefetch` asks for that memory,
/// `test` looks at it.
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
    let mut ahead = [probes.locate(first); AHEAD];
    for (probe, &digest) in ahead.iter_mut().zip(digests) {
        *probe = probes.locate(digest);
        probes.prefetch(probe);
    }
    for (index, found) in found.iter_mut().enumerate() {
        let probe = &mut ahead[index % AHEAD];
        *found = probes.test(probe);
        if let Some(&digest) = digests.get(index + AHEAD) {
            *probe = probes.locate(digest);
            probes.prefetch(probe);
        }
    }
}
