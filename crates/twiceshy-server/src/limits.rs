//! Limits on what a client may use.

use std::time::Duration;

/// Limits on what a client may use, so that none takes all memory or keeps a connection for
/// ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request, all arguments together.
    pub request: usize,
    /// Bytes of one argument.
    pub bulk: usize,
    /// Bytes of unread replies of a client, and of one reply. A value that is requested by
    /// itself may still be as long as an argument.
    pub reply: usize,
    /// Bytes of requests and replies of all connections together, beyond 64 KiB per connection.
    /// Requests that do not fit are refused with an error.
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
    /// The limits of a client that has not authenticated: as in Redis, and only small replies.
    pub(crate) fn of_strangers(self) -> Self {
        Limits {
            request: self.request.min(64 << 10),
            bulk: self.bulk.min(16 << 10),
            reply: self.reply.min(16 << 10),
            ..self
        }
    }
}
