//! Requests, from bytes as they arrive.
//!
//! ```text
//! *2 CRLF $3 CRLF GET CRLF $1 CRLF k CRLF      RESP: an array of bulk strings
//! GET "k" LF                                   or a line, as a person types it
//! ```
//!
//! A connection speaks one of the two from its first request to its last, so that
//! nothing within the bytes of one is ever taken for the other. Lines that come from no
//! person (HTTP above all) end the connection before anything is executed.
//!
//! Requests are read by hand: a decoder has to go on where it stopped, to know limits,
//! and to know lines.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::inline;
use crate::limits::Limits;
use crate::memory::FREE;

/// A command's name and arguments: at least one word, or none if the request was
/// [skipped](Requests::skip).
pub(crate) type Request = Vec<Bytes>;

/// The longest line that a person types.
const LINE: usize = 64 << 10;

/// The longest line with a length, its end included.
const LENGTH: usize = 32;

/// The most arguments of a request, as in Redis before 7.
const ARGUMENTS: usize = 1 << 20;

/// What Redis allows before a password.
const ARGUMENTS_OF_STRANGERS: usize = 10;

/// What an argument takes besides its bytes: its place in this list, and in those that
/// commands make of it.
const OF_AN_ARGUMENT: usize = 3 * size_of::<Bytes>();

/// So much of a request is copied, rather than keep a large buffer for it.
const LITTLE: usize = 16 << 10;

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
                        let Some(length) = count(buffer, most, MULTIBULK)? else {
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
                        let Some(length) = count(buffer, limits.bulk, BULK)? else {
                            return Ok(None);
                        };
                        self.bytes += length;
                        if self.bytes > limits.request {
                            return wrong(format!(
                                "the request has more than {} bytes",
                                limits.request
                            ));
                        }
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

    /// How many bytes surely come next: there should be room for them.
    pub(crate) fn wanted(&self, buffer: &BytesMut) -> usize {
        self.bulk.map_or(0, |length| (length + 2).saturating_sub(buffer.len()))
    }

    /// Whether a part of a request has come, and is kept.
    pub(crate) fn is_partial(&self) -> bool {
        self.missing > 0 && !self.skipped
    }

    /// Memory of the buffer and of the arguments that have come.
    pub(crate) fn memory(&self) -> usize {
        if !self.is_partial() {
            return self.allocated;
        }
        self.allocated + self.earlier + self.arguments.capacity() * OF_AN_ARGUMENT
    }

    /// How much more memory [`Requests::reserve`] takes.
    pub(crate) fn growth(&self, buffer: &mut BytesMut, bytes: usize) -> usize {
        match self.shared {
            _ if buffer.try_reclaim(bytes) => 0,
            true => buffer.len() + bytes,
            // It becomes twice as large.
            false => bytes.max(self.allocated),
        }
    }

    /// Makes room for so many bytes more. Nothing else may have parts of the buffer than
    /// the request that is arriving.
    pub(crate) fn reserve(&mut self, buffer: &mut BytesMut, bytes: usize) {
        if self.shared && self.allocated > FREE && self.is_little(0) && !buffer.try_reclaim(bytes) {
            self.detach();
        }
        if buffer.try_reclaim(bytes) {
            return;
        }
        buffer.reserve(bytes);
        if self.shared {
            (self.shared, self.earlier) = (false, self.earlier + self.allocated);
            self.allocated = buffer.capacity();
        } else {
            // `capacity` does not count the room of requests that are done.
            self.allocated = buffer.capacity().max(2 * self.allocated);
        }
    }

    /// Gives a large buffer back when little of it is needed. Nothing else may have parts
    /// of it than the request that is arriving.
    pub(crate) fn tidy(&mut self, buffer: &mut BytesMut) {
        if self.allocated > FREE && self.is_little(buffer.len()) {
            self.detach();
            *buffer = BytesMut::from(&buffer[..]);
            self.allocated = buffer.capacity();
        }
    }

    /// Whether little has come, with so many bytes besides the arguments.
    fn is_little(&self, besides: usize) -> bool {
        let arguments = if self.is_partial() { self.bytes - self.bulk.unwrap_or(0) } else { 0 };
        arguments + self.arguments.len() * OF_AN_ARGUMENT + besides <= LITTLE
    }

    /// Copies the arguments that have come.
    fn detach(&mut self) {
        for argument in &mut self.arguments {
            *argument = Bytes::copy_from_slice(argument);
        }
        (self.shared, self.earlier) = (false, 0);
    }

    /// Keeps nothing of the request that is arriving: there is no memory for it. What is
    /// to come of it is read and dropped, and [`Requests::next`] gives a request without
    /// words at its end, so that the connection can go on.
    pub(crate) fn skip(&mut self) {
        self.arguments = Vec::new();
        self.skipped = true;
        (self.shared, self.earlier) = (false, 0);
    }
}

