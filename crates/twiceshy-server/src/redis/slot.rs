//! The slot of a key.

/// Every key is in one of so many slots, and every slot has one master.
pub(super) const SLOTS: u16 = 1 << 14;

/// The slot of a key: a checksum of it, or of what its first pair of braces encloses, so that
/// `{user:1}:name` and `{user:1}:mail` share a slot.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

/// What the first `{` and the next `}` enclose, if that is anything.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let position = |bytes: &[u8], brace| bytes.iter().position(|&byte| byte == brace);
    let rest = &key[position(key, b'{')? + 1..];
    Some(&rest[..position(rest, b'}')?]).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM: the polynomial 0x1021, from 0, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    let next = |crc: u16, byte: &u8| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)];
    bytes.iter().fold(0, next)
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < u8::BITS {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/shield/cluster.rs` compares slots with those of a real cluster.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b""), 0);
        for (key, hashed) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{", "foo}bar{"),
        ] {
            assert_eq!(slot(key.as_bytes()), crc16(hashed.as_bytes()) % SLOTS, "{key}");
        }
    }
}
