//! Over all flags of `serve`: each can be set in three places.

use std::fs;

use clap::CommandFactory as _;

use super::*;
use crate::Cli;

fn serve() -> Command {
    let mut command = Cli::command();
    command.build();
    command.find_subcommand(VERB).expect("it is a verb").clone()
}

/// Settings and the matches of `serve`, or the first line of an error.
fn parsed(
    line: &[&str],
    environment: &[(String, String)],
    file: &str,
) -> Result<(Settings, ArgMatches), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("twiceshy.toml");
    fs::write(&path, file).expect("a file");
    let path = path.display().to_string();
    let line = ["twiceshy", VERB, "--config", &path].into_iter().chain(line.iter().copied());
    let look = |name: &str| {
        let found = environment.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.into())
    };
    let command = Cli::command();
    let settings = Settings::completed(&command, line.map(OsString::from).collect(), &look)
        .map_err(|error| error.replace(&path, "FILE"))?;
    let matches = command.try_get_matches_from(&settings.arguments);
    let mut matches = matches.map_err(|error| error.to_string())?;
    let (_, serve) = matches.remove_subcommand().expect("a verb");
    Ok((settings, serve))
}

fn refused(environment: &[(String, String)], file: &str) -> String {
    match parsed(&[], environment, file) {
        Ok(_) => panic!("{environment:?} and {file} are accepted"),
        Err(error) => error,
    }
}

/// Three different values that a flag takes.
fn values(arg: &Arg) -> [String; 3] {
    let possible = arg.get_possible_values();
    let candidates: Vec<String> = if !possible.is_empty() {
        let names = possible.iter().map(|value| value.get_name().to_string());
        names.cycle().take(3).collect()
    } else if is_number(arg) {
        [31, 47, 59].map(|number| number.to_string()).to_vec()
    } else if arg.get_long() == Some("log") {
        ["debug", "warn", "trace"].map(String::from).to_vec()
    } else {
        ["one", "two/of \"them\"", "3"].map(String::from).to_vec()
    };
    candidates.try_into().expect("three")
}

/// Other flags without which one is refused.
fn companion(flag: &str) -> &'static [&'static str] {
    match flag {
        "configure-store" => &["--dir=d", "--follow=async"],
        "dir" | "demo" => &[],
        _ => &["--dir=d"],
    }
}

fn written(arg: &Arg, value: &str) -> String {
    if is_number(arg) { value.into() } else { serde_json::Value::from(value).to_string() }
}

#[test]
fn every_flag_can_be_set_by_file_environment_and_command_line() {
    let serve = serve();
    let mut seen = 0;
    for arg in serve.get_arguments() {
        let flag = arg.get_long().expect("serve has flags only");
        if NOT_IN_FILES.contains(&flag) {
            continue;
        }
        seen += 1;
        let id = arg.get_id().as_str();
        let others = companion(flag);
        if is_switch(arg) {
            for (environment, file, expected) in [
                (None, None, false),
                (None, Some(true), true),
                (None, Some(false), false),
                (Some(true), None, true),
                (Some(true), Some(false), true),
                (Some(false), Some(true), false),
            ] {
                let place = format!("{flag}: {environment:?} {file:?}");
                let environment = environment.map(|on: bool| (variable(flag), on.to_string()));
                let file = file.map(|on| format!("{flag} = {on}\n")).unwrap_or_default();
                let environment: Vec<_> = environment.into_iter().collect();
                let (_, matches) = parsed(others, &environment, &file).expect(&place);
                assert_eq!(matches.get_flag(id), expected, "{place}");
            }
            continue;
        }
        let [a, b, c] = values(arg);
        let file = format!("# a comment\n{flag} = {}\n", written(arg, &a));
        let environment = [(variable(flag), b.clone())];
        let typed = format!("--{flag}={c}");
        let typed: Vec<&str> = others.iter().copied().chain([typed.as_str()]).collect();
        let variable = Source::Environment(variable(flag));
        for (line, environment, expected, from) in [
            (others, &[][..], &a, Some("FILE:2".to_string())),
            (others, &environment, &b, Some(variable.to_string())),
            (&typed, &environment, &c, None),
        ] {
            let (settings, matches) = parsed(line, environment, &file)
                .unwrap_or_else(|error| panic!("{flag} = {expected}: {error}"));
            let got: Vec<_> = matches.get_raw(id).expect("it is set").collect();
            assert_eq!(got, [OsString::from(expected).as_os_str()], "{flag}");
            let source = settings.source(flag).map(|source| match source {
                Source::File(_, line) => format!("FILE:{line}"),
                other => other.to_string(),
            });
            assert_eq!(source, from, "{flag}");
        }
    }
    assert!(seen >= 30, "only {seen} flags");
    assert_eq!(seen + NOT_IN_FILES.len(), serve.get_arguments().count());
}

