//! [`Reply`]: what a client is told, in either version of the protocol.

use bytes::{Bytes, BytesMut};
use redis_protocol::bytes_utils::Str;
use redis_protocol::{resp2, resp3};

use crate::backend::Failure;

/// A version of the protocol; a connection begins with RESP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Resp2,
    Resp3,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Simple(&'static str),
    Bulk(Bytes),
    Integer(i64),
    /// With its code: "ERR ...".
    Error(String),
    Array(Vec<Reply>),
    /// In RESP2 an array of names and values by turns.
    Map(Vec<(Bytes, Reply)>),
}

impl Reply {
    pub(crate) const OK: Reply = Reply::Simple("OK");

    /// An error of no special kind.
    pub(crate) fn error(reason: impl std::fmt::Display) -> Reply {
        Reply::Error(format!("ERR {reason}"))
    }

    /// Why a command was not done; what a store said itself has its code already.
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

    /// A value or nil.
    pub(crate) fn value(value: Option<Bytes>) -> Reply {
        value.map_or(Reply::Nil, Reply::Bulk)
    }

    /// Appends its bytes.
    pub(crate) fn encode(self, version: Version, buffer: &mut BytesMut) {
        // The reply of most look-ups needs no frame first.
        if self == Reply::Nil {
            return buffer.extend_from_slice(match version {
                Version::Resp2 => b"$-1\r\n",
                Version::Resp3 => b"_\r\n",
            });
        }
        let written = match version {
            Version::Resp2 => resp2::encode::extend_encode(buffer, &self.resp2(), false),
            Version::Resp3 => resp3::encode::complete::extend_encode(buffer, &self.resp3(), false),
        };
        written.expect("the buffer grows, and these frames are whole");
    }

    fn resp2(self) -> resp2::types::BytesFrame {
        use resp2::types::BytesFrame as Frame;
        match self {
            Reply::Nil => Frame::Null,
            Reply::Simple(text) => Frame::SimpleString(Bytes::from_static(text.as_bytes())),
            Reply::Bulk(bytes) => Frame::BulkString(bytes),
            Reply::Integer(number) => Frame::Integer(number),
            Reply::Error(text) => Frame::Error(one_line(text)),
            Reply::Array(items) => Frame::Array(items.into_iter().map(Reply::resp2).collect()),
            Reply::Map(entries) => Frame::Array(
                entries
                    .into_iter()
                    .flat_map(|(name, value)| [Frame::BulkString(name), value.resp2()])
                    .collect(),
            ),
        }
    }

    fn resp3(self) -> resp3::types::BytesFrame {
        use resp3::types::BytesFrame as Frame;
        let attributes = None;
        match self {
            Reply::Nil => Frame::Null,
            Reply::Simple(text) => {
                Frame::SimpleString { data: Bytes::from_static(text.as_bytes()), attributes }
            }
            Reply::Bulk(data) => Frame::BlobString { data, attributes },
            Reply::Integer(data) => Frame::Number { data, attributes },
            Reply::Error(text) => Frame::SimpleError { data: one_line(text), attributes },
            Reply::Array(items) => {
                let data = items.into_iter().map(Reply::resp3).collect();
                Frame::Array { data, attributes }
            }
            Reply::Map(entries) => {
                let entry = |(data, value): (Bytes, Reply)| {
                    (Frame::BlobString { data, attributes: None }, value.resp3())
                };
                Frame::Map { data: entries.into_iter().map(entry).collect(), attributes }
            }
        }
    }
}

/// An error ends with its line.
fn one_line(text: String) -> Str {
    if text.contains(['\r', '\n']) { text.replace(['\r', '\n'], " ").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(reply: &Reply, version: Version) -> String {
        let mut buffer = BytesMut::from(">");
        reply.clone().encode(version, &mut buffer);
        String::from_utf8(buffer.to_vec()).expect("text")
    }

    #[test]
    fn bytes_as_the_protocol_has_them() {
        let map = Reply::Map(vec![("b".into(), Reply::Integer(1)), ("a".into(), Reply::Nil)]);
        for (reply, resp2, resp3) in [
            (Reply::Nil, ">$-1\r\n", ">_\r\n"),
            (Reply::OK, ">+OK\r\n", ">+OK\r\n"),
            (Reply::text("a\r\n"), ">$3\r\na\r\n\r\n", ">$3\r\na\r\n\r\n"),
            (Reply::text(""), ">$0\r\n\r\n", ">$0\r\n\r\n"),
            (Reply::Integer(-5), ">:-5\r\n", ">:-5\r\n"),
            (Reply::error("a\r\nb"), ">-ERR a  b\r\n", ">-ERR a  b\r\n"),
            (Reply::Array(vec![]), ">*0\r\n", ">*0\r\n"),
            (
                Reply::Array(vec![Reply::Nil, Reply::OK]),
                ">*2\r\n$-1\r\n+OK\r\n",
                ">*2\r\n_\r\n+OK\r\n",
            ),
            (
                map,
                ">*4\r\n$1\r\nb\r\n:1\r\n$1\r\na\r\n$-1\r\n",
                ">%2\r\n$1\r\nb\r\n:1\r\n$1\r\na\r\n_\r\n",
            ),
        ] {
            assert_eq!(bytes(&reply, Version::Resp2), resp2);
            assert_eq!(bytes(&reply, Version::Resp3), resp3);
        }
    }
}
