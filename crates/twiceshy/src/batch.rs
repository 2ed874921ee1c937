//! Many queries at once: memory is asked for some digests ahead.

use crate::digest::Digest;

/// Digests whose memory is on its way at a time.
const AHEAD: usize = 64;

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
    assert_eq!(digests.len(), found.len(), "one answer for each digest");
    let Some(&first) = digests.first() else { return };
    let mut probes = [locate(first); AHEAD];
    for (probe, &digest) in probes.iter_mut().zip(digests) {
        *probe = locate(digest);
        prefetch(probe);
    }
    for (index, found) in found.iter_mut().enumerate() {
        let probe = &mut probes[index % AHEAD];
        *found = test(probe);
        if let Some(&digest) = digests.get(index + AHEAD) {
            *probe = locate(digest);
            prefetch(probe);
        }
    }
}