/// What lengths are called in errors.
const MULTIBULK: &str = "multibulk length";
const BULK: &str = "bulk length";

/// Takes a line with a length: `None` when it has not come as a whole.
fn count(buffer: &mut BytesMut, most: usize, what: &str) -> Result<Option<usize>, Unusable> {
    let seen = &buffer[..buffer.len().min(LENGTH)];
    let Some(end) = seen.iter().position(|&byte| byte == b'\n') else {
        return if seen.len() == LENGTH { wrong(format!("too big {what}")) } else { Ok(None) };
    };
    let length = match number(buffer[1..end].trim_ascii_end()).map(usize::try_from) {
        Some(Ok(length)) if length <= most => length,
        // A request of -1 arguments is none, as in Redis.
        Some(Err(_)) if what == MULTIBULK => 0,
        _ => return wrong(format!("invalid {what}")),
    };
    buffer.advance(end + 1);
    Ok(Some(length))
}

/// A number as `str::parse` reads it, of which each request has several.
fn number(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| sign * i64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests of some bytes, in pieces of `step` bytes, and what stopped it.
    fn read(bytes: &[u8], step: usize, limits: &Limits) -> (Vec<Request>, Option<String>) {
        let (mut requests, mut buffer, mut found) =
            (Requests::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(step) {
            buffer.extend_from_slice(piece);
            loop {
                match requests.next(&mut buffer, limits, false) {
                    Ok(Some(request)) => found.push(std::mem::take(request)),
                    Ok(None) => break,
                    Err(Unusable::Protocol(reason)) => return (found, Some(reason)),
                    Err(Unusable::Foreign) => return (found, Some("foreign".into())),
                }
            }
        }
        (found, None)
    }

    fn request(words: &[&'static str]) -> Request {
        words.iter().map(|&word| word.into()).collect()
    }

    #[test]
    fn the_same_requests_in_pieces_of_any_size() {
        let resp = b"\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\n*0\r\n*-1\r\n\n\
                     *3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n*1\r\n$4\r\nQU";
        let expected = [request(&["GET", "k"]), request(&["SET", "", "\r\n\r\n"])];
        let lines = b"\r\n\nPING\r\n\r\n  set a 'b c' \nGET";
        let typed = [request(&["PING"]), request(&["set", "a", "b c"])];
        for (bytes, expected) in [(&resp[..], expected), (&lines[..], typed)] {
            for step in 1..=bytes.len() {
                let (found, error) = read(bytes, step, &Limits::default());
                assert_eq!(found, expected, "pieces of {step} bytes");
                assert_eq!(error, None);
            }
        }
    }

    /// Or what looks like a request within the body of another protocol would be one.
    #[test]
    fn a_connection_speaks_one_form() {
        for (bytes, expected, requests) in [
            ("*1\r\n$4\r\nPING\r\nPING\r\n", "expected '*', got 'P'", 1),
            ("*0\r\nPING\r\n", "expected '*', got 'P'", 0),
            ("*0\r\n\r\n PING\r\n", "expected '*', got ' '", 0),
            (
                "PING\r\n*1\r\n$4\r\nPING\r\n",
                "expected a line, got RESP; open another connection for it",
                1,
            ),
            ("POST / HTTP/1.1\r\n\r\nSET a b\r\n", "foreign", 0),
            ("\r\n\r\nPOST / HTTP/1.1\r\n\r\nSET a b\r\n", "foreign", 0),
            ("PING\nGET / HTTP/1.1\r\n\r\nSET a b\r\n", "foreign", 1),
            ("*1 / HTTP/1.1\r\nSET a b\r\n", "invalid multibulk length", 0),
        ] {
            for step in 1..=bytes.len() {
                let (found, error) = read(bytes.as_bytes(), step, &Limits::default());
                assert_eq!(
                    (found.len(), error.as_deref()),
                    (requests, Some(expected)),
                    "{bytes:?}"
                );
            }
        }
    }

    #[test]
    fn a_request_that_is_skipped_ends_where_it_would_have() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123\r\n6789\r\n*1\r\n$4\r\nPING\r\n";
        let end = bytes.len() - 14;
        for at in 5..end {
            let (mut requests, mut buffer) = (Requests::default(), BytesMut::from(&bytes[..at]));
            assert_eq!(requests.next(&mut buffer, &Limits::default(), false), Ok(None));
            requests.skip();
            let mut found = Vec::new();
            for byte in &bytes[at..] {
                assert!(requests.memory() == 0 && buffer.len() < LENGTH, "nothing is kept");
                if let Some(request) =
                    requests.next(&mut buffer, &Limits::default(), false).expect("requests")
                {
                    found.push(std::mem::take(request));
                }
                buffer.extend_from_slice(&[*byte]);
            }
            let last = requests.next(&mut buffer, &Limits::default(), false).expect("requests");
            found.extend(last.map(std::mem::take));
            assert_eq!(found, [request(&[]), request(&["PING"])], "skipped at {at}");
        }
    }

    /// Reads bytes as a session does, whose requests are done at once.
    fn take(requests: &mut Requests, buffer: &mut BytesMut, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            requests.reserve(buffer, LITTLE);
            let some = bytes.len().min(buffer.capacity() - buffer.len());
            buffer.extend_from_slice(&bytes[..some]);
            bytes = &bytes[some..];
            let limits = Limits::default();
            while let Some(request) = requests.next(buffer, &limits, false).expect("requests") {
                request.clear();
            }
            requests.tidy(buffer);
        }
    }

    #[test]
    fn what_an_argument_keeps_in_memory_is_counted() {
        const LARGE: usize = 4 << 20;
        let bulk = |size: usize| format!("${size}\r\n{}\r\n", "x".repeat(size));
        let large = format!("*2\r\n$3\r\nGET\r\n{}", bulk(LARGE));
        // Little that comes with the end of a large request does not keep its buffer.
        for part in ["", "*2\r\n", "*2\r\n$4\r\nECHO\r\n", "*2\r\n$4\r\nECHO\r\n$9\r\n12345"] {
            let (mut requests, mut buffer) = (Requests::default(), BytesMut::new());
            take(&mut requests, &mut buffer, format!("{large}{part}").as_bytes());
            assert!(requests.memory() <= FREE, "{part:?}: {}", requests.memory());
            take(&mut requests, &mut buffer, b"");
            assert_eq!(requests.is_partial(), !part.is_empty());
        }
        // More does, and it is counted, however little of it was asked for.
        let (mut requests, mut buffer) = (Requests::default(), BytesMut::new());
        let more = format!("{large}*3\r\n{}", bulk(2 * LITTLE));
        take(&mut requests, &mut buffer, more.as_bytes());
        let before = requests.memory();
        assert!(before >= LARGE, "{before}");
        take(&mut requests, &mut buffer, bulk(LARGE).as_bytes());
        assert!(requests.memory() >= 2 * LARGE, "{}", requests.memory());
        take(&mut requests, &mut buffer, bulk(1).as_bytes());
        assert!(requests.memory() <= FREE, "all is done: {}", requests.memory());
    }

    #[test]
    fn what_is_no_request_says_why() {
        let limits = Limits { bulk: 100, request: 150, ..Limits::default() };
        for (bytes, expected) in [
            ("*1\r\n$600000000\r\n", "invalid bulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$x\r\n", "invalid bulk length"),
            ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
            ("*1048577\r\n", "invalid multibulk length"),
            ("*x\r\n", "invalid multibulk length"),
            ("*00000000000000000000000000000000001\r\n", "too big multibulk length"),
            ("*1\r\n$00000000000000000000000000000000001\r\n", "too big bulk length"),
            ("*1\r\n:1\r\n", "expected '$', got ':'"),
            ("*1\r\n$1\r\nabc", "expected CRLF after a bulk string"),
            ("get \"k\n", "unbalanced quotes in request"),
            ("get 'k'x\n", "unbalanced quotes in request"),
        ] {
            let (found, error) = read(bytes.as_bytes(), 1, &limits);
            assert_eq!((found.len(), error.as_deref()), (0, Some(expected)), "{bytes:?}");
        }
        let two = format!("*2\r\n$90\r\n{}\r\n$90\r\n", "a".repeat(90));
        let (_, error) = read(two.as_bytes(), 7, &limits);
        assert_eq!(error.as_deref(), Some("the request has more than 150 bytes"));
        let long = "a".repeat(LINE);
        let (_, error) = read(long.as_bytes(), LINE, &limits);
        assert_eq!(error.as_deref(), Some("too big inline request"));
    }

    #[test]
    fn strangers_have_few_arguments() {
        let mut buffer = BytesMut::from("*11\r\n");
        let mut requests = Requests::default();
        let error = requests.next(&mut buffer, &Limits::default(), true);
        assert_eq!(error, wrong("invalid multibulk length"));
    }

    #[test]
    fn numbers_are_those_of_str_parse() {
        for text in [
            "",
            "-",
            "+",
            "0",
            "-0",
            "+7",
            "007",
            "-1",
            "12",
            "--1",
            "+-1",
            "1_0",
            " 1",
            "1 ",
            "1a",
            "/",
            ":",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(number(text.as_bytes()), text.parse().ok(), "{text:?}");
        }
        assert_eq!(number(b"1\xff"), None);
    }
}
