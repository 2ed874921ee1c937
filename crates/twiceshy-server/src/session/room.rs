//! Room for requests and replies: what a session may take, and what it has.

use bytes::Bytes;
use tracing::warn;

use super::{Row, Session};
use crate::limits::Limits;
use crate::memory::FREE;
use crate::reply::Reply;
use crate::request::Requests;

/// Bytes of values that are fetched between two looks at the clock.
const AT_ONCE: usize = 1 << 20;

/// Why there is no room for a reply, or for what is to be stored.
#[derive(Debug)]
pub(crate) enum NoRoom {
    /// There will be when the client has read what waits for it.
    Yet,
    /// There is none.
    Refused(Reply),
}

impl Session<'_> {
    pub(super) fn limits(&self) -> Limits {
        let limits = self.server.limits;
        if self.authenticated { limits } else { limits.of_strangers() }
    }

    /// Whether so much waits for the client that nothing more is answered.
    pub(super) fn is_full(&self) -> bool {
        self.replies.len() >= self.limits().reply
    }

    /// Memory that the connection takes.
    fn memory(&self) -> usize {
        self.requested + self.replies.len()
    }

    /// Whether all that was read has been done, as far as it is whole.
    pub(super) fn idles(&self) -> bool {
        self.held.is_none() && matches!(self.row, Row::None)
    }

    /// Counts the memory that it takes now.
    pub(super) fn account(&mut self, requests: &Requests) {
        // What has no room yet keeps what it was read into, which was counted before.
        if self.idles() {
            self.requested = requests.memory();
        }
        self.share.set(self.memory());
    }

    /// Takes so much more memory, if there is any.
    pub(super) fn may_take(&mut self, bytes: usize) -> bool {
        self.share.cover(self.memory() + bytes)
    }

    /// Sees whether a reply of which `before` bytes were there before may get `size` more.
    fn fits(&self, before: usize, size: usize) -> Result<(), NoRoom> {
        let Limits { reply: most, bulk, .. } = self.server.limits;
        let now = self.replies.len();
        // A value by itself may always be as long as one that is stored.
        if now + size <= most || now == 0 && size <= bulk {
            return Ok(());
        }
        Err(if before > 0 { NoRoom::Yet } else { NoRoom::Refused(too_large(most)) })
    }

    /// [`Session::fits`], and takes the memory for it.
    pub(crate) fn make_room(&mut self, before: usize, size: usize) -> Result<(), NoRoom> {
        self.fits(before, size)?;
        self.take_memory(before, size)
    }

    /// Takes memory, if there is any.
    fn take_memory(&mut self, before: usize, size: usize) -> Result<(), NoRoom> {
        if self.share.cover(self.memory() + size) {
            return Ok(());
        }
        Err(if before > 0 { NoRoom::Yet } else { NoRoom::Refused(self.no_memory()) })
    }

    /// Takes memory for what is to be stored: stores copy it.
    pub(super) fn make_room_for_copy(&mut self, records: &[(Bytes, Bytes)]) -> Result<(), NoRoom> {
        let bytes: usize = records.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.take_memory(self.replies.len(), bytes.saturating_sub(FREE))
    }

    pub(super) fn no_memory(&self) -> Reply {
        let most = self.server.limits.memory;
        if let Some(times) = self.server.log.no_memory.count() {
            warn!(times, most, "refused: the requests and replies of all clients take too much");
        }
        Reply::Error(format!(
            "OOM not enough memory for clients (--max-memory-clients is {most} bytes); read \
             pending replies or retry later"
        ))
    }

    /// How many bytes of values may be fetched now.
    pub(super) fn room(&mut self) -> usize {
        let left = self.server.limits.reply.saturating_sub(self.replies.len());
        if self.server.backend.is_remote() {
            // What a store sends is in memory before its size is known.
            let _ = self.share.cover(self.memory() + left.min(AT_ONCE));
        }
        self.share.room(self.memory()).min(left).min(AT_ONCE)
    }

    /// [`Session::make_room`] for a value that [`Session::room`] was too small for: the
    /// least that is to be fetched next.
    pub(super) fn make_room_for_value(
        &mut self,
        before: usize,
        size: usize,
    ) -> Result<usize, NoRoom> {
        self.make_room(before, size)?;
        // With others, if there is so much.
        let left = self.server.limits.reply.saturating_sub(self.replies.len());
        let _ = self.share.cover(self.memory() + left.min(AT_ONCE));
        Ok(size)
    }
}

fn too_large(most: usize) -> Reply {
    Reply::error(format!("the reply has more than {most} bytes; ask for fewer keys at once"))
}
