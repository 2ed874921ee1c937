//! Settings of `serve` from a file and from the environment.
//!
//! Each becomes a flag behind those of the command line, unless that has it already, so that there
//! is one list of flags, one parser and one set of messages. The environment precedes the file.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::Resettable::Reset;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::de::{DeTable, DeValue};

use super::listen::PASSWORD;

/// The verb whose flags these are.
const VERB: &str = "serve";

/// What the environment may say; also that of the file itself.
const PREFIX: &str = "TWICESHY_";

/// Flags that are about the others, and have no key in the file.
const NOT_IN_FILES: [&str; 3] = ["config", "check-config", "help"];

/// The flag that holds the password, but for the environment's own.
const PASSWORD_FILE: &str = "password-file";

/// Where a setting was made, if not on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In a line of a file.
    File(PathBuf, usize),
    /// In a variable.
    Environment(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path, line) => write!(f, "{}:{line}", path.display()),
            Source::Environment(name) => write!(f, "{name} in the environment"),
        }
    }
}

/// A flag, or that it is not to be given.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Not,
    Bare,
    Value(OsString),
}

/// The command line, completed from the file and the environment.
pub struct Settings {
    arguments: Vec<OsString>,
    /// Of the flags that the command line does not have.
    sources: BTreeMap<String, Source>,
}

impl Settings {
    /// Completes a command line, if its verb is `serve`.
    ///
    /// # Errors
    /// A file that cannot be read, a key that is unknown, or a value that its flag refuses.
    pub fn read(command: &Command, arguments: Vec<OsString>) -> Result<Self, String> {
        Self::completed(command, arguments, &|name| env::var_os(name))
    }

    fn completed(
        command: &Command,
        arguments: Vec<OsString>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, String> {
        let mut settings = Settings { arguments, sources: BTreeMap::new() };
        // Whatever is wrong with them is said when all is parsed.
        let lenient = command.clone().ignore_errors(true);
        let Ok(matches) = lenient.try_get_matches_from(&settings.arguments) else {
            return Ok(settings);
        };
        let Some((VERB, typed)) = matches.subcommand() else { return Ok(settings) };
        let mut command = command.clone();
        command.build();
        let serve = command.find_subcommand(VERB).expect("it is the verb");

        let mut found = BTreeMap::new();
        let file = typed.get_one::<PathBuf>("config").cloned();
        let file = file.or_else(|| environment(&variable("config")).map(PathBuf::from));
        if let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            found = of_file(serve, &path, &text)?;
        }
        if environment(PASSWORD).is_some() {
            found.remove(PASSWORD_FILE);
        }
        found.extend(of_environment(serve, environment)?);
        for (flag, (source, given)) in found {
            let arg = flags(serve).find(|arg| arg.get_long() == Some(&flag)).expect("it is known");
            if typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                continue;
            }
            if let Some(token) = token(&flag, &given) {
                settings.arguments.push(token);
            }
            settings.sources.insert(flag, source);
        }
        Ok(settings)
    }

    /// Parses all of it; if that fails, ends the process as clap does.
    pub fn parse(&self, command: &mut Command) -> ArgMatches {
        match command.try_get_matches_from_mut(&self.arguments) {
            Ok(matches) => matches,
            Err(error) => {
                let _ = error.print();
                for note in self.notes(&error) {
                    eprintln!("note: {note}");
                }
                std::process::exit(error.exit_code());
            }
        }
    }

    /// Where the flags of an error are from, if the reader has not typed them.
    fn notes(&self, error: &clap::Error) -> Vec<String> {
        let named = error.context().filter_map(|(kind, value)| match (kind, value) {
            (ContextKind::InvalidArg | ContextKind::PriorArg, ContextValue::String(name)) => {
                Some(vec![name.as_str()])
            }
            (ContextKind::InvalidArg | ContextKind::PriorArg, ContextValue::Strings(names)) => {
                Some(names.iter().map(String::as_str).collect())
            }
            _ => None,
        });
        let flags = named.flatten().filter_map(|usage| {
            let name = usage.strip_prefix("--")?;
            Some(name.split([' ', '=', '[']).next().unwrap_or(name))
        });
        let noted = flags.filter_map(|flag| {
            Some(match self.source(flag)? {
                Source::Environment(name) => {
                    format!("{name} in the environment sets --{flag}; to do without, unset {name}")
                }
                file @ Source::File(..) => format!("{file} sets --{flag}"),
            })
        });
        noted.collect()
    }

    /// Where a flag was set that is not on the command line.
    pub(super) fn source(&self, flag: &str) -> Option<&Source> {
        self.sources.get(flag)
    }
}

/// Variables that look like settings and are none.
pub(super) fn unknown_variables(serve: &Command) -> Vec<String> {
    let known = |name: &str| {
        name == PASSWORD
            || name == variable("config")
            || flags(serve).filter_map(Arg::get_long).any(|flag| variable(flag) == name)
    };
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<_> =
        names.filter(|name| name.starts_with(PREFIX) && !known(name)).collect();
    unknown.sort();
    unknown
}

/// The flags that can be set elsewhere.
pub(super) fn flags(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve
        .get_arguments()
        .filter(|arg| arg.get_long().is_some_and(|long| !NOT_IN_FILES.contains(&long)))
}

/// `TWICESHY_MAX_LAG` for `--max-lag`.
fn variable(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_uppercase())
}

type Found = BTreeMap<String, (Source, Given)>;

