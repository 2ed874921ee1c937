//! [`Replies`]: encoded replies that a client has not read yet.
//!
//! ```text
//! ▶ chunk ▶ chunk ▶ ... ▶ tail       written from the left, added to on the right
//! ```
//!
//! Small replies are gathered in the tail. A large value is a chunk of its own, which is
//! not copied, and what has been written is freed chunk by chunk: the replies take as
//! much memory as they have bytes.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::reply::{Reply, Version};

/// Values of at least this size are not copied.
const LARGE: usize = 16 << 10;

/// A tail of this many bytes becomes a chunk.
const CHUNK: usize = 64 << 10;

/// Chunks that one write takes.
const WRITTEN: usize = 16;

/// Encoded replies that a client has not read yet.
pub(crate) struct Replies {
    pub(crate) version: Version,
    chunks: VecDeque<Bytes>,
    /// Bytes of the chunks.
    chunked: usize,
    tail: BytesMut,
}

/// A place to return to; see [`Replies::mark`].
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    chunks: usize,
    chunked: usize,
    tail: usize,
}

impl Mark {
    /// How many bytes there were.
    pub(crate) fn len(&self) -> usize {
        self.chunked + self.tail
    }
}

impl Default for Replies {
    fn default() -> Self {
        Replies {
            version: Version::Resp2,
            chunks: VecDeque::new(),
            chunked: 0,
            tail: BytesMut::new(),
        }
    }
}

