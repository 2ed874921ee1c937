//! Settings in a file and in the environment, and what the server says of them.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::client::Value;
use crate::process::{Process, twiceshy};

fn check(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = twiceshy("serve");
    command.args(arguments).arg("--check-config").envs(environment.iter().copied());
    command.output().expect("the binary runs")
}

fn printed(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = check(arguments, environment);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = check(arguments, environment);
    assert_eq!(output.status.code(), Some(2), "{arguments:?} {environment:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

fn file(directory: &TempDir, text: &str) -> String {
    let path = directory.path().join("twiceshy.toml");
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// The setting of a flag, and where it is from.
fn setting<'a>(printed: &'a str, flag: &str) -> (&'a str, &'a str) {
    let line = printed.lines().find(|line| line.starts_with(&format!("{flag} = ")));
    let (setting, source) = line.expect("it is set").split_once("  # ").expect("a source");
    (setting.trim_end().split_once(" = ").expect("a value").1, source)
}

#[test]
fn a_server_is_started_by_file_and_environment_alone() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let path = file(
        &directory,
        &format!("dir = '{}'\nlisten = \"127.0.0.1:1\"\nmax-bulk = 1\n", data.display()),
    );
    let mut command = twiceshy("serve");
    command.env("TWICESHY_CONFIG", path).env("TWICESHY_LISTEN", "127.0.0.1:0");
    let server = Process::started(command);
    assert_ne!(server.address.port(), 1, "the environment precedes the file");
    let mut client = server.client();
    assert_eq!(client.call(&["SET", "key", &"x".repeat(1 << 20)]), Value::ok());
    assert!(client.call(&["SET", "key", &"x".repeat((1 << 20) + 1)]).error().contains("bulk"));
    assert!(data.join("records.redb").exists());
    assert_eq!(server.stop("TERM").0.code(), Some(0));
}

#[test]
fn the_check_prints_each_setting_and_its_source() {
    let directory = TempDir::new().expect("a directory");
    let path = file(
        &directory,
        "# ours\ndir = \"d\"\nmax-lag = 50\nfollow = true\ntable = \"users\"\nkey = \"e\\\"mail\"\n",
    );
    let store = "postgres://me:secret@db/shop";
    let environment =
        [("TWICESHY_STORE", store), ("TWICESHY_MAX_LAG", "70"), ("TWICESHY_CAPCITY", "1")];
    let text = printed(&["--config", &path, "--dir", "e"], &environment);
    for (flag, expected, source) in [
        ("dir", "\"e\"", "command line"),
        ("max-lag", "70", "TWICESHY_MAX_LAG in the environment"),
        ("follow", "\"async\"", &*format!("{path}:4")),
        ("key", "\"e\\\"mail\"", &*format!("{path}:6")),
        ("store", "\"postgres://me:***@db/shop\"", "TWICESHY_STORE in the environment"),
        ("idle", "300", "default"),
        ("configure-store", "false", "default"),
    ] {
        assert_eq!(setting(&text, flag), (expected, source));
    }
    assert!(text.contains("\n# page: not set\n"), "{text}");
    assert!(text.contains("# password: none\n"), "{text}");
    assert!(text.contains("# TWICESHY_CAPCITY in the environment is not a setting"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(!Path::new("e").exists(), "nothing is made");

    // What is printed is a file of settings, which says the same.
    let again = file(&directory, &text);
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  # ").next().unwrap_or(line).trim().into()).collect()
    };
    let twice = printed(&["--config", &again], &[]);
    let kept = |line: &String| !line.starts_with("# TWICESHY");
    let before: Vec<_> = values(&text).into_iter().filter(kept).collect();
    assert_eq!(values(&twice), before);
}

#[test]
fn what_could_not_be_served_is_refused_with_its_source() {
    let directory = TempDir::new().expect("a directory");
    let missing = directory.path().join("nothing.toml").display().to_string();
    for (text, arguments, environment, said) in [
        (
            "dir = \"d\"\nmax-lag = \"50\"",
            &[][..],
            &[][..],
            "twiceshy.toml:2: max-lag: expected a whole number",
        ),
        ("dir = \"d\"\nmaxlag = 50", &[], &[], "did you mean max-lag?"),
        ("capacity = 1", &[], &[], "--dir <DIR>"),
        ("dir = \"d\"", &["--listen", "0.0.0.0:0"], &[], "no password; set one"),
        ("dir = \"d\"", &[], &[("TWICESHY_PAGE", "0.0.0.0:0")], "--page 0.0.0.0:0 can be reached"),
        ("dir = \"d\"", &["--password-file", "/nowhere"], &[], "cannot read /nowhere"),
        ("dir = \"d\"\ntable = \"t\"", &[], &[], "--table is for a store of your own"),
        ("dir = \"d\"\nstore = \"postgres://db\"", &[], &[], "needs --table and --key"),
        ("dir = \"d\"\nstore = \"mysql://me:secret@db\"", &[], &[], "begins with \"mysql\""),
        ("store = \"redis://:secret@h\"", &["--demo"], &[], "twiceshy.toml:1 sets --store"),
        ("resync = 9", &["--dir=d", "--follow"], &[], "twiceshy.toml:1 sets --resync"),
        ("", &["--demo"], &[("TWICESHY_PASSWORD", "secret")], "unset TWICESHY_PASSWORD"),
        ("", &["--demo", "--config", &missing], &[], "cannot read"),
    ] {
        let path = file(&directory, text);
        let mut line = vec![];
        if !arguments.contains(&"--config") {
            line.extend(["--config", &path]);
        }
        line.extend(arguments);
        let error = refused(&line, environment);
        assert!(error.contains(said) && !error.contains("secret"), "{text} {line:?}: {error}");
    }
}

/// The file that the Debian package installs.
#[test]
fn the_default_configuration_has_every_flag_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian/twiceshy.toml");
    let text = fs::read_to_string(&path).expect("it is packaged");
    let path = path.display().to_string();
    let used = printed(&["--config", &path], &[]);
    assert_eq!(setting(&used, "dir").0, "\"/var/lib/twiceshy\"");
    // Comments that begin with a key are settings with their defaults.
    let is_setting = |line: &&str| {
        line.trim_start_matches('#').split_once(" = ").is_some_and(|(key, _)| {
            key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
        })
    };
    let settings: Vec<_> = text.lines().filter(is_setting).collect();
    for line in used
        .lines()
        .filter(|line| !line.starts_with("# TWICESHY") && !line.starts_with("# password:"))
    {
        let flag = line.trim_start_matches("# ").split([' ', ':']).next().expect("a flag");
        let start = [format!("{flag} = "), format!("#{flag} = ")];
        let found = settings.iter().find(|line| start.iter().any(|start| line.starts_with(start)));
        let found = *found.unwrap_or_else(|| panic!("{path} does not have {flag}"));
        if let Some((_, value)) =
            line.trim_end().split("  # ").next().and_then(|line| line.split_once(" = "))
        {
            assert_eq!(found.split_once(" = ").expect("a value").1.trim(), value.trim(), "{flag}");
        }
    }
    // Each is one that the server knows, also those without a default.
    for line in settings {
        let directory = TempDir::new().expect("a directory");
        let one = file(&directory, line.trim_start_matches('#'));
        let output = check(&["--config", &one, "--dir", "d"], &[]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("twiceshy.toml:1: "), "{line}: {error}");
    }
}
