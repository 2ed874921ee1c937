//! Work that waits for the disk.

use tokio::task::spawn_blocking;

use crate::backend::Failure;

/// Runs work that waits for the disk on a thread of its own. It finishes even if its caller
/// stops waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(Failure::Store("it panicked; see the log and restart the server".into()))
    })
}
