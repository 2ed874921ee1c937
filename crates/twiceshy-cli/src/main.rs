//! `twiceshy`: adaptive membership filters on the command line.
//!
//! The list of verbs is here; each has its `Args` and `run` in `cmd/`.

mod cmd;
mod keys;
mod loaded;
mod progress;
mod rows;
mod saved;
mod table;

use std::error::Error;
use std::process::ExitCode;
use std::{env, io};

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};

use cmd::serve::Settings;

/// Adaptive membership filters: filters that never make the same mistake twice.
///
/// A filter answers "definitely absent" or "maybe present" from a few bits per key. Report each
/// wrong "maybe" to an adaptive filter, and it answers "absent" the next time.
#[derive(Parser)]
#[command(
    name = "twiceshy",
    version,
    arg_required_else_help = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
                  twiceshy serve --demo                     a store behind a filter, under attack\n  \
                  twiceshy race --bits 13                   all filters, on the default workload\n  \
                  twiceshy attack                           all adversaries against all filters\n  \
                  twiceshy bars                             the default filter against our goals\n  \
                  twiceshy plan --keys 1M --for server      which filter to take, and what to paste\n  \
                  twiceshy scale                            a cluster of filters, simulated\n  \
                  twiceshy paper --quick                    the papers' figures, as one page\n  \
                  twiceshy build KEYS -o FILE               a filter of a list of keys\n\n\
                  'twiceshy VERB --help' explains a verb, with examples."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Race(cmd::race::Args),
    Serve(Box<cmd::serve::Args>),
    Backup(cmd::backup::Args),
    Forget(cmd::forget::Args),
    Health(cmd::health::Args),
    Attack(cmd::attack::Args),
    Bars(cmd::bars::Args),
    Plan(cmd::plan::Args),
    Scale(Box<cmd::scale::Args>),
    Paper(cmd::paper::Args),
    Build(cmd::build::Args),
    Query(cmd::query::Args),
    Inspect(cmd::inspect::Args),
    Check(cmd::check::Args),
    Adapt(cmd::adapt::Args),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
}

/// The exit code for usage and system errors: wrong flags, no memory.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        // The reader has seen enough, as in `race --json | head -1`.
        if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {error}");
        ExitCode::from(USAGE)
    })
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut command = Cli::command();
    let settings = Settings::read(&command, env::args_os().collect())?;
    let matches = settings.parse(&mut command);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.verb {
        Verb::Serve(args) => {
            let (name, matches) = matches.subcommand().expect("it is the verb");
            let serve = command.find_subcommand(name).expect("it was parsed");
            cmd::serve::run(&args, &settings, serve, matches)
        }
        Verb::Backup(args) => cmd::backup::run(&args),
        Verb::Forget(args) => cmd::forget::run(&args),
        Verb::Health(args) => cmd::health::run(&args),
        Verb::Race(args) => cmd::race::run(&args),
        Verb::Attack(args) => cmd::attack::run(&args),
        Verb::Bars(args) => cmd::bars::run(&args),
        Verb::Plan(args) => cmd::plan::run(&args),
        Verb::Scale(args) => cmd::scale::run(&args),
        Verb::Paper(args) => cmd::paper::run(&args),
        Verb::Build(args) => cmd::build::run(&args),
        Verb::Query(args) => cmd::query::run(&args),
        Verb::Inspect(args) => cmd::inspect::run(&args),
        Verb::Check(args) => cmd::check::run(&args),
        Verb::Adapt(args) => cmd::adapt::run(&args),
        Verb::Completions(args) => cmd::completions::run(&args, Cli::command()),
        Verb::Man(args) => cmd::man::run(&args, Cli::command()),
    }
}
