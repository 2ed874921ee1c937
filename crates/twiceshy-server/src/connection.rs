//! Commands that concern the connection: who is there, in which protocol.

use bytes::Bytes;

use crate::command::{self, COMMANDS, Connection, Entry, wrong_arity};
use crate::reply::{Reply, Version};
use crate::session::Session;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The one user there is, as in a Redis without others.
const USER: &[u8] = b"default";

impl Session<'_> {
    /// Does a command that concerns the connection.
    pub(crate) fn connection(&mut self, command: &Connection) -> Reply {
        let done = match command {
            Connection::Ping(None) => Ok(Reply::Simple("PONG")),
            Connection::Ping(Some(said)) | Connection::Echo(said) => Ok(Reply::Bulk(said.clone())),
            Connection::Hello(words) => self.hello(words),
            Connection::Auth(words) => self.auth(words),
            Connection::Client(words) => self.client(words),
            Connection::Command(words) => commands(words),
            Connection::Select(index) => match &index[..] {
                b"0" => Ok(Reply::OK),
                index if index.iter().all(u8::is_ascii_digit) => {
                    Err(Reply::error("DB index is out of range"))
                }
                _ => Err(Reply::error("value is not an integer or out of range")),
            },
            Connection::Quit => {
                self.closing = Some("by its QUIT");
                Ok(Reply::OK)
            }
        };
        done.unwrap_or_else(|error| error)
    }

    fn auth(&mut self, words: &[Bytes]) -> Result<Reply, Reply> {
        match words {
            [_] if self.server.password.is_none() => Err(Reply::error(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            )),
            [password] => self.log_in(USER, password),
            [user, password] => self.log_in(user, password),
            _ => Err(Reply::error("syntax error")),
        }
    }

    fn log_in(&mut self, user: &[u8], password: &[u8]) -> Result<Reply, Reply> {
        // Whatever the default user says is right where no password is needed.
        let right = self.server.password.as_ref().is_none_or(|right| right.is(password));
        if user != USER || !right {
            tracing::warn!(id = self.id, "a wrong password");
            return Err(Reply::Error(WRONG_PASSWORD.into()));
        }
        self.authenticated = true;
        Ok(Reply::OK)
    }

    /// HELLO [version [AUTH user password] [SETNAME name]]
    fn hello(&mut self, words: &[Bytes]) -> Result<Reply, Reply> {
        let (version, mut options) = match words.split_first() {
            None => (self.version, words),
            Some((version, options)) => match &version[..] {
                b"2" => (Version::Resp2, options),
                b"3" => (Version::Resp3, options),
                number if number.iter().all(u8::is_ascii_digit) => {
                    return Err(Reply::Error("NOPROTO unsupported protocol version".into()));
                }
                _ => {
                    return Err(Reply::error("Protocol version is not an integer or out of range"));
                }
            },
        };
        let mut name = None;
        while let Some(option) = options.first() {
            options = match options {
                [_, user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    self.log_in(user, password)?;
                    rest
                }
                [_, wanted, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    name = Some(client_name(wanted)?);
                    rest
                }
                _ => {
                    let option = String::from_utf8_lossy(&option[..option.len().min(128)]);
                    return Err(Reply::error(format!("Syntax error in HELLO option '{option}'")));
                }
            };
        }
        if !self.authenticated {
            return Err(Reply::Error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                 the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                 client and select the RESP protocol version at the same time"
                    .into(),
            ));
        }
        self.version = version;
        self.name = name.unwrap_or_else(|| self.name.clone());
        let proto = if version == Version::Resp3 { 3 } else { 2 };
        Ok(Reply::Map(vec![
            ("server".into(), Reply::text("twiceshy")),
            ("version".into(), Reply::text(env!("CARGO_PKG_VERSION"))),
            ("proto".into(), Reply::Integer(proto)),
            ("id".into(), Reply::count(self.id)),
            ("mode".into(), Reply::text("standalone")),
            ("role".into(), Reply::text("master")),
            ("modules".into(), Reply::Array(vec![])),
        ]))
    }

    fn client(&mut self, words: &[Bytes]) -> Result<Reply, Reply> {
        let (subcommand, arguments) = words.split_first().expect("the arity is -2");
        match (&subcommand.to_ascii_lowercase()[..], arguments) {
            (b"setname", [name]) => {
                self.name = client_name(name)?;
                Ok(Reply::OK)
            }
            (b"getname", []) if self.name.is_empty() => Ok(Reply::Nil),
            (b"getname", []) => Ok(Reply::Bulk(self.name.clone())),
            (b"id", []) => Ok(Reply::count(self.id)),
            (b"setinfo", [attribute, _]) => {
                let known: [&[u8]; 2] = [b"lib-name", b"lib-ver"];
                if known.iter().any(|known| attribute.eq_ignore_ascii_case(known)) {
                    return Ok(Reply::OK);
                }
                let attribute = String::from_utf8_lossy(attribute);
                Err(Reply::error(format!("Unrecognized option '{attribute}'")))
            }
            (known @ (b"setname" | b"getname" | b"id" | b"setinfo"), _) => {
                let known = String::from_utf8_lossy(known);
                Err(wrong_arity(&format!("client|{known}")))
            }
            _ => Err(unknown_subcommand(subcommand, "CLIENT")),
        }
    }
}

fn unknown_subcommand(subcommand: &[u8], command: &str) -> Reply {
    let subcommand = String::from_utf8_lossy(&subcommand[..subcommand.len().min(128)]);
    Reply::error(format!("unknown subcommand '{subcommand}'. Try {command} HELP."))
}

/// A name that a list of clients can show.
fn client_name(name: &Bytes) -> Result<Bytes, Reply> {
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(name.clone());
    }
    Err(Reply::error("Client names cannot contain spaces, newlines or special characters."))
}

/// COMMAND, as far as clients ask for it.
fn commands(words: &[Bytes]) -> Result<Reply, Reply> {
    let Some((subcommand, names)) = words.split_first() else {
        return Ok(Reply::Array(COMMANDS.iter().map(described).collect()));
    };
    match &subcommand.to_ascii_lowercase()[..] {
        b"count" => Ok(Reply::count(COMMANDS.len())),
        b"list" => Ok(Reply::Array(COMMANDS.iter().map(|entry| Reply::text(entry.name)).collect())),
        b"info" => {
            let described = |name: &Bytes| command::find(name).map_or(Reply::Nil, described);
            Ok(Reply::Array(names.iter().map(described).collect()))
        }
        b"docs" => {
            let asked = |entry: &&Entry| {
                let name = entry.name.as_bytes();
                names.is_empty() || names.iter().any(|asked| asked.eq_ignore_ascii_case(name))
            };
            Ok(Reply::Map(
                COMMANDS
                    .iter()
                    .filter(asked)
                    .map(|entry| {
                        let summary = ("summary".into(), Reply::text(entry.summary));
                        (entry.name.into(), Reply::Map(vec![summary]))
                    })
                    .collect(),
            ))
        }
        _ => Err(unknown_subcommand(subcommand, "COMMAND")),
    }
}

/// A command as COMMAND lists it: name, arity, flags, where its keys are, and
/// four lists that are empty here.
fn described(entry: &Entry) -> Reply {
    let (first, last, step) = entry.keys;
    let mut fields = vec![
        Reply::text(entry.name),
        Reply::Integer(entry.arity),
        Reply::Array(vec![Reply::Simple(entry.flag)]),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
    ];
    fields.extend((0..4).map(|_| Reply::Array(vec![])));
    Reply::Array(fields)
}
