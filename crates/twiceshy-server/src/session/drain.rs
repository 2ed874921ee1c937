//! The end of a connection whose client may still be sending.

use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::time::timeout;

/// How long a client may go on sending.
const DRAINING: Duration = Duration::from_secs(10);

/// Reads and discards what a client is still sending. Closing a socket with unread bytes would
/// discard the last reply, and many clients read none before all of their request is sent.
pub(super) async fn drain(
    reader: &mut (impl AsyncRead + Unpin),
    stopped: impl Future<Output = ()>,
) {
    let mut nowhere = tokio::io::sink();
    let rest = timeout(DRAINING, tokio::io::copy(reader, &mut nowhere));
    tokio::select! {
        _ = rest => (),
        () = stopped => (),
    }
}
