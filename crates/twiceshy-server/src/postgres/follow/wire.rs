//! [`Walsender`]: a connection to PostgreSQL's log.
//!
//! `tokio-postgres` cannot open one, and the crates that can report one position for all three
//! of a standby's (written, flushed, applied). So the few messages are read here; requests and
//! SCRAM are those of `postgres-protocol`, which `tokio-postgres` is made of. The protocol is in
//! PostgreSQL's manual, "Streaming Replication Protocol".

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::lsn::Lsn;

/// A connection to the log of one database.
pub(in crate::postgres) struct Walsender {
    stream: Box<dyn Socket>,
    read: BytesMut,
    write: BytesMut,
    /// The server's process for this connection.
    pub(super) pid: i32,
}

/// What the log says next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A message of the output plugin, or a piece of the log itself. The log has been written up
    /// to `end`.
    Data { end: Lsn, data: Bytes },
    /// All transactions that were committed before this position have been sent.
    Alive { end: Lsn, wants_reply: bool },
}

/// How far a standby is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Positions {
    /// In memory: PostgreSQL's write and apply positions.
    pub(super) applied: Lsn,
    /// On disk.
    pub(super) flushed: Lsn,
}

/// A row of text columns.
pub(super) type Row = Vec<Option<String>>;

pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// Bytes to have room for before reading.
const READ: usize = 1 << 16;

/// The most bytes of one message: PostgreSQL's own limit for a row.
const LARGEST: usize = 1 << 30;

