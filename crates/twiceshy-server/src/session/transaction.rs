//! [`Transaction`]: MULTI is refused, and with it everything up to EXEC.
//!
//! Clients send a transaction as one pipeline. If only its MULTI were refused, its commands
//! would be executed one by one while the client reports a failure.

use super::Todo;
use crate::command::{Command, Connection, Step};
use crate::reply::Reply;

/// Whether a refused transaction is arriving.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    refused: bool,
}

const REFUSED: &str = "MULTI is not supported: there are no transactions here, and nothing of \
                       this one is executed; send the commands without MULTI and EXEC (redis-py: \
                       pipeline(transaction=False))";

impl Transaction {
    /// What to do about a request that was read: nothing but an answer while a transaction is
    /// refused.
    pub(super) fn admit(&mut self, todo: Todo) -> Todo {
        match todo {
            Ok(Command::Transaction(step)) => Err(self.step(step)),
            Ok(Command::Connection(Connection::Quit)) | Err(_) => todo,
            Ok(_) if self.refused => Err(Reply::error(
                "not executed: it follows a MULTI that was refused; send EXEC or DISCARD to go on",
            )),
            Ok(_) => todo,
        }
    }

    fn step(&mut self, step: Step) -> Reply {
        let was_refused = std::mem::replace(&mut self.refused, step == Step::Multi);
        match step {
            Step::Multi => Reply::error(REFUSED),
            Step::Exec if was_refused => Reply::Error(format!("EXECABORT {REFUSED}")),
            Step::Exec => Reply::error("EXEC without MULTI"),
            Step::Discard if was_refused => Reply::OK,
            Step::Discard => Reply::error("DISCARD without MULTI"),
        }
    }
}
