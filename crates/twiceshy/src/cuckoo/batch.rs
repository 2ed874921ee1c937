//! Many queries at once: memory is asked for a batch ahead.

use crate::digest::Digest;

/// Digests whose memory is on its way at a time.
const BATCH: usize = 32;

/// Answers every digest, after a prefetch for its whole batch.
#[inline]
pub(crate) fn in_batches(
    digests: &[Digest],
    found: &mut [bool],
    prefetch: impl Fn(Digest),
    contains: impl Fn(Digest) -> bool,
) {
    assert_eq!(digests.len(), found.len(), "one answer for each digest");
    for (digests, found) in digests.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
        digests.iter().for_each(|&digest| prefetch(digest));
        for (&digest, found) in digests.iter().zip(found) {
            *found = contains(digest);
        }
    }
}