impl Walsender {
    /// Connects to the first of the hosts that answers and is no standby, under this name.
    pub(in crate::postgres) async fn connect(
        config: &Config,
        tls: &MakeRustlsConnect,
        name: &str,
    ) -> io::Result<Self> {
        let mut outcome = Err(io::Error::other("the address names no host"));
        for (index, host) in config.get_hosts().iter().enumerate() {
            let ports = config.get_ports();
            let port = *ports.get(index).or(ports.first()).unwrap_or(&5432);
            let stream = match host {
                Host::Unix(path) => unix(&path.join(format!(".s.PGSQL.{port}"))).await,
                Host::Tcp(name) => {
                    let address = config.get_hostaddrs().get(index);
                    let address = address.map_or(name.clone(), ToString::to_string);
                    tcp(&address, port, config.get_ssl_mode(), tls, name).await
                }
            };
            outcome = match stream {
                Ok(stream) => Self::to_primary(stream, config, name).await,
                Err(error) => Err(error),
            };
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn to_primary(stream: Box<dyn Socket>, config: &Config, name: &str) -> io::Result<Self> {
        let mut connection = Self::over(stream, config, name).await?;
        let standby = connection.query("SELECT pg_catalog.pg_is_in_recovery()").await?;
        match standby.first().map_or(&[][..], |row| row) {
            [Some(standby)] if standby == "f" => Ok(connection),
            _ => Err(io::Error::other("this server is a standby")),
        }
    }

    /// What the server sends on a connection that streams already.
    #[cfg(test)]
    pub(super) fn streaming(stream: impl Socket + 'static) -> Self {
        Walsender {
            stream: Box::new(stream),
            read: BytesMut::new(),
            write: BytesMut::new(),
            pid: 0,
        }
    }

    async fn over(stream: Box<dyn Socket>, config: &Config, name: &str) -> io::Result<Self> {
        let (read, write) = (BytesMut::with_capacity(READ), BytesMut::new());
        let mut connection = Walsender { stream, read, write, pid: 0 };
        let user = config.get_user().unwrap_or("postgres");
        let parameters = [
            ("user", user),
            ("database", config.get_dbname().unwrap_or(user)),
            ("replication", "database"),
            ("application_name", name),
            ("client_encoding", "UTF8"),
            // The form of keys that are bytes.
            ("bytea_output", "hex"),
        ];
        frontend::startup_message(parameters, &mut connection.write)?;
        connection.send().await?;
        connection.log_in(user.as_bytes(), config.get_password().unwrap_or_default()).await?;
        Ok(connection)
    }

    async fn log_in(&mut self, user: &[u8], password: &[u8]) -> io::Result<()> {
        let mut scram = ScramSha256::new(password, ChannelBinding::unsupported());
        loop {
            let (tag, mut body) = self.message().await?;
            match tag {
                b'R' if body.len() >= 4 => match body.get_i32() {
                    AUTHENTICATED => (),
                    CLEARTEXT => frontend::password_message(password, &mut self.write)?,
                    MD5 if body.len() == 4 => {
                        let salt = [body[0], body[1], body[2], body[3]];
                        let hash = md5_hash(user, password, salt);
                        frontend::password_message(hash.as_bytes(), &mut self.write)?;
                    }
                    SASL => frontend::sasl_initial_response(
                        SCRAM_SHA_256,
                        scram.message(),
                        &mut self.write,
                    )?,
                    SASL_CONTINUE => {
                        scram.update(&body)?;
                        frontend::sasl_response(scram.message(), &mut self.write)?;
                    }
                    SASL_FINAL => scram.finish(&body)?,
                    other => {
                        return Err(io::Error::other(format!(
                            "PostgreSQL asks for a kind of login that is not supported here \
                             ({other}); use a password with scram-sha-256"
                        )));
                    }
                },
                b'K' if body.len() >= 4 => self.pid = body.get_i32(),
                b'Z' => return Ok(()),
                // Parameters.
                b'S' => (),
                _ => return Err(unexpected(tag)),
            }
            self.send().await?;
        }
    }

    /// The rows of a command.
    pub(super) async fn query(&mut self, command: &str) -> io::Result<Vec<Row>> {
        frontend::query(command, &mut self.write)?;
        self.send().await?;
        let mut rows = Vec::new();
        loop {
            match self.message().await? {
                (b'D', body) => rows.push(row(body).ok_or_else(|| unexpected(b'D'))?),
                (b'Z', _) => return Ok(rows),
                (b'T' | b'C' | b'I' | b'S', _) => (),
                (tag, _) => return Err(unexpected(tag)),
            }
        }
    }

    /// Begins to stream what START_REPLICATION is to send.
    pub(super) async fn start(&mut self, what: &str) -> io::Result<()> {
        frontend::query(&format!("START_REPLICATION {what}"), &mut self.write)?;
        self.send().await?;
        loop {
            match self.message().await? {
                (b'W', _) => return Ok(()),
                (b'S', _) => (),
                (tag, _) => return Err(unexpected(tag)),
            }
        }
    }

    /// What the log says next. It may be dropped while it waits: nothing is lost.
    pub(super) async fn next(&mut self) -> io::Result<Incoming> {
        match self.message().await? {
            (b'd', body) => incoming(body).ok_or_else(|| unexpected(b'd')),
            (b'c' | b'C' | b'Z', _) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "PostgreSQL ended the stream"))
            }
            (tag, _) => Err(unexpected(tag)),
        }
    }

    /// Whether [`Walsender::next`] would not have to wait.
    pub(super) fn has_next(&self) -> bool {
        length(&self.read).is_some_and(|length| self.read.len() > length)
    }

    /// Tells the server how far this standby is, and whether it is to say something.
    pub(super) async fn report(&mut self, positions: Positions, reply: bool) -> io::Result<()> {
        /// Seconds from 1970 to 2000, where PostgreSQL's clock begins.
        const EPOCH: u64 = 946_684_800;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = now.as_micros().saturating_sub(u128::from(EPOCH) * 1_000_000);
        let mut status = BytesMut::with_capacity(34);
        status.put_u8(b'r');
        status.put_u64(positions.applied.0);
        status.put_u64(positions.flushed.0);
        status.put_u64(positions.applied.0);
        status.put_u64(u64::try_from(now).unwrap_or(0));
        status.put_u8(reply.into());
        frontend::CopyData::new(status.freeze())?.write(&mut self.write);
        self.send().await
    }

    async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all_buf(&mut self.write).await?;
        self.stream.flush().await
    }

    /// The next message: its tag and its body. Notices are skipped, errors are returned.
    async fn message(&mut self) -> io::Result<(u8, Bytes)> {
        loop {
            while let Some(length) = length(&self.read) {
                if !(4..=LARGEST).contains(&length) {
                    return Err(unexpected(self.read[0]));
                }
                if self.read.len() <= length {
                    self.read.reserve(length + 1 - self.read.len());
                    break;
                }
                let mut message = self.read.split_to(length + 1).freeze();
                let tag = message.get_u8();
                message.advance(4);
                match tag {
                    b'N' => (),
                    b'E' => return Err(told(&message)),
                    tag => return Ok((tag, message)),
                }
            }
            self.read.reserve(READ);
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Kinds of `AuthenticationRequest`.
const AUTHENTICATED: i32 = 0;
const CLEARTEXT: i32 = 3;
const MD5: i32 = 5;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// What a message's length says, which does not count its tag.
fn length(buffer: &[u8]) -> Option<usize> {
    let length = buffer.get(1..5)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

fn incoming(mut body: Bytes) -> Option<Incoming> {
    /// Start, end and time.
    const HEAD: usize = 24;
    match body.try_get_u8().ok()? {
        b'w' if body.len() >= HEAD => {
            let data = body.split_off(HEAD);
            body.advance(8);
            Some(Incoming::Data { end: Lsn(body.get_u64()), data })
        }
        b'k' if body.len() == 17 => {
            let end = Lsn(body.get_u64());
            Some(Incoming::Alive { end, wants_reply: body[8] != 0 })
        }
        _ => None,
    }
}

fn row(mut body: Bytes) -> Option<Row> {
    let columns = body.try_get_u16().ok()?;
    let mut row = Vec::new();
    for _ in 0..columns {
        row.push(match usize::try_from(body.try_get_i32().ok()?) {
            Ok(length) if length <= body.len() => {
                Some(String::from_utf8(body.split_to(length).into()).ok()?)
            }
            Ok(_) => return None,
            // NULL
            Err(_) => None,
        });
    }
    Some(row)
}

/// An error of the server: its text, with its hint.
fn told(body: &[u8]) -> io::Error {
    let fields = body.split(|&byte| byte == 0).filter_map(|field| field.split_first());
    let mut text = String::new();
    for (kind, field) in fields {
        let field = String::from_utf8_lossy(field);
        match kind {
            b'M' => text.push_str(&field),
            b'H' => text.push_str(&format!(" ({field})")),
            _ => (),
        }
    }
    io::Error::other(text)
}

fn unexpected(tag: u8) -> io::Error {
    let text = format!("PostgreSQL sent a message that does not belong here ({:?})", tag as char);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

async fn unix(path: &std::path::Path) -> io::Result<Box<dyn Socket>> {
    Ok(Box::new(UnixStream::connect(path).await?))
}

/// Connects, with TLS if that is asked for, or offered and not refused.
async fn tcp(
    address: &str,
    port: u16,
    mode: SslMode,
    tls: &MakeRustlsConnect,
    name: &str,
) -> io::Result<Box<dyn Socket>> {
    let mut stream = TcpStream::connect((address, port)).await?;
    stream.set_nodelay(true)?;
    if mode == SslMode::Disable {
        return Ok(Box::new(stream));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    if stream.read_u8().await? != b'S' {
        return match mode {
            SslMode::Prefer => Ok(Box::new(stream)),
            _ => Err(io::Error::other("the server does not offer TLS")),
        };
    }
    let mut tls = tls.clone();
    let tls = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut tls, name);
    let tls = tls.map_err(io::Error::other)?;
    Ok(Box::new(tls.connect(stream).await.map_err(io::Error::other)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_or_refused() {
        let mut alive = vec![b'k'];
        alive.extend(0x16_b374_d848_u64.to_be_bytes());
        alive.extend([0; 8]);
        alive.push(1);
        let end = Lsn(0x16_b374_d848);
        assert_eq!(
            incoming(alive.clone().into()),
            Some(Incoming::Alive { end, wants_reply: true })
        );
        let mut data = vec![b'w'];
        data.extend([0; 8]);
        data.extend(end.0.to_be_bytes());
        data.extend([0; 8]);
        data.extend(b"payload");
        let expected = Incoming::Data { end, data: "payload".into() };
        assert_eq!(incoming(data.clone().into()), Some(expected));
        for cut in [&alive[..17], &data[..24], b"", b"x"] {
            assert_eq!(incoming(Bytes::copy_from_slice(cut)), None);
        }
        let mut columns = vec![0, 2, 0, 0, 0, 1, b'a'];
        columns.extend((-1_i32).to_be_bytes());
        assert_eq!(row(columns.clone().into()), Some(vec![Some("a".into()), None]));
        for cut in 0..columns.len() {
            assert_eq!(row(Bytes::copy_from_slice(&columns[..cut])), None, "{cut}");
        }
        let error = told(b"SERROR\0C42704\0Mno such slot\0Hmake one\0\0");
        assert_eq!(error.to_string(), "no such slot (make one)");
    }
}
