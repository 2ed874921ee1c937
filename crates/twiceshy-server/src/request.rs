//! Requests, from bytes as they arrive.
//!
//! ```text
//! *2 CRLF $3 CRLF GET CRLF $1 CRLF k CRLF      an array of bulk strings
//! GET "k" LF                                   or a line, as a person types it
//! ```
//!
//! Replies are made by crate `redis-protocol`; requests are read here, because
//! its decoder begins again at the first byte whenever more has arrived, knows no
//! limits and no lines.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::limits::Limits;

/// A command's name and arguments: at least one.
pub(crate) type Request = Vec<Bytes>;

/// The longest line: a length, or a command that somebody types.
const LINE: usize = 64 << 10;

/// The most arguments of a request, as in Redis before 7.
const ARGUMENTS: usize = 1 << 20;

/// What Redis allows before a password.
const ARGUMENTS_OF_STRANGERS: usize = 10;

/// How far the next request has come.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Arguments of the request so far, and how many there will be.
    arguments: Request,
    expected: usize,
    /// Bytes of the argument whose length has come.
    bulk: Option<usize>,
    /// Bytes of the request so far.
    bytes: usize,
}

/// What a client sent is no request, in the words of Redis. There is no telling
/// where the next one begins: the connection is of no more use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) String);

fn wrong<T>(reason: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(reason.into()))
}

impl Requests {
    /// The next request, when all of it is in `buffer`, from which it is taken. Whoever
    /// gets it leaves nothing of it: the list is that of the next one too.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        limits: &Limits,
        stranger: bool,
    ) -> Result<Option<&mut Request>, ProtocolError> {
        loop {
            if self.expected == 0 {
                match buffer.first() {
                    None => return Ok(None),
                    Some(b'*') => {
                        let most = if stranger { ARGUMENTS_OF_STRANGERS } else { ARGUMENTS };
                        let Some(length) = count(buffer, most, MULTIBULK)? else {
                            return Ok(None);
                        };
                        self.expected = length;
                        self.bytes = 0;
                    }
                    Some(_) => {
                        let Some(end) = line_end(buffer, "inline request")? else {
                            return Ok(None);
                        };
                        let words = words(&buffer[..end]);
                        buffer.advance(end + 1);
                        match words {
                            None => return wrong("unbalanced quotes in request"),
                            Some(words) if words.is_empty() => (),
                            Some(words) => {
                                self.arguments = words;
                                return Ok(Some(&mut self.arguments));
                            }
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
            if buffer.len() < length + 2 {
                return Ok(None);
            }
            self.arguments.push(buffer.split_to(length).freeze());
            if !buffer.starts_with(b"\r\n") {
                return wrong("expected CRLF after a bulk string");
            }
            buffer.advance(2);
            self.bulk = None;
            if self.arguments.len() == self.expected {
                self.expected = 0;
                return Ok(Some(&mut self.arguments));
            }
        }
    }

    /// How many bytes surely come next: there should be room for them.
    pub(crate) fn wanted(&self, buffer: &BytesMut) -> usize {
        self.bulk.map_or(0, |length| (length + 2).saturating_sub(buffer.len()))
    }
}

/// What lengths are called in errors.
const MULTIBULK: &str = "multibulk length";
const BULK: &str = "bulk length";

/// Takes a line with a length: `None` when it has not come as a whole.
fn count(buffer: &mut BytesMut, most: usize, what: &str) -> Result<Option<usize>, ProtocolError> {
    let Some(end) = line_end(buffer, what)? else { return Ok(None) };
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

/// Where the first line ends: the place of its LF.
fn line_end(buffer: &[u8], what: &str) -> Result<Option<usize>, ProtocolError> {
    let seen = &buffer[..buffer.len().min(LINE)];
    match seen.iter().position(|&byte| byte == b'\n') {
        None if seen.len() == LINE => wrong(format!("too big {what}")),
        end => Ok(end),
    }
}

/// The words of a line that somebody typed: quoted like in Redis, `"\x00\n"` or
/// `'it\'s'`. `None` when a quote is not closed, or something follows it.
fn words(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    let mut rest = line.iter().copied().peekable();
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        let Some(first) = rest.peek().copied() else { return Some(words) };
        let mut word = Vec::new();
        if first == b'"' || first == b'\'' {
            rest.next();
            loop {
                match rest.next()? {
                    byte if byte == first => break,
                    b'\\' if first == b'\'' => match rest.next_if_eq(&b'\'') {
                        Some(quote) => word.push(quote),
                        None => word.push(b'\\'),
                    },
                    b'\\' => word.push(escaped(&mut rest)?),
                    byte => word.push(byte),
                }
            }
            if rest.peek().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return None;
            }
        } else {
            while let Some(byte) = rest.next_if(|byte| !byte.is_ascii_whitespace()) {
                word.push(byte);
            }
        }
        words.push(word.into());
    }
}

/// What stands for one byte after a backslash within double quotes.
fn escaped(rest: &mut std::iter::Peekable<impl Iterator<Item = u8> + Clone>) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = rest.next()?;
    if byte == b'x' {
        let mut ahead = rest.clone();
        if let (Some(high), Some(low)) =
            (ahead.next().and_then(digit), ahead.next().and_then(digit))
        {
            *rest = ahead;
            return Some(high << 4 | low);
        }
    }
    Some(match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
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
                    Err(ProtocolError(reason)) => return (found, Some(reason)),
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
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\nPING\r\n*0\r\n*-1\r\n\
                      *3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n  set a 'b c' \n*1\r\n$4\r\nQU";
        let expected = [
            request(&["GET", "k"]),
            request(&["PING"]),
            request(&["SET", "", "\r\n\r\n"]),
            request(&["set", "a", "b c"]),
        ];
        for step in 1..=bytes.len() {
            let (found, error) = read(bytes, step, &Limits::default());
            assert_eq!(found, expected, "pieces of {step} bytes");
            assert_eq!(error, None);
        }
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
    fn quoted_words() {
        let split = |line: &str| words(line.as_bytes());
        assert_eq!(
            split(r#"a "\x41\n\q\xZ" 'it\'s\n' """#),
            Some(vec!["a".into(), "A\nqxZ".into(), "it's\\n".into(), "".into()])
        );
        assert_eq!(split("  "), Some(vec![]));
        assert_eq!(split("'a"), None);
        assert_eq!(split("\"a\\"), None);
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
