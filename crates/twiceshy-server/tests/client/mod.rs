//! A client of the Redis protocol that has nothing in common with the server.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `$-1`, `*-1` or `_`.
    Nil,
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Value {
        Value::Bulk(bytes.as_ref().to_vec())
    }

    pub fn ok() -> Value {
        Value::Simple("OK".into())
    }

    pub fn error(&self) -> &str {
        match self {
            Value::Error(text) => text,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    pub fn integer(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            other => panic!("expected a number, got {other:?}"),
        }
    }

    /// A field of a map, or of an array of names and values.
    pub fn field(&self, name: &str) -> &Value {
        let name = Value::bulk(name);
        let found = match self {
            Value::Map(entries) => entries.iter().find(|entry| entry.0 == name).map(|e| &e.1),
            Value::Array(items) => items.chunks(2).find(|pair| pair[0] == name).map(|p| &p[1]),
            _ => None,
        };
        found.unwrap_or_else(|| panic!("no {name:?} in {self:?}"))
    }
}

/// A connection. Nothing waits longer than a minute.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Self::try_connect(address).expect("the server listens")
    }

    pub fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request and waits for its reply.
    pub fn try_call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Value> {
        self.send(&request(words))?;
        self.receive()
    }

    /// [`Client::try_call`] where nothing can go wrong.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Value {
        self.try_call(words).expect("a reply")
    }

    /// A request whose words are separated by spaces.
    pub fn line(&mut self, words: &str) -> Value {
        self.call(&words.split(' ').collect::<Vec<_>>())
    }

    /// Sends requests with one write and waits for their replies.
    pub fn pipeline(&mut self, requests: &[Vec<Vec<u8>>]) -> io::Result<Vec<Value>> {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| request(words)).collect();
        self.send(&bytes)?;
        requests.iter().map(|_| self.receive()).collect()
    }

    /// The next reply; an error when the connection has ended.
    pub fn receive(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("half a line: {line:?}"));
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap_or_else(|_| panic!("no number: {line:?}"));
        let count = || usize::try_from(number()).ok();
        Ok(match kind {
            "+" => Value::Simple(rest.into()),
            "-" => Value::Error(rest.into()),
            ":" => Value::Integer(number()),
            "_" => Value::Nil,
            "$" => match count() {
                None => Value::Nil,
                Some(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes)?;
                    assert!(bytes.ends_with(b"\r\n"), "a bulk string ends with its line");
                    bytes.truncate(length);
                    Value::Bulk(bytes)
                }
            },
            "*" => match count() {
                None => Value::Nil,
                Some(length) => {
                    Value::Array((0..length).map(|_| self.receive()).collect::<io::Result<_>>()?)
                }
            },
            "%" => {
                let length = count().expect("a map has a length");
                let entry = |_| Ok((self.receive()?, self.receive()?));
                Value::Map((0..length).map(entry).collect::<io::Result<_>>()?)
            }
            _ => panic!("no reply begins like {line:?}"),
        })
    }
}

/// The bytes of a request.
pub fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}