#[test]
fn a_flag_that_may_stand_alone_is_true_or_false_elsewhere() {
    for (flag, alone) in [("demo", "1000000"), ("follow", "async")] {
        let arg =
            &flags(&serve()).find(|arg| arg.get_long() == Some(flag)).expect("it is there").clone();
        assert!(may_be_bare(arg), "{flag}");
        let variable = variable(flag);
        for (environment, file, expected) in [
            (None, "true", Some(alone)),
            (None, "false", None),
            (Some("true"), "false", Some(alone)),
            (Some("false"), "true", None),
            (Some(""), "true", Some(alone)),
        ] {
            let environment: Vec<_> =
                environment.iter().map(|value| (variable.clone(), value.to_string())).collect();
            let file = format!("{flag} = {file}");
            let (_, matches) = parsed(&["--dir=d"], &environment, &file).expect("accepted");
            let value =
                matches.get_raw(flag).map(|mut raw| raw.next().expect("one").to_os_string());
            assert_eq!(value, expected.map(OsString::from), "{flag}: {environment:?} {file}");
        }
    }
}

/// The type of every flag is checked, and the message says what it is.
#[test]
fn every_flag_refuses_other_types() {
    for arg in flags(&serve()) {
        let flag = arg.get_long().expect("a flag");
        let wrong: &[&str] = match (is_switch(arg), is_number(arg), may_be_bare(arg)) {
            (true, ..) => &["\"yes\"", "1", "[]"],
            (false, true, false) => &["\"31\"", "3.5", "true", "[31]"],
            (false, true, true) => &["\"31\"", "3.5", "{ a = 1 }"],
            (false, false, false) => &["31", "true", "2026-01-01", "[\"one\"]"],
            (false, false, true) => &["31", "[true]"],
        };
        for value in wrong {
            let error = refused(&[], &format!("\n\n{flag} = {value}\n"));
            let start = format!("FILE:3: {flag}: expected ");
            assert!(error.starts_with(&start), "{flag} = {value}: {error}");
        }
    }
}

#[test]
fn errors_name_the_place_and_what_is_allowed() {
    let environment = |name: &str, value: &str| vec![(name.to_string(), value.to_string())];
    for (environment, file, parts) in [
        (
            vec![],
            "dir = \"d\"\ncapcity = 1",
            &["FILE:2: unknown key capcity; did you mean capacity?", "[possible keys: dir, "][..],
        ),
        (vec![], "[store]\nurl = \"x\"", &["FILE:1: store: expected a string", "type table"]),
        (vec![], "config = \"other\"", &["FILE:1: unknown key config"]),
        (
            vec![],
            "durability = \"none\"",
            &["FILE:1: durability: invalid value 'none'", "[possible values: power, process]"],
        ),
        (
            vec![],
            "durability = 1",
            &["FILE:1: durability: expected a string", "[possible values: power, process]"],
        ),
        (
            vec![],
            "capacity = 0",
            &["FILE:1: capacity: invalid value '0'", "expected a number of keys from 1 to"],
        ),
        (vec![], "max-lag = -5", &["FILE:1: max-lag: invalid value '-5'"]),
        (vec![], "log = \"loud\"", &["FILE:1: log: invalid value 'loud'", "\"warn\""]),
        (vec![], "dir = \"d\"\ndir = \"e\"", &["FILE:2: not TOML: duplicate key"]),
        (vec![], "dir = d", &["FILE:1: not TOML: "]),
        (
            vec![],
            "[serve]\ndir = \"d\"",
            &["FILE:1: serve is a section; write its keys at the top"],
        ),
        (
            environment("TWICESHY_MAX_LAG", "x"),
            "",
            &["TWICESHY_MAX_LAG in the environment: invalid value 'x'"],
        ),
        (
            environment("TWICESHY_FOLLOW", "x"),
            "",
            &["TWICESHY_FOLLOW in the environment: ", "[possible values: async, sync]"],
        ),
        (
            environment("TWICESHY_CONFIGURE_STORE", "x"),
            "",
            &["TWICESHY_CONFIGURE_STORE in the environment: expected true or false"],
        ),
    ] {
        let error = refused(&environment, file);
        for part in parts {
            assert!(error.contains(part), "{file}: {error}");
        }
    }
}

/// A line that is not TOML may have the store's password.
#[test]
fn errors_do_not_show_the_line() {
    let error = refused(&[], "store = \"postgres://me:secret@db/shop");
    assert!(error.starts_with("FILE:1: not TOML: ") && !error.contains("secret"), "{error}");
}

#[test]
fn the_password_of_the_environment_precedes_that_of_the_file() {
    let file = "dir = \"d\"\npassword-file = \"p\"";
    let password = [(PASSWORD.to_string(), "x".to_string())];
    for (environment, expected) in [(&[][..], true), (&password, false)] {
        let (_, matches) = parsed(&[], environment, file).expect("accepted");
        assert_eq!(matches.contains_id("password_file"), expected);
    }
}

#[test]
fn other_verbs_have_no_settings() {
    let line = ["twiceshy", "completions", "bash"].map(OsString::from);
    let look = |_: &str| Some(OsString::from("/nowhere"));
    let settings = Settings::completed(&Cli::command(), line.to_vec(), &look).expect("not read");
    assert_eq!(settings.arguments, line);
}
