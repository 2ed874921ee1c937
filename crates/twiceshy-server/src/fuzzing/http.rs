//! Requests of HTTP, whole and damaged, in pieces of any size.
//!
//! - What was encoded comes back: path, method, headers.
//! - However bytes are cut into pieces, the head ends at the same place.
//! - Whatever they are, nothing panics.

use super::source::Source;
use crate::http::message::{end, parse};

const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b" ",
    b":",
    b"?",
    b"/",
    b"GET ",
    b"HEAD ",
    b" HTTP/1.1",
    b"HTTP/2",
    b"\0",
    b"\xff",
];

/// Checks all of it for the request that some bytes make.
pub(crate) fn run(data: &[u8]) {
    let mut source = Source(data);
    let is_head = source.one_in(2);
    let visible = |source: &mut Source<'_>, most: usize| {
        let bytes = source.bytes(most).into_iter();
        // Neither spaces nor what separates parts.
        let letters = bytes.map(|byte| char::from(b'!' + byte % 94));
        letters.filter(|letter| !matches!(letter, ':' | '?')).collect::<String>()
    };
    let path = format!("/{}", visible(&mut source, 20));
    let query =
        if source.one_in(2) { format!("?{}", visible(&mut source, 10)) } else { String::new() };
    let headers: Vec<(String, String)> = (0..source.below(5))
        .map(|_| (format!("x{}", visible(&mut source, 5)), visible(&mut source, 20)))
        .collect();
    let method = if is_head { "HEAD" } else { "GET" };
    let mut text = format!("{method} {path}{query} HTTP/1.1");
    for (name, value) in &headers {
        text += &format!("\r\n{name}: {value}");
    }
    let head = text.len();
    text += "\r\n\r\n";
    let mut bytes = text.into_bytes();
    assert_eq!(end(&bytes, &mut 0), Some(head));
    match parse(&bytes[..head]) {
        Ok(request) => {
            assert_eq!((request.path, request.is_head), (&path[..], is_head));
            assert_eq!(request.query, query.trim_start_matches('?'));
            for (name, _) in &headers {
                let first = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
                let expected = first.map(|(_, value)| &value[..]);
                assert_eq!(request.header(&name.to_ascii_uppercase()), expected);
            }
            assert_eq!(request.header("none"), None);
        }
        Err(response) => panic!("{}: {}", bytes.escape_ascii(), response.status),
    }
    same_in_pieces(&mut source, &bytes);
    bytes.extend(source.bytes(20));
    source.damage(&mut bytes, TOKENS);
    same_in_pieces(&mut source, &bytes);
    let head = end(&bytes, &mut 0).unwrap_or(bytes.len());
    match parse(&bytes[..head]) {
        Ok(request) => {
            assert!(request.path.starts_with('/') && !request.path.contains([' ', '?', '\r']));
            let _ = (request.header("x"), request.field("x"));
        }
        Err(response) => {
            let answer = response.bytes(false);
            let text = String::from_utf8(answer).expect("an answer is text");
            assert!(text.starts_with("HTTP/1.1 4") && text.contains("\r\n\r\n"), "{text}");
            // What was asked for is not repeated: no part of it can become a header.
            assert!(response.bytes(true).ends_with(b"\r\n\r\n"));
        }
    }
}

/// The end is found where it is, whatever comes at a time.
fn same_in_pieces(source: &mut Source<'_>, bytes: &[u8]) {
    let whole = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let mut pieces = Source(source.0);
    for most in [1, 7, 100] {
        let (mut looked, mut come, mut found) = (0, 0, None);
        while come < bytes.len() && found.is_none() {
            come = (come + 1 + pieces.below(most)).min(bytes.len());
            found = end(&bytes[..come], &mut looked);
            assert!(looked <= come);
        }
        assert_eq!(found, whole, "{}", bytes.escape_ascii());
    }
}
