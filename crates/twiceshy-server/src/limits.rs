//! What a client may ask for.

use std::time::Duration;

/// What a client may ask for, so that none of them takes all memory or keeps a
/// place for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request, all arguments together.
    pub request: usize,
    /// Bytes of one argument.
    pub bulk: usize,
    /// Bytes of replies that wait until the client reads them, and of one reply. A value
    /// that is asked for by itself may be as long as an argument all the same.
    pub reply: usize,
    /// Bytes of requests and replies of all connections together, beyond 64 KiB for each
    /// connection. What has no room is refused with an error.
    pub memory: usize,
    /// Connections at a time.
    pub connections: usize,
    /// How long a client may send nothing, or read nothing of its replies.
    /// `None`: for ever.
    pub idle: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request: 64 << 20,
            bulk: 16 << 20,
            reply: 64 << 20,
            memory: 512 << 20,
            // Below 1024 open files, which is what most systems allow.
            connections: 1000,
            idle: Some(Duration::from_secs(300)),
        }
    }
}

impl Limits {
    /// Those of a client that has not said its password yet; as in Redis, and such a
    /// client has only small replies.
    pub(crate) fn of_strangers(self) -> Self {
        Limits {
            request: self.request.min(64 << 10),
            bulk: self.bulk.min(16 << 10),
            reply: self.reply.min(16 << 10),
            ..self
        }
    }
}