impl Replies {
    pub(crate) fn len(&self) -> usize {
        self.chunked + self.tail.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes as much as the socket takes: how much that was. [`Replies::advance`] then
    /// forgets it.
    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<usize> {
        if self.chunks.is_empty() {
            return to.write(&self.tail).await;
        }
        let mut slices = [IoSlice::new(&[]); WRITTEN];
        let parts = self.chunks.iter().map(|chunk| &chunk[..]).chain([&self.tail[..]]);
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        to.write_vectored(&slices[..count]).await
    }

    /// Forgets the first bytes.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        while let Some(first) = self.chunks.front_mut() {
            let some = bytes.min(first.len());
            first.advance(some);
            self.chunked -= some;
            bytes -= some;
            if !first.is_empty() {
                return;
            }
            self.chunks.pop_front();
        }
        self.tail.advance(bytes);
        // `capacity` does not count the room of what has been written.
        if self.tail.is_empty() && self.tail.try_reclaim(CHUNK + LARGE) {
            self.tail = BytesMut::new();
        }
    }

    /// Where it ends now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { chunks: self.chunks.len(), chunked: self.chunked, tail: self.tail.len() }
    }

    /// Removes what was added since a mark. Nothing may have been written since.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        if self.chunks.len() == mark.chunks {
            return self.tail.truncate(mark.tail);
        }
        // The tail of then is the beginning of the first chunk since.
        self.chunks.truncate(mark.chunks + 1);
        self.chunks[mark.chunks].truncate(mark.tail);
        self.chunked = mark.chunked + mark.tail;
        if mark.tail == 0 {
            self.chunks.pop_back();
        }
        self.tail.clear();
    }

    /// The tail becomes a chunk.
    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        self.chunked += self.tail.len();
        self.chunks.push_back(self.tail.split().freeze());
    }

    fn add(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if self.tail.len() >= CHUNK {
            self.seal();
        }
    }

    /// A type, a number and the end of the line.
    fn number(&mut self, kind: u8, number: i64) {
        let mut digits = [0; 24];
        let mut at = digits.len() - 2;
        digits[at..].copy_from_slice(b"\r\n");
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        at -= 1;
        digits[at] = kind;
        self.add(&digits[at..]);
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.number(kind, i64::try_from(length).expect("what is in memory can be counted"));
    }

    pub(crate) fn nil(&mut self) {
        self.add(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The items follow.
    pub(crate) fn array(&mut self, items: usize) {
        self.length(b'*', items);
    }

    /// Names and values follow by turns.
    pub(crate) fn map(&mut self, entries: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', 2 * entries),
            Version::Resp3 => self.length(b'%', entries),
        }
    }

    pub(crate) fn bulk(&mut self, bytes: Bytes) {
        self.length(b'$', bytes.len());
        if bytes.len() < LARGE {
            self.add(&bytes);
        } else {
            self.seal();
            self.chunked += bytes.len();
            self.chunks.push_back(bytes);
        }
        self.add(b"\r\n");
    }

    /// A value or nil.
    pub(crate) fn value(&mut self, value: Option<Bytes>) {
        match value {
            Some(value) => self.bulk(value),
            None => self.nil(),
        }
    }

    /// A line: CR and LF within it would end it.
    fn line(&mut self, kind: u8, text: &str) {
        self.add(&[kind]);
        for part in text.split_inclusive(['\r', '\n']) {
            match part.strip_suffix(['\r', '\n']) {
                Some(part) => {
                    self.add(part.as_bytes());
                    self.add(b" ");
                }
                None => self.add(part.as_bytes()),
            }
        }
        self.add(b"\r\n");
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Nil => self.nil(),
            Reply::Simple(text) => self.line(b'+', &text),
            Reply::Bulk(bytes) => self.bulk(bytes),
            Reply::Integer(number) => self.number(b':', number),
            Reply::Error(text) => self.line(b'-', &text),
            Reply::Array(items) => {
                self.array(items.len());
                items.into_iter().for_each(|item| self.reply(item));
            }
            Reply::Map(entries) => {
                self.map(entries.len());
                for (name, value) in entries {
                    self.bulk(name);
                    self.reply(value);
                }
            }
        }
    }

    /// All bytes at once.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let parts: Vec<&[u8]> =
            self.chunks.iter().map(|chunk| &chunk[..]).chain([&self.tail[..]]).collect();
        parts.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(reply: &Reply, version: Version) -> String {
        let mut replies = Replies { version, ..Replies::default() };
        replies.reply(reply.clone());
        String::from_utf8(replies.to_vec()).expect("text")
    }

    #[test]
    fn bytes_as_the_protocol_has_them() {
        let map = Reply::Map(vec![("b".into(), Reply::Integer(1)), ("a".into(), Reply::Nil)]);
        for (reply, resp2, resp3) in [
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::text("a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (Reply::text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Integer(0), ":0\r\n", ":0\r\n"),
            (Reply::Integer(-50), ":-50\r\n", ":-50\r\n"),
            (Reply::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (Reply::error("a\r\nb\n"), "-ERR a  b \r\n", "-ERR a  b \r\n"),
            (Reply::Array(vec![]), "*0\r\n", "*0\r\n"),
            (
                Reply::Array(vec![Reply::Nil, Reply::OK]),
                "*2\r\n$-1\r\n+OK\r\n",
                "*2\r\n_\r\n+OK\r\n",
            ),
            (
                map,
                "*4\r\n$1\r\nb\r\n:1\r\n$1\r\na\r\n$-1\r\n",
                "%2\r\n$1\r\nb\r\n:1\r\n$1\r\na\r\n_\r\n",
            ),
        ] {
            assert_eq!(bytes(&reply, Version::Resp2), resp2);
            assert_eq!(bytes(&reply, Version::Resp3), resp3);
        }
    }

    /// Values of all sizes, written in pieces of any size and taken back at any place.
    #[tokio::test]
    async fn what_is_written_is_what_was_added() {
        let sizes = [0, 1, LARGE - 1, LARGE, 3, CHUNK - 7, CHUNK, 5, 2 * LARGE];
        for piece in [1 << 10, 40_000, 1 << 20] {
            let (mut replies, mut expected, mut written) =
                (Replies::default(), Vec::new(), Vec::new());
            for (index, &size) in sizes.iter().cycle().take(40).enumerate() {
                let value = Bytes::from(vec![index as u8; size]);
                let mark = replies.mark();
                assert_eq!(mark.len(), replies.len());
                for &size in &sizes[..index % sizes.len()] {
                    replies.bulk(Bytes::from(vec![0xff; size]));
                }
                replies.take_back(mark);
                expected.extend_from_slice(format!("${size}\r\n").as_bytes());
                expected.extend_from_slice(&value);
                expected.extend_from_slice(b"\r\n");
                replies.bulk(value);
                let mut some = vec![0; piece];
                let room = some.len();
                let mut socket = io::Cursor::new(&mut some[..]);
                let count = replies.write(&mut socket).await.expect("room");
                assert!(count <= room);
                written.extend_from_slice(&some[..count]);
                replies.advance(count);
                assert_eq!(replies.len(), expected.len() - written.len());
            }
            written.extend_from_slice(&replies.to_vec());
            assert!(written == expected, "pieces of {piece} bytes");
            assert_eq!(replies.to_vec().len(), replies.len());
            replies.advance(replies.len());
            assert!(replies.is_empty() && replies.chunks.is_empty());
        }
    }
}
