//! Commands about the connection: authentication, names, protocol versions.

use bytes::Bytes;
use tokio::time::sleep;

use crate::command::{self, COMMANDS, Connection, Entry, wrong_arity};
use crate::guesses;
use crate::reply::{Reply, Version};
use crate::session::{LOOKUPS, NoRoom, Session};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The only user, as in Redis without ACLs.
const USER: &[u8] = b"default";

/// The most bytes of a client's name.
const NAME: usize = 256;

/// The most bytes of a request that an error repeats.
const REPEATED: usize = 128;

impl Session<'_> {
    /// Executes a command that concerns the connection.
    pub(crate) async fn connection(&mut self, command: &Connection) -> Result<(), NoRoom> {
        let done = match command {
            Connection::Ping(None) => Ok(Reply::Simple("PONG".into())),
            Connection::Ping(Some(said)) | Connection::Echo(said) => {
                self.make_room(self.replies.len(), said.len())?;
                // Not a part of the request, which would stay in memory with it.
                Ok(Reply::Bulk(Bytes::copy_from_slice(said)))
            }
            Connection::Hello(words) => self.hello(words).await,
            Connection::Auth(words) => self.auth(words).await,
            Connection::Client(words) => self.client(words),
            Connection::Command(words) => return self.commands(words).await,
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
        self.reply(done.unwrap_or_else(|error| error));
        Ok(())
    }

    async fn auth(&mut self, words: &[Bytes]) -> Result<Reply, Reply> {
        match words {
            [_] if self.server.password.is_none() => Err(Reply::error(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            )),
            [password] => self.log_in(USER, password).await,
            [user, password] => self.log_in(user, password).await,
            _ => Err(Reply::error("syntax error")),
        }
    }

    /// A wrong password is answered late, and after several the connection is closed. See
    /// [`Guesses`](crate::guesses::Guesses) for guesses on many connections.
    async fn log_in(&mut self, user: &[u8], password: &[u8]) -> Result<Reply, Reply> {
        let server = self.server;
        let Some(right) = &server.password else {
            // Without a password, any password of the default user is accepted.
            return if user == USER { Ok(Reply::OK) } else { Err(wrong_password()) };
        };
        let guess = server.guesses.pay(self.address).map_err(|wait| {
            self.closing = Some("too many wrong passwords");
            let seconds = wait.as_secs() + 1;
            Reply::error(format!(
                "too many wrong passwords from your address; try again in {seconds} s"
            ))
        })?;
        if !guess.wait.is_zero() {
            sleep(guess.wait).await;
        }
        if user == USER && right.is(password) {
            server.guesses.pay_back(&guess);
            self.authenticated = true;
            return Ok(Reply::OK);
        }
        if let Some(times) = server.log.wrong_password.count() {
            tracing::warn!(id = self.id, address = %self.address, times, "a wrong password");
        }
        sleep(guesses::PRICE).await;
        self.wrong_guesses += 1;
        if self.wrong_guesses >= guesses::TRIES {
            self.closing = Some("too many wrong passwords");
        }
        Err(wrong_password())
    }

    /// HELLO [version [AUTH user password] [SETNAME name]]
    async fn hello(&mut self, words: &[Bytes]) -> Result<Reply, Reply> {
        let (version, mut options) = match words.split_first() {
            None => (self.replies.version, words),
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
                    self.log_in(user, password).await?;
                    rest
                }
                [_, wanted, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    name = Some(client_name(wanted)?);
                    rest
                }
                _ => {
                    let option = String::from_utf8_lossy(&option[..option.len().min(REPEATED)]);
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
        self.replies.version = version;
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
        match (&lower(subcommand)[..], arguments) {
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
                let attribute =
                    String::from_utf8_lossy(&attribute[..attribute.len().min(REPEATED)]);
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

/// A subcommand in lower case, as much of it as any has.
fn lower(subcommand: &[u8]) -> Vec<u8> {
    subcommand[..subcommand.len().min(REPEATED)].to_ascii_lowercase()
}

fn unknown_subcommand(subcommand: &[u8], command: &str) -> Reply {
    let subcommand = String::from_utf8_lossy(&subcommand[..subcommand.len().min(REPEATED)]);
    Reply::error(format!("unknown subcommand '{subcommand}'. Try {command} HELP."))
}

fn wrong_password() -> Reply {
    Reply::Error(WRONG_PASSWORD.into())
}

/// A name that a list of clients can show.
fn client_name(name: &Bytes) -> Result<Bytes, Reply> {
    if name.len() > NAME {
        return Err(Reply::error(format!("Client names have at most {NAME} bytes.")));
    }
    if name.iter().all(u8::is_ascii_graphic) {
        // Not a part of the request, which would stay in memory with it.
        return Ok(Bytes::copy_from_slice(name));
    }
    Err(Reply::error("Client names cannot contain spaces, newlines or special characters."))
}

impl Session<'_> {
    /// COMMAND, as far as clients ask for it.
    async fn commands(&mut self, words: &[Bytes]) -> Result<(), NoRoom> {
        let Some((subcommand, names)) = words.split_first() else {
            self.reply(Reply::Array(COMMANDS.iter().map(described).collect()));
            return Ok(());
        };
        let reply = match &lower(subcommand)[..] {
            b"count" => Reply::count(COMMANDS.len()),
            b"list" => Reply::Array(COMMANDS.iter().map(|entry| Reply::text(entry.name)).collect()),
            b"info" => return self.command_info(names).await,
            b"docs" => self.command_docs(names).await,
            _ => unknown_subcommand(subcommand, "COMMAND"),
        };
        self.reply(reply);
        Ok(())
    }

    /// There may be a million names, so this takes turns with other connections and limits the
    /// reply.
    async fn command_info(&mut self, names: &[Bytes]) -> Result<(), NoRoom> {
        let start = self.replies.mark();
        self.replies.array(names.len());
        for names in names.chunks(LOOKUPS) {
            for name in names {
                let described = command::find(name).map_or(Reply::Nil, described);
                self.replies.reply(described);
            }
            self.breathe(LOOKUPS).await;
            if let Err(no_room) = self.make_room(start.len(), 0) {
                self.replies.take_back(start);
                return Err(no_room);
            }
        }
        self.answered += 1;
        Ok(())
    }

    async fn command_docs(&mut self, names: &[Bytes]) -> Reply {
        let mut asked = [names.is_empty(); COMMANDS.len()];
        for names in names.chunks(LOOKUPS) {
            for name in names {
                if let Some(index) = command::position(name) {
                    asked[index] = true;
                }
            }
            self.breathe(LOOKUPS).await;
        }
        let documented = |entry: &Entry| {
            let summary = ("summary".into(), Reply::text(entry.summary));
            (entry.name.into(), Reply::Map(vec![summary]))
        };
        let asked = COMMANDS.iter().zip(asked).filter(|(_, asked)| *asked);
        Reply::Map(asked.map(|(entry, _)| documented(entry)).collect())
    }
}

/// A command as COMMAND lists it: name, arity, flags, where its keys are, and
/// four lists that are empty here.
fn described(entry: &Entry) -> Reply {
    let (first, last, step) = entry.keys;
    let mut fields = vec![
        Reply::text(entry.name),
        Reply::Integer(entry.arity),
        Reply::Array(vec![Reply::Simple(entry.flag.into())]),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
    ];
    fields.extend((0..4).map(|_| Reply::Array(vec![])));
    Reply::Array(fields)
}
