//! Many queries at once: memory is asked for a batch ahead.

use crate::digest::Digest;

/// Digests whose memory is on its way at a time.
const BATCH: usize = 32;

/// Answers every digest, after a prefetch for its whole batch. `locate` says
/// where a digest would be, `prefetch` asks for that memory, `test` looks at it.
#[inline(always)]
pub(crate) fn in_batches<P: Copy>(
    digests: &[Digest],
    found: &mut [bool],
    locate: impl Fn(Digest) -> P,
    prefetch: impl Fn(&P),
    test: impl Fn(&P) -> bool,
) {
    assert_eq!(digests.len(), found.len(), "one answer for each digest");
    let Some(&first) = digests.first() else { return };
    let mut probes = [locate(first); BATCH];
    for (digests, found) in digests.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
        for (&digest, probe) in digests.iter().zip(&mut probes) {
            *probe = locate(digest);
            prefetch(probe);
        }
        for (probe, found) in probes.iter().zip(found) {
            *found = test(probe);
        }
    }
}
