//! Runs the pages of the guide, each from its beginning to its end in a directory of its own.
//!
//! ```text
//! sh    bash. A block that begins with `twiceshy serve` runs until the next such block, or the end;
//!       one that begins with `cargo` is for the whole repository, and not run
//! sql   psql, in the database of the page
//! rust, python, text   not here: crates/twiceshy/tests/documents.rs, crates/twiceshy-python/tests
//! ```
//!
//! Servers listen on free ports instead of their usual ones, so addresses are replaced.

use std::env;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::markdown::{Block, blocks, read};
use crate::process::{Process, unset};
use crate::upstreams::{PostgresServer, RedisServer, free_port};

/// What the pages call the database.
const DATABASE: &str = "postgres://me@db/shop";
/// What they call a Redis server.
const REDIS: &str = "redis://host:6379/0";
/// The shield's port, which is its default, and that of its page.
const PORTS: [&str; 2] = ["6390", "6391"];

/// A page that is being run.
struct Page {
    directory: TempDir,
    postgres: Option<PostgresServer>,
    /// Addresses of the page, and what stands for them.
    replaced: Vec<(String, String)>,
    listen: String,
    server: Option<Process>,
}

impl Page {
    fn new(postgres: Option<PostgresServer>, redis: Option<&RedisServer>) -> Self {
        let ports = PORTS.map(|port| (port.to_string(), free_port().to_string()));
        let listen = format!("127.0.0.1:{}", ports[0].1);
        let database = postgres.iter().map(|server| (DATABASE.to_string(), server.address()));
        let redis = redis.map(|server| (REDIS.to_string(), server.address()));
        let replaced = ports.into_iter().chain(database).chain(redis).collect();
        let directory = TempDir::new().expect("a directory");
        Page { directory, postgres, replaced, listen, server: None }
    }

    /// Runs all blocks of a document.
    fn run(mut self, document: &str) {
        let blocks = blocks(&read(document));
        let known = ["sh", "sql", "rust", "python", "text", "toml"];
        for block in &blocks {
            let place = format!("{document}:{}", block.line);
            assert!(known.contains(&&*block.language), "{place}: who runs `{}`?", block.language);
            match &*block.language {
                "sh" if block.text.starts_with("cargo ") => (),
                "sh" => self.shell(block, &place),
                "sql" => {
                    let postgres = self.postgres.as_ref().expect("a database");
                    for statement in statements(&block.text) {
                        postgres
                            .try_sql(&statement)
                            .unwrap_or_else(|error| panic!("{place}: {error}"));
                    }
                }
                _ => (),
            }
        }
        let ran = blocks.iter().filter(|block| block.language == "sh").count();
        assert!(ran > 0, "{document}: nothing to run");
    }

    fn shell(&mut self, block: &Block, place: &str) {
        let mut script = block.text.clone();
        for (usual, free) in &self.replaced {
            script = script.replace(usual, free);
        }
        let mut command = unset("bash");
        command.current_dir(self.directory.path()).env("PATH", path());
        if script.starts_with("twiceshy serve") {
            // The one before has to let go of the port and the directory.
            if let Some(server) = self.server.take() {
                server.stop("TERM");
            }
            let script = format!("exec {} --listen {}", script.trim_end(), self.listen);
            command.args(["-c", &script]);
            self.server = Some(Process::started(command));
            return;
        }
        let output = command.args(["-euo", "pipefail", "-c", &script]).output().expect("bash runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        // redis-cli ends well after an error reply.
        let failed = !output.status.success()
            || said.lines().any(|line| line.starts_with("ERR ") || line.starts_with("(error)"));
        assert!(!failed, "{place}: {script}\n{said}");
    }
}

/// The statements of a block, which end with a line.
fn statements(sql: &str) -> Vec<String> {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default().trim());
    let text = lines.collect::<Vec<_>>().join("\n");
    let statements = text.split(";\n").map(|statement| statement.trim().trim_end_matches(';'));
    statements.filter(|statement| !statement.is_empty()).map(String::from).collect()
}

/// The search path with our own binary first.
fn path() -> String {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_twiceshy"));
    let folder = binary.parent().expect("it has a folder").display().to_string();
    format!("{folder}:{}", env::var("PATH").expect("a search path"))
}

#[test]
fn choosing() {
    Page::new(None, None).run("docs/guide/choosing.md");
}

#[test]
fn installing() {
    Page::new(None, None).run("docs/guide/installing.md");
}

#[test]
fn lists() {
    Page::new(None, None).run("docs/guide/lists.md");
}

#[test]
fn operating() {
    Page::new(None, None).run("docs/guide/operating.md");
}

#[test]
fn in_front_of_postgresql() {
    let postgres = PostgresServer::start_with(&["wal_level=logical"]);
    Page::new(Some(postgres), None).run("docs/guide/postgresql.md");
}

#[test]
fn in_front_of_redis() {
    let redis = RedisServer::start();
    Page::new(None, Some(&redis)).run("docs/guide/redis.md");
}

/// But for its two commands for the repository, which build everything.
#[test]
fn readme() {
    let postgres = PostgresServer::start_with(&["wal_level=logical"]);
    postgres.sql("CREATE TABLE users (email text PRIMARY KEY)");
    Page::new(Some(postgres), None).run("README.md");
}

#[test]
#[should_panic(expected = "nothing to run")]
fn a_page_without_commands_is_noticed() {
    Page::new(None, None).run("docs/guide/README.md");
}

#[test]
fn statements_end_with_a_line() {
    let found = statements("SELECT 1; -- one\nSELECT\n  2;\n\n");
    assert_eq!(found, ["SELECT 1", "SELECT\n2"]);
}
