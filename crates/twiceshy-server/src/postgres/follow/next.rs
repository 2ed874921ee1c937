//! [`next`]: what a session does next.

use std::io;

use tokio::sync::mpsc;

use super::wire::{Incoming, Walsender};

/// What came.
pub(super) enum Next<P> {
    /// An answer of the server; `None` if it is not asked any more.
    Probe(Option<P>),
    Log(io::Result<Incoming>),
}

/// Waits for an answer of the server or for the log. Answers go first: they are few, and say
/// which removals may be applied, so a log that never pauses must not keep them waiting.
pub(super) async fn next<P>(walsender: &mut Walsender, probes: &mut mpsc::Receiver<P>) -> Next<P> {
    tokio::select! {
        biased;
        probe = probes.recv() => Next::Probe(probe),
        incoming = walsender.next() => Next::Log(incoming),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// A message that says the log is alive.
    fn alive() -> Vec<u8> {
        let mut message = vec![b'd', 0, 0, 0, 22, b'k'];
        message.extend([0; 17]);
        message
    }

    #[tokio::test]
    async fn answers_do_not_wait_for_a_log_that_never_pauses() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        theirs.write_all(&alive().repeat(100)).await.expect("there is room");
        let mut walsender = Walsender::streaming(ours);
        let (send, mut probes) = mpsc::channel(1);
        for _ in 0..10 {
            assert!(matches!(next(&mut walsender, &mut probes).await, Next::Log(Ok(_))));
            assert!(walsender.has_next());
            assert!(send.try_send(()).is_ok());
            assert!(matches!(next(&mut walsender, &mut probes).await, Next::Probe(Some(_))));
        }
        drop(send);
        assert!(matches!(next(&mut walsender, &mut probes).await, Next::Probe(None)));
    }
}
