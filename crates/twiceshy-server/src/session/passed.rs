//! Commands that are passed on to Redis.

use super::{NoRoom, Session};
use crate::backend::Failure;
use crate::passed::Passed;
use crate::reply::Reply;

impl Session<'_> {
    /// Passes a command on, unless the filter settles it. If it answers a value, room is made for
    /// the value first: afterwards it may be too late to refuse, as the value may be gone.
    pub(super) async fn pass(&mut self, passed: &Passed) -> Result<(), NoRoom> {
        let backend = &self.server.backend;
        let refused = |failure: Failure| NoRoom::Refused(Reply::failure(failure));
        let reply = match backend.settled(passed) {
            Some(reply) => reply,
            None => {
                if passed.answers_value() {
                    let length = backend.passed_length(passed).await.map_err(refused)?;
                    self.make_room(self.replies.len(), length)?;
                }
                backend.pass(passed).await.map_err(refused)?
            }
        };
        self.reply(reply);
        Ok(())
    }
}
