//! [`Reply`]: the reply to a command. [`Replies`](crate::replies::Replies) encodes it in either
//! version of the protocol.

use std::borrow::Cow;

use bytes::Bytes;

use crate::backend::Failure;

/// A version of the protocol; a connection begins with RESP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Resp2,
    Resp3,
}

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Simple(Cow<'static, str>),
    Bulk(Bytes),
    Integer(i64),
    /// With its code: "ERR ...".
    Error(String),
    Array(Vec<Reply>),
    /// In RESP2 an array of names and values by turns.
    Map(Vec<(Bytes, Reply)>),
}

impl Reply {
    pub(crate) const OK: Reply = Reply::Simple(Cow::Borrowed("OK"));

    /// An error of no special kind.
    pub(crate) fn error(reason: impl std::fmt::Display) -> Reply {
        Reply::Error(format!("ERR {reason}"))
    }

    /// Why a command failed. A store's own error reply already has its code.
    pub(crate) fn failure(failure: Failure) -> Reply {
        match failure {
            Failure::Reply(text) => Reply::Error(text),
            failure => Reply::error(failure),
        }
    }

    pub(crate) fn count(count: impl TryInto<i64>) -> Reply {
        Reply::Integer(count.try_into().unwrap_or(i64::MAX))
    }

    pub(crate) fn text(text: impl Into<Bytes>) -> Reply {
        Reply::Bulk(text.into())
    }
}
