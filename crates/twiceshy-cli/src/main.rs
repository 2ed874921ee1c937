//! `twiceshy`: adaptive membership filters on the command line.
//!
//! Here is the list of verbs; each has its `Args` and `run` in `cmd/`.

mod cmd;
mod progress;
mod table;
mod trial;
mod workload;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Adaptive membership filters: filters that never make the same mistake twice.
///
/// A filter answers "surely absent" or "maybe present" from a few bits a key. An
/// adaptive one is told of each "maybe" that was wrong, and changes so that the
/// same question is not answered wrong again.
#[derive(Parser)]
#[command(
    name = "twiceshy",
    version,
    arg_required_else_help = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    disable_help_subcommand = true,
    after_help = "Examples:\n  twiceshy serve --dir data         a store behind a filter, for Redis clients\n  \
                  twiceshy race                     all filters, on the default workload\n\n\
                  'twiceshy VERB --help' tells all about a verb, with examples."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Race(cmd::race::Args),
    Serve(Box<cmd::serve::Args>),
}

/// For what no filter is to blame: wrong flags, no memory.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Race(args) => cmd::race::run(&args),
        Verb::Serve(args) => cmd::serve::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        // Whoever read the output has seen enough, as in `race --json | head -1`.
        if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {error}");
        ExitCode::from(USAGE)
    })
}
