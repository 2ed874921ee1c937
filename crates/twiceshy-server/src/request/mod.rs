//! Requests, from bytes as they arrive.
//!
//! ```text
//! *2 CRLF $3 CRLF GET CRLF $1 CRLF k CRLF      RESP: an array of bulk strings
//! GET "k" LF                                   or a line, as a person types it
//! ```
//!
//! A connection uses one of the two from its first request to its last, so that bytes of one are
//! never taken for the other. Lines that no person types (above all HTTP) end the connection
//! before anything is executed.
//!
//! The parser is written by hand because it has to resume where it stopped, enforce limits, and
//! read lines.

mod length;
mod memory;
#[cfg(test)]
mod tests;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::inline;
use crate::limits::Limits;

use length::{BULK, MULTIBULK, length};

/// A command's name and arguments: at least one word, or none if the request was
/// [skipped](Requests::skip).
pub(crate) type Request = Vec<Bytes>;

/// The longest line that a person types.
const LINE: usize = 64 << 10;

/// The most arguments of a request, as in Redis before 7.
const ARGUMENTS: usize = 1 << 20;

/// What Redis allows before a password.
const ARGUMENTS_OF_STRANGERS: usize = 10;

/// How far the next request has come.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    form: Form,
    /// Arguments of the request so far, and how many are to come.
    arguments: Request,
    missing: usize,
    /// Bytes of the argument whose length has come.
    bulk: Option<usize>,
    /// Bytes of the request, as far as lengths have come.
    bytes: usize,
    /// Where a line was not found to end yet.
    looked: usize,
    /// Nothing of this request is kept.
    skipped: bool,
    /// Bytes of the buffer's allocation, of which an argument keeps all in memory.
    allocated: usize,
    /// Whether an argument of the request so far is a part of it.
    shared: bool,
    /// Bytes of earlier allocations of which arguments of the request so far are parts.
    earlier: usize,
}

/// What a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Resp,
    Lines,
}

/// Why nothing more can be read from a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// No request, in the words of Redis: there is no telling where the next one begins.
    Protocol(String),
    /// A request beyond the limits.
    TooLarge(String),
    /// Another protocol; see [`inline::is_foreign`].
    Foreign,
}

fn wrong<T>(reason: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable::Protocol(reason.into()))
}

impl Requests {
    /// The next request, when all of it is in `buffer`, from which it is taken. The
    /// caller leaves nothing in it: the list is used for the next request too.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        limits: &Limits,
        stranger: bool,
    ) -> Result<Option<&mut Request>, Unusable> {
        loop {
            if self.missing == 0 {
                match (buffer.first(), self.form) {
                    (None, _) => return Ok(None),
                    (Some(b'*'), Form::Unknown | Form::Resp) => {
                        let most = if stranger { ARGUMENTS_OF_STRANGERS } else { ARGUMENTS };
                        let Some(length) = length(buffer, most, MULTIBULK)? else {
                            return Ok(None);
                        };
                        self.form = Form::Resp;
                        (self.missing, self.bytes, self.skipped) = (length, 0, false);
                        (self.shared, self.earlier) = (false, 0);
                    }
                    (Some(b'*'), Form::Lines) => {
                        return wrong("expected a line, got RESP; open another connection for it");
                    }
                    // Ends of lines between requests are nothing: `redis-cli --pipe` sends one.
                    (Some(b'\r' | b'\n'), Form::Resp) => buffer.advance(1),
                    (Some(&other), Form::Resp) => {
                        return wrong(format!("expected '*', got '{}'", other.escape_ascii()));
                    }
                    (Some(_), Form::Unknown | Form::Lines) => {
                        let Some(words) = self.line(buffer)? else { return Ok(None) };
                        if !words.is_empty() {
                            self.form = Form::Lines;
                            self.arguments = words;
                            return Ok(Some(&mut self.arguments));
                        }
                    }
                }
                continue;
            }
            let length = match self.bulk {
                Some(length) => length,
                None => match buffer.first() {
                    None => return Ok(None),
                    Some(b'$') => {
                        let Some(length) = length(buffer, usize::MAX, BULK)? else {
                            return Ok(None);
                        };
                        self.bytes = self.bytes.saturating_add(length);
                        self.limit(length, limits, stranger)?;
                        *self.bulk.insert(length)
                    }
                    Some(&other) => {
                        return wrong(format!("expected '$', got '{}'", other.escape_ascii()));
                    }
                },
            };
            if self.skipped {
                let come = length.min(buffer.len());
                buffer.advance(come);
                self.bulk = Some(length - come);
                if come < length || buffer.len() < 2 {
                    return Ok(None);
                }
            } else if buffer.len() < length + 2 {
                return Ok(None);
            } else {
                self.arguments.push(buffer.split_to(length).freeze());
                self.shared = true;
            }
            if !buffer.starts_with(b"\r\n") {
                return wrong("expected CRLF after a bulk string");
            }
            buffer.advance(2);
            self.bulk = None;
            self.missing -= 1;
            if self.missing == 0 {
                return Ok(Some(&mut self.arguments));
            }
        }
    }

    /// Refuses an argument of this length, or the request that it is part of.
    fn limit(&self, length: usize, limits: &Limits, stranger: bool) -> Result<(), Unusable> {
        let (bulk, request) = (limits.bulk, limits.request);
        let is_large = length > bulk || self.bytes > request;
        if is_large && stranger {
            return wrong("unauthenticated bulk length");
        }
        if length > bulk {
            return Err(Unusable::TooLarge(format!(
                "an argument has {length} bytes, and at most {bulk} are allowed (--max-bulk)"
            )));
        }
        if is_large {
            return Err(Unusable::TooLarge(format!(
                "the request has more than {request} bytes (--max-request)"
            )));
        }
        Ok(())
    }

    /// Takes a line: its words, or `None` when it has not come as a whole.
    fn line(&mut self, buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, Unusable> {
        let seen = &buffer[..buffer.len().min(LINE)];
        let Some(end) = seen[self.looked..].iter().position(|&byte| byte == b'\n') else {
            self.looked = seen.len();
            return if seen.len() == LINE { wrong("too big inline request") } else { Ok(None) };
        };
        let end = self.looked + end;
        self.looked = 0;
        let line = &buffer[..end];
        if inline::is_foreign(line) {
            return Err(Unusable::Foreign);
        }
        let words = inline::words(line);
        buffer.advance(end + 1);
        words.map_or_else(|| wrong("unbalanced quotes in request"), |words| Ok(Some(words)))
    }

    /// How many bytes are known to come next, so that there is room for them.
    pub(crate) fn wanted(&self, buffer: &BytesMut) -> usize {
        self.bulk.map_or(0, |length| (length + 2).saturating_sub(buffer.len()))
    }

    /// Whether a part of a request has come, and is kept.
    pub(crate) fn is_partial(&self) -> bool {
        self.missing > 0 && !self.skipped
    }

    /// Drops the request that is arriving, because there is no memory for it. The rest of it is
    /// read and discarded, and [`Requests::next`] returns a request without words at its end, so
    /// that the connection can go on.
    pub(crate) fn skip(&mut self) {
        self.arguments = Vec::new();
        self.skipped = true;
        (self.shared, self.earlier) = (false, 0);
    }
}
