//! Serde support: a filter is the bytes of `to_bytes`, secret included.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Filter, Frozen};

/// Bytes in any form that a format may have.
struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a twiceshy filter")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<u8>, A::Error> {
        // The size hint is not trusted.
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_byte_buf(Bytes)?;
        Self::from_bytes(&bytes).map_err(D::Error::custom)
    }
}

impl Serialize for Frozen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Frozen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_byte_buf(Bytes)?;
        Self::from_bytes(&bytes).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{BytesDeserializer, Error, SeqDeserializer};

    use super::*;

    /// Formats have bytes as such, or as a sequence of numbers.
    #[test]
    fn bytes_come_in_any_form() {
        let mut filter = Filter::builder().capacity(10).build().expect("a small filter");
        filter.insert("stored");
        let bytes = filter.to_bytes();
        let as_such = Filter::deserialize(BytesDeserializer::<Error>::new(&bytes));
        assert!(as_such.expect("its own bytes").to_bytes() == bytes);
        let numbers = SeqDeserializer::<_, Error>::new(bytes.iter().copied());
        assert!(Filter::deserialize(numbers).expect("its own bytes").to_bytes() == bytes);
        let owned: Result<_, Error> = Bytes.visit_byte_buf(bytes.clone());
        assert!(owned.expect("any bytes") == bytes);
        let damaged = Filter::deserialize(BytesDeserializer::<Error>::new(&bytes[1..]));
        assert!(damaged.is_err());
        let number = Filter::deserialize(serde::de::value::U64Deserializer::<Error>::new(1));
        let error = number.map(|_| ()).expect_err("a number").to_string();
        assert!(error.contains("the bytes of a twiceshy filter"), "{error}");
    }
}