/// The settings of the environment. An empty variable says nothing.
fn of_environment(
    serve: &Command,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Found, String> {
    let mut found = Found::new();
    for arg in flags(serve) {
        let flag = arg.get_long().expect("flags have names");
        let name = variable(flag);
        let Some(value) = environment(&name).filter(|value| !value.is_empty()) else { continue };
        let given = match value.to_str() {
            Some("true") if may_be_bare(arg) => Given::Bare,
            Some("false") if may_be_bare(arg) => Given::Not,
            _ if is_switch(arg) => {
                return Err(format!("{name} in the environment: expected true or false"));
            }
            _ => Given::Value(value),
        };
        let source = Source::Environment(name);
        accepted(arg, &given).map_err(|reason| format!("{source}: {reason}"))?;
        found.insert(flag.into(), (source, given));
    }
    Ok(found)
}

/// The settings of a file.
fn of_file(serve: &Command, path: &Path, text: &str) -> Result<Found, String> {
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    // Not the error's own picture of the line, which may have a password.
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start.min(text.len())));
        format!("{}:{line}: not TOML: {}", path.display(), error.message())
    })?;
    let mut found = Found::new();
    for (key, value) in table.into_inner() {
        let source = Source::File(path.into(), line_of(key.span().start));
        let key = key.into_inner();
        let Some(arg) = flags(serve).find(|arg| arg.get_long() == Some(&key)) else {
            if matches!(value.get_ref(), DeValue::Table(_)) {
                return Err(format!(
                    "{source}: {key} is a section; write its keys at the top level, without [{key}]"
                ));
            }
            return Err(format!("{source}: {}", unknown(serve, &key)));
        };
        let given = given(arg, value.get_ref()).map_err(|why| format!("{source}: {key}: {why}"))?;
        accepted(arg, &given).map_err(|why| format!("{source}: {key}: {why}"))?;
        found.insert(key.into(), (source, given));
    }
    Ok(found)
}

fn unknown(serve: &Command, key: &str) -> String {
    let error = serve.clone().try_get_matches_from([VERB, &format!("--{key}")]);
    let similar = match error.err().as_ref().and_then(|e| e.get(ContextKind::SuggestedArg)) {
        Some(ContextValue::String(flag)) => {
            format!("; did you mean {}?", flag.trim_start_matches("--"))
        }
        _ => String::new(),
    };
    let known: Vec<_> = flags(serve).filter_map(Arg::get_long).collect();
    format!("unknown key {key}{similar}\n  [possible keys: {}]", known.join(", "))
}

/// What a value of a file says, if it has the type of its flag.
fn given(arg: &Arg, value: &DeValue) -> Result<Given, String> {
    let given = match value {
        DeValue::Boolean(true) if may_be_bare(arg) => Some(Given::Bare),
        DeValue::Boolean(false) if may_be_bare(arg) => Some(Given::Not),
        DeValue::Integer(integer) if is_number(arg) => {
            let number = i128::from_str_radix(integer.as_str(), integer.radix());
            let text = number.map_or_else(|_| integer.to_string(), |number| number.to_string());
            Some(Given::Value(text.into()))
        }
        DeValue::String(text) if !is_number(arg) && !is_switch(arg) => {
            Some(Given::Value(text.as_ref().into()))
        }
        _ => None,
    };
    let expected = match (is_switch(arg), is_number(arg), may_be_bare(arg)) {
        (true, ..) => "true or false",
        (false, true, false) => "a whole number, without quotes",
        (false, true, true) => "a whole number, without quotes, or true or false",
        (false, false, false) => "a string, in quotes",
        (false, false, true) => "a string, in quotes, or true or false",
    };
    given.ok_or_else(|| {
        let values = arg.get_possible_values();
        let values: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        let possible = match (is_switch(arg), &values[..]) {
            (true, _) | (_, []) => String::new(),
            _ => format!("\n  [possible values: {}]", values.join(", ")),
        };
        format!("expected {expected}, but it is of type {}{possible}", value.type_str())
    })
}

/// Lets a flag's own parser look at a value, without the other flags that it needs or excludes.
fn accepted(arg: &Arg, given: &Given) -> Result<(), String> {
    let (Some(flag), Given::Value(_)) = (arg.get_long(), given) else { return Ok(()) };
    let alone = arg.clone().requires(Reset).conflicts_with(Reset).required_unless_present(Reset);
    let command = Command::new("twiceshy").no_binary_name(true).arg(alone);
    match command.try_get_matches_from(token(flag, given)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Err(text.split("\n\nFor more").next().unwrap_or(text).trim_end().to_string())
        }
    }
}

/// What the command line would say.
fn token(flag: &str, given: &Given) -> Option<OsString> {
    match given {
        Given::Not => None,
        Given::Bare => Some(format!("--{flag}").into()),
        Given::Value(value) => {
            let mut token = OsString::from(format!("--{flag}="));
            token.push(value);
            Some(token)
        }
    }
}

pub(super) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

pub(super) fn is_number(arg: &Arg) -> bool {
    let id = arg.get_value_parser().type_id();
    [TypeId::of::<u64>(), TypeId::of::<usize>()].iter().any(|number| id == *number)
}

/// Whether the flag may stand without a value.
fn may_be_bare(arg: &Arg) -> bool {
    is_switch(arg) || arg.get_num_args().is_some_and(|range| range.min_values() == 0)
}

#[cfg(test)]
mod tests;
