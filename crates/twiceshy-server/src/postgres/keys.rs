//! [`KeyType`]: which columns can be keys, and the one form of each key.

use std::borrow::Cow;

use bytes::Bytes;
use tokio_postgres::types::Type;

/// The types of key columns that we know to compare as PostgreSQL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyType {
    /// `text` and `varchar`: UTF-8, equal if the bytes are.
    Text,
    /// `bytea`: any bytes.
    Bytes,
    /// `uuid`: lower case with hyphens.
    Uuid,
    /// `smallint`, `integer`, `bigint`: in decimal.
    Integer,
}

impl KeyType {
    /// That of a column's type; `None` for others.
    pub(super) fn of(oid: u32) -> Option<Self> {
        Some(match Type::from_oid(oid)? {
            Type::TEXT | Type::VARCHAR => KeyType::Text,
            Type::BYTEA => KeyType::Bytes,
            Type::UUID => KeyType::Uuid,
            Type::INT2 | Type::INT4 | Type::INT8 => KeyType::Integer,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            KeyType::Text => "text",
            KeyType::Bytes => "bytea",
            KeyType::Uuid => "uuid",
            KeyType::Integer => "integer",
        }
    }

    /// The column as it comes over the wire: as bytes, or as text.
    pub(super) fn selected(self, column: &str) -> String {
        match self {
            KeyType::Bytes => column.to_string(),
            KeyType::Text | KeyType::Uuid | KeyType::Integer => format!("{column}::text"),
        }
    }

    /// The SQL of many keys, which go as text if they are not bytes.
    pub(super) fn array(self) -> &'static str {
        match self {
            KeyType::Text => "$1::text[]",
            KeyType::Bytes => "$1::bytea[]",
            KeyType::Uuid => "$1::text[]::uuid[]",
            KeyType::Integer => "$1::text[]::int8[]",
        }
    }

    /// A key that PostgreSQL has written as text, in its one form; `None` if it is not such a text.
    pub(super) fn read_text(self, text: &Bytes) -> Option<Bytes> {
        match self {
            KeyType::Bytes => hexadecimal(text.strip_prefix(b"\\x")?),
            KeyType::Text | KeyType::Uuid | KeyType::Integer => {
                self.canonical(text).map(Cow::into_owned)
            }
        }
    }

    /// The one form of a key, which is how PostgreSQL writes it; `None` if no column
    /// of this type can have it.
    pub(super) fn canonical(self, key: &Bytes) -> Option<Cow<'_, Bytes>> {
        match self {
            KeyType::Bytes => Some(Cow::Borrowed(key)),
            KeyType::Text => {
                let fits = std::str::from_utf8(key).is_ok() && !key.contains(&0);
                fits.then_some(Cow::Borrowed(key))
            }
            KeyType::Uuid => uuid(key).map(Cow::Owned),
            KeyType::Integer => {
                let number: i64 = std::str::from_utf8(key).ok()?.parse().ok()?;
                Some(Cow::Owned(number.to_string().into()))
            }
        }
    }
}

fn hexadecimal(digits: &[u8]) -> Option<Bytes> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// A UUID as PostgreSQL reads it: 32 hexadecimal digits, a hyphen after any four of
/// them, perhaps in braces.
fn uuid(key: &[u8]) -> Option<Bytes> {
    let inside = match key {
        [b'{', inside @ .., b'}'] => inside,
        key => key,
    };
    let (mut digits, mut after_hyphen) = (Vec::with_capacity(32), true);
    for &byte in inside {
        match byte {
            b'-' if digits.len() % 4 == 0 && !after_hyphen => after_hyphen = true,
            _ if byte.is_ascii_hexdigit() => {
                digits.push(byte.to_ascii_lowercase());
                after_hyphen = false;
            }
            _ => return None,
        }
    }
    if digits.len() != 32 || after_hyphen {
        return None;
    }
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Some(parts.join(&b'-').into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_postgresql_writes_are_read() {
        for (kind, text, key) in [
            (KeyType::Bytes, &b"\\x6100ff"[..], Some(&b"a\0\xff"[..])),
            (KeyType::Bytes, b"\\x", Some(b"")),
            (KeyType::Bytes, b"\\x6", None),
            (KeyType::Bytes, b"\\x6g", None),
            (KeyType::Bytes, b"61", None),
            (KeyType::Integer, b"-7", Some(b"-7")),
            (KeyType::Text, "größe".as_bytes(), Some("größe".as_bytes())),
        ] {
            let found = kind.read_text(&Bytes::from_static(text));
            assert_eq!(found.as_deref(), key, "{kind:?} {text:?}");
        }
    }

    #[test]
    fn one_form_for_each_key() {
        let uuid = Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        for (kind, key, form) in [
            (KeyType::Text, &b"ada"[..], Some("ada")),
            (KeyType::Text, "größe".as_bytes(), Some("größe")),
            (KeyType::Text, b"", Some("")),
            (KeyType::Text, b"a\0b", None),
            (KeyType::Text, b"\xff", None),
            (KeyType::Bytes, b"a\0b", Some("a\0b")),
            (KeyType::Uuid, b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", uuid),
            (KeyType::Uuid, b"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", uuid),
            (KeyType::Uuid, b"{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}", uuid),
            (KeyType::Uuid, b"a0eebc999c0b4ef8bb6d6bb9bd380a11", uuid),
            (KeyType::Uuid, b"a0eebc999c0b4ef8bb6d6bb9bd380a1", None),
            (KeyType::Uuid, b"a0eebc99--9c0b4ef8bb6d6bb9bd380a11", None),
            (KeyType::Uuid, b"a-0eebc999c0b4ef8bb6d6bb9bd380a11", None),
            (KeyType::Uuid, b"a0eebc999c0b4ef8bb6d6bb9bd380a11-", None),
            (KeyType::Uuid, b"{a0eebc999c0b4ef8bb6d6bb9bd380a11", None),
            (KeyType::Uuid, b"", None),
            (KeyType::Integer, b"7", Some("7")),
            (KeyType::Integer, b"-007", Some("-7")),
            (KeyType::Integer, b"+7", Some("7")),
            (KeyType::Integer, b"-9223372036854775808", Some("-9223372036854775808")),
            (KeyType::Integer, b"9223372036854775808", None),
            (KeyType::Integer, b"7.0", None),
            (KeyType::Integer, b"", None),
        ] {
            let key = Bytes::from_static(key);
            let found = kind.canonical(&key);
            assert_eq!(
                found.as_deref().map(|found| &found[..]),
                form.map(str::as_bytes),
                "{kind:?} {key:?}"
            );
        }
    }
}
