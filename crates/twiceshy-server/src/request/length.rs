//! Lines with a length: `*2 CRLF` and `$3 CRLF`.

use bytes::{Buf as _, BytesMut};

use super::{Unusable, wrong};

/// The longest line with a length, its end included.
pub(super) const LENGTH: usize = 32;

/// What lengths are called in errors.
pub(super) const MULTIBULK: &str = "multibulk length";
pub(super) const BULK: &str = "bulk length";

/// Takes a line with a length: `None` when it has not come as a whole.
pub(super) fn length(
    buffer: &mut BytesMut,
    most: usize,
    what: &str,
) -> Result<Option<usize>, Unusable> {
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
