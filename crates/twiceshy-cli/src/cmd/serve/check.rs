//! `twiceshy serve --check-config`: what would be served, and who says so.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::listen::{PASSWORD, password, permitted};
use super::own::check_memory;
use super::settings::{Settings, flags, is_number, is_switch, unknown_variables};
use super::{Args, is_allowed};

/// Checks what can be checked beside a running server, and prints the settings as a TOML file.
///
/// # Errors
/// The first setting that would end the server at its start.
pub(super) async fn check(
    args: &Args,
    settings: &Settings,
    serve: &Command,
    matches: &ArgMatches,
) -> Result<(), Box<dyn Error>> {
    let password = password(args.password_file.as_deref())?;
    is_allowed(args, password.as_ref())?;
    permitted("--listen", &args.listen, password.as_ref()).await?;
    if let Some(address) = args.page_address() {
        permitted("--page", address, password.as_ref()).await?;
    }
    check_memory(args.capacity)?;
    args.upstream.chosen()?;
    let mut text = printed(settings, serve, matches);
    let from = match (&args.password_file, password) {
        (_, None) => "none".to_string(),
        (Some(file), _) => format!("the first line of {}", file.display()),
        (None, _) => format!("{PASSWORD} in the environment"),
    };
    let _ = writeln!(text, "# password: {from}");
    for name in unknown_variables(serve) {
        let _ = writeln!(text, "# {name} in the environment is not a setting of twiceshy serve");
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// A line per flag.
fn printed(settings: &Settings, serve: &Command, matches: &ArgMatches) -> String {
    let mut text = String::new();
    for arg in flags(serve) {
        let flag = arg.get_long().expect("flags have names");
        let _ = match value(arg, flag, matches) {
            None => writeln!(text, "# {flag}: not set"),
            Some(value) => {
                let setting = format!("{flag} = {value}");
                let source = match (settings.source(flag), source(arg, matches)) {
                    (Some(source), _) => source.to_string(),
                    (None, Some(ValueSource::CommandLine)) => "command line".into(),
                    (None, _) => "default".into(),
                };
                writeln!(text, "{setting:40}  # {source}")
            }
        };
    }
    text
}

fn source(arg: &Arg, matches: &ArgMatches) -> Option<ValueSource> {
    matches.value_source(arg.get_id().as_str())
}

/// A value as TOML.
fn value(arg: &Arg, flag: &str, matches: &ArgMatches) -> Option<String> {
    let id = arg.get_id().as_str();
    if is_switch(arg) {
        return Some(matches.get_flag(id).to_string());
    }
    let text = matches.get_raw(id)?.next()?.to_string_lossy().into_owned();
    if is_number(arg) {
        return Some(text);
    }
    let shown = if flag == "store" { masked(&text) } else { text };
    // Every string of JSON is one of TOML.
    Some(serde_json::Value::from(shown).to_string())
}

/// An address of a store without its password.
fn masked(address: &str) -> String {
    const MASK: &str = "***";
    let mut text = address.to_string();
    let begin = text.find("://").map_or(0, |at| at + "://".len());
    // A password may have any sign in it, and a user has no colon.
    if let Some(end) = text.rfind('@').filter(|end| *end > begin)
        && let Some(colon) = text[begin..end].find(':')
    {
        text.replace_range(begin + colon + 1..end, MASK);
    }
    for parameter in ["password=", "pass="] {
        for separator in ['?', '&'] {
            let parameter = format!("{separator}{parameter}");
            if let Some(at) = text.find(&parameter) {
                let begin = at + parameter.len();
                let end = text[begin..].find('&').map_or(text.len(), |length| begin + length);
                text.replace_range(begin..end, MASK);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (address, shown) in [
            ("postgres://me:se:c@r/et?@db:5432/shop", "postgres://me:***@db:5432/shop"),
            ("postgres://me@db/shop?sslmode=require", "postgres://me@db/shop?sslmode=require"),
            (
                "postgres://db/shop?user=me&password=secret&a=b",
                "postgres://db/shop?user=me&password=***&a=b",
            ),
            ("redis://:secret@127.0.0.1:6379/0", "redis://:***@127.0.0.1:6379/0"),
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis+unix:///run/redis?pass=secret", "redis+unix:///run/redis?pass=***"),
        ] {
            assert_eq!(masked(address), shown);
        }
    }
}
