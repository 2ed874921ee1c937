//! Messages of PostgreSQL's output plugin `pgoutput`, version 1, as far as keys need them. They
//! are in PostgreSQL's manual, "Logical Replication Message Formats".

use bytes::{Buf as _, Bytes};

use super::lsn::Lsn;

/// What happened in the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Begin {
        xid: u32,
    },
    Commit {
        end: Lsn,
        /// In microseconds, by the server's clock.
        time: u64,
    },
    Relation(Relation),
    Insert {
        table: u32,
        new: Tuple,
    },
    Update {
        table: u32,
        old: Option<Tuple>,
        new: Tuple,
    },
    Delete {
        table: u32,
        old: Tuple,
    },
    Truncate {
        tables: Vec<u32>,
    },
    /// Nothing about rows.
    Other,
}

/// A table as the messages that follow describe its rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Relation {
    pub(super) table: u32,
    /// Their names and types.
    pub(super) columns: Vec<(String, u32)>,
}

/// The columns of a row.
pub(super) type Tuple = Vec<Column>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Null,
    /// A large value that an update left as it was.
    Unchanged,
    Text(Bytes),
}

/// Reads a message; `None` if it is not one.
pub(super) fn read(mut message: Bytes) -> Option<Message> {
    let body = &mut message;
    Some(match body.try_get_u8().ok()? {
        b'B' => {
            // The position and the time of its commit.
            skip(body, 16)?;
            Message::Begin { xid: body.try_get_u32().ok()? }
        }
        b'C' => {
            // Flags, and the position of its commit.
            skip(body, 9)?;
            let end = Lsn(body.try_get_u64().ok()?);
            Message::Commit { end, time: body.try_get_u64().ok()? }
        }
        b'R' => Message::Relation(relation(body)?),
        b'I' => {
            let table = body.try_get_u32().ok()?;
            expect(body, b'N')?;
            Message::Insert { table, new: tuple(body)? }
        }
        b'U' => {
            let table = body.try_get_u32().ok()?;
            let old = match *body.first()? {
                b'K' | b'O' => {
                    body.advance(1);
                    Some(tuple(body)?)
                }
                _ => None,
            };
            expect(body, b'N')?;
            Message::Update { table, old, new: tuple(body)? }
        }
        b'D' => {
            let table = body.try_get_u32().ok()?;
            matches!(body.try_get_u8().ok()?, b'K' | b'O').then_some(())?;
            Message::Delete { table, old: tuple(body)? }
        }
        b'T' => {
            let count = body.try_get_u32().ok()?;
            // Flags: cascade, restart identity.
            skip(body, 1)?;
            let tables = (0..count).map(|_| body.try_get_u32().ok()).collect::<Option<_>>()?;
            Message::Truncate { tables }
        }
        // Origin, type, message.
        b'O' | b'Y' | b'M' => Message::Other,
        _ => return None,
    })
}

fn relation(body: &mut Bytes) -> Option<Relation> {
    let table = body.try_get_u32().ok()?;
    // Schema, name, replica identity.
    text(body)?;
    text(body)?;
    skip(body, 1)?;
    let count = body.try_get_u16().ok()?;
    let mut columns = Vec::new();
    for _ in 0..count {
        // Whether it is part of the replica identity.
        skip(body, 1)?;
        let name = text(body)?;
        let kind = body.try_get_u32().ok()?;
        // The type's modifier.
        skip(body, 4)?;
        columns.push((name, kind));
    }
    Some(Relation { table, columns })
}

fn tuple(body: &mut Bytes) -> Option<Tuple> {
    let count = body.try_get_u16().ok()?;
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(match body.try_get_u8().ok()? {
            b'n' => Column::Null,
            b'u' => Column::Unchanged,
            b't' => {
                let length = usize::try_from(body.try_get_u32().ok()?).ok()?;
                (length <= body.len()).then(|| Column::Text(body.split_to(length)))?
            }
            _ => return None,
        });
    }
    Some(columns)
}

fn text(body: &mut Bytes) -> Option<String> {
    let end = body.iter().position(|&byte| byte == 0)?;
    let text = String::from_utf8(body.split_to(end).into()).ok()?;
    body.advance(1);
    Some(text)
}

fn skip(body: &mut Bytes, count: usize) -> Option<()> {
    (count <= body.len()).then(|| body.advance(count))
}

fn expect(body: &mut Bytes, byte: u8) -> Option<()> {
    (body.try_get_u8().ok()? == byte).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_tuple(texts: &[&str]) -> Vec<u8> {
        let mut bytes = (texts.len() as u16).to_be_bytes().to_vec();
        for text in texts {
            bytes.push(b't');
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    fn message(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn messages_are_read_whole_or_not_at_all() {
        let seven = 7_u32.to_be_bytes();
        let column = |text: &'static str| Column::Text(text.into());
        let (a, b) = (text_tuple(&["a"]), text_tuple(&["b"]));
        let position = 0x16_b374_d848_u64.to_be_bytes();
        let columns: &[u8] =
            b"\0\x02\x01id\0\0\0\0\x14\xff\xff\xff\xff\0key\0\0\0\0\x19\xff\xff\xff\xff";
        let relation = Relation { table: 7, columns: vec![("id".into(), 20), ("key".into(), 25)] };
        for (bytes, expected) in [
            (message(&[b"B", &[0; 16], &seven]), Message::Begin { xid: 7 }),
            (
                message(&[b"C", &[0; 9], &position, &position]),
                Message::Commit { end: Lsn(0x16_b374_d848), time: 0x16_b374_d848 },
            ),
            (message(&[b"R", &seven, b"public\0users\0d", columns]), Message::Relation(relation)),
            (
                message(&[b"I", &seven, b"N", &a]),
                Message::Insert { table: 7, new: vec![column("a")] },
            ),
            (
                message(&[b"U", &seven, b"N", &a]),
                Message::Update { table: 7, old: None, new: vec![column("a")] },
            ),
            (
                message(&[b"U", &seven, b"K", &a, b"N", &b]),
                Message::Update { table: 7, old: Some(vec![column("a")]), new: vec![column("b")] },
            ),
            (
                message(&[b"D", &seven, b"O", &a]),
                Message::Delete { table: 7, old: vec![column("a")] },
            ),
            (
                message(&[b"I", &seven, b"N", b"\0\x02nu"]),
                Message::Insert { table: 7, new: vec![Column::Null, Column::Unchanged] },
            ),
            (
                message(&[b"T", b"\0\0\0\x02\0", &seven, &seven]),
                Message::Truncate { tables: vec![7, 7] },
            ),
        ] {
            assert_eq!(read(bytes.clone().into()), Some(expected));
            for cut in 0..bytes.len() {
                assert_eq!(read(Bytes::copy_from_slice(&bytes[..cut])), None, "{cut}");
            }
        }
        assert_eq!(read("Many message".into()), Some(Message::Other));
        assert_eq!(read("X".into()), None);
    }
}
