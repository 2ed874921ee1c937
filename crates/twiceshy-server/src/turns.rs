//! Work on many keys that takes turns with other connections.

use tokio::task::yield_now;

/// Keys per turn: a quarter of a millisecond of hashing.
pub(crate) const AT_ONCE: usize = 1024;

/// Works on a few at a time, and yields to other connections in between.
pub(crate) async fn in_turns<'a, T>(many: &'a [T], mut work: impl FnMut(&'a [T])) {
    let mut chunks = many.chunks(AT_ONCE);
    chunks.next().into_iter().for_each(&mut work);
    for some in chunks {
        yield_now().await;
        work(some);
    }
}
