//! Requests, whole and damaged, in pieces of any size.
//!
//! - What was encoded comes back.
//! - However bytes are cut into pieces, they are the same requests.
//! - Whatever they are, nothing panics, and limits are kept.
//! - Nothing in a request of HTTP is a request here.
//! - A request that is skipped takes no other with it.

use bytes::BytesMut;

use super::source::Source;
use crate::limits::Limits;
use crate::request::{Requests, Unusable};

type Words = Vec<Vec<u8>>;

/// Small ones, so that they are met.
const LIMITS: Limits =
    Limits { request: 300, bulk: 100, reply: 1000, memory: 10_000, connections: 10, idle: None };

const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"*",
    b"*1\r\n$4\r\nPING\r\n",
    b"$",
    b"*0\r\n",
    b"*-1\r\n",
    b"$-1\r\n",
    b"$101\r\n",
    b"99999999999999999999",
    b"*1048577\r\n",
    b"\"",
    b"'",
    b"\\x",
    b"POST / HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"\0",
    b"\x16\x03\x01",
];

/// What was read of some bytes, and why no more.
type Read = (Vec<Words>, Option<Unusable>);

/// Checks all of it for the requests that some bytes make.
pub(crate) fn run(data: &[u8]) {
    let mut source = Source(data);
    match source.below(4) {
        0 => http(&mut source),
        1 => requests(&mut source, line),
        _ => requests(&mut source, array),
    }
}

fn requests(source: &mut Source<'_>, encode: fn(&Words, &mut Vec<u8>)) {
    let (mut expected, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..1 + source.below(6) {
        if source.one_in(4) {
            bytes.extend_from_slice(source.choose::<[u8]>(&[b"\r\n", b"\n", b"\n\r\n"]));
        }
        // Within the limits: 9 words of 33 bytes are 297.
        let words: Words = (0..1 + source.below(9)).map(|_| source.bytes(33)).collect();
        encode(&words, &mut bytes);
        expected.push(words);
    }
    assert_eq!(read(&bytes, || bytes.len(), || false), (expected.clone(), None));
    same_in_pieces(source, &bytes);
    let mut pieces = Source(source.0);
    let mut skips = Source(source.0);
    let (skipped, error) = read(&bytes, || 1 + pieces.below(40), || skips.one_in(8));
    assert_eq!((skipped.len(), error), (expected.len(), None));
    for (skipped, expected) in skipped.iter().zip(&expected) {
        assert!(skipped.is_empty() || skipped == expected, "{skipped:?} for {expected:?}");
    }
    source.damage(&mut bytes, TOKENS);
    same_in_pieces(source, &bytes);
}

/// A request of HTTP, whose method and all that follows are anybody's choice.
fn http(source: &mut Source<'_>) {
    const METHOD: &[u8] = b"ABCSETGPODLabc019!#$%&'*+-.^_`|~";
    let letters = 1 + source.below(8);
    let mut bytes: Vec<u8> = (0..letters).map(|_| METHOD[source.below(METHOD.len())]).collect();
    if source.one_in(2) {
        let method: &[u8] =
            source.choose(&[b"GET", b"POST", b"SET", b"MSET", b"DEL", b"*1", b"*3"]);
        bytes = method.to_vec();
    }
    bytes.extend_from_slice(b" /");
    bytes.extend(source.bytes(40).iter().map(|byte| b'!' + byte % 94));
    bytes.extend_from_slice(b" HTTP/1.1\r\n");
    bytes.extend(source.bytes(100));
    bytes.extend_from_slice(
        source.choose::<[u8]>(&[b"\r\nSET a b\r\n", b"\r\n\r\n*1\r\n$4\r\nPING\r\n"]),
    );
    let (found, error) = read(&bytes, || bytes.len(), || false);
    assert!(found.is_empty() && error.is_some(), "{}: {found:?}", bytes.escape_ascii());
    same_in_pieces(source, &bytes);
}

/// The same requests, and the same end, in pieces of one byte and of others.
fn same_in_pieces(source: &mut Source<'_>, bytes: &[u8]) {
    let whole = read(bytes, || bytes.len(), || false);
    assert_eq!(read(bytes, || 1, || false), whole, "{}", bytes.escape_ascii());
    let mut pieces = Source(source.0);
    let cut = read(bytes, || 1 + pieces.below(30), || false);
    assert_eq!(cut, whole, "{}", bytes.escape_ascii());
}

/// Reads bytes in pieces; says of a request that has begun whether to skip it.
fn read(bytes: &[u8], mut piece: impl FnMut() -> usize, mut skips: impl FnMut() -> bool) -> Read {
    let (mut requests, mut buffer) = (Requests::default(), BytesMut::new());
    let (mut found, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (next, later) = rest.split_at(piece().clamp(1, rest.len()));
        rest = later;
        buffer.extend_from_slice(next);
        loop {
            match requests.next(&mut buffer, &LIMITS, false) {
                Ok(None) => break,
                Ok(Some(request)) => {
                    let words: Words = request.drain(..).map(|word| word.to_vec()).collect();
                    found.push(words);
                }
                Err(error) => return (found, Some(error)),
            }
        }
        // A word of the longest takes 32 bytes for its length and 2 for its end; a line may be longer.
        if requests.is_partial() {
            assert!(buffer.len() <= LIMITS.bulk + 34, "{} bytes are kept", buffer.len());
            // Of each word that has come: 6 bytes at least, and a place in a list that
            // may have grown to twice its length.
            let places = 2 * (bytes.len() / 6 + 4) * 3 * size_of::<bytes::Bytes>();
            assert!(requests.memory() <= LIMITS.request + places, "{}", requests.memory());
            if skips() {
                requests.skip();
                assert_eq!(requests.memory(), 0);
            }
        }
    }
    (found, None)
}

fn array(words: &Words, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// All quoted, so that no line looks like one of HTTP.
fn line(words: &Words, bytes: &mut Vec<u8>) {
    for word in words {
        bytes.push(b'"');
        word.iter().for_each(|byte| bytes.extend_from_slice(format!("\\x{byte:02x}").as_bytes()));
        bytes.extend_from_slice(b"\" ");
    }
    bytes.extend_from_slice(b"\r\n");
}
