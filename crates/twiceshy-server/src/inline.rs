//! Requests as a person types them, one per line, and lines that no person types.

use bytes::Bytes;

/// The words of a line: quoted as in Redis, `"\x00\n"` or `'it\'s'`. `None` when a
/// quote is not closed, or something follows it.
pub(crate) fn words(line: &[u8]) -> Option<Vec<Bytes>> {
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

/// Methods of HTTP that are no commands here. GET is one; see [`is_foreign`].
const METHODS: [&[u8]; 9] =
    [b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"CONNECT", b"TRACE", b"PRI"];

/// Whether a line comes from a client that takes this port for one of another protocol.
/// A browser is such a client: a web page chooses what it sends, and may have it sent
/// here. Such a line is
///
/// - the request line of HTTP, whatever its method: its last word is `HTTP/1.1`, say;
/// - a method that is no command here, or a header: `Host: example.com`;
/// - binary: TLS and STUN begin with control bytes, and let a page choose what follows.
pub(crate) fn is_foreign(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    if line.iter().any(|&byte| byte.is_ascii_control() && byte != b'\t') {
        return true;
    }
    // Not split as `words` does it: to HTTP, quotes are nothing special.
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    first.contains(&b':')
        || METHODS.iter().any(|method| first.eq_ignore_ascii_case(method))
        || words.next_back().is_some_and(|last| {
            last.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn lines_that_nobody_types() {
        for line in [
            "POST / HTTP/1.1\r",
            "post",
            "GET / HTTP/1.1\r",
            "GET /?a=b http/1.0",
            // Methods that a page may use on a host that it takes for its own.
            "SET /pwned HTTP/1.1\r",
            "DEL /a HTTP/1.1\r",
            "'SET /a HTTP/1.1\r",
            "PRI * HTTP/2.0\r",
            "Host: 127.0.0.1:6390\r",
            "host:127.0.0.1",
            "X-Anything: SET a b\r",
            "\x16\x03\x01\x02\x00",
            "\x00\x03\x00",
            "SET a\rb c",
        ] {
            assert!(is_foreign(line.as_bytes()), "{line:?}");
        }
        for line in [
            "",
            "\r",
            "GET key\r",
            "GET HTTP\r",
            "GET a:b",
            "SET url http://example.com/",
            "SET header 'Host: x'",
            "SET\tkey\tvalue \r",
            "SET k \"\\x00\\n\"",
            "SET k ключ",
            "TS.STATS",
        ] {
            assert!(!is_foreign(line.as_bytes()), "{line:?}");
        }
    }
}
