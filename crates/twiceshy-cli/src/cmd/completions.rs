//! `twiceshy completions`: shell completions of verbs and flags.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::{Shell, generate};

/// Prints completions of verbs and flags for a shell.
///
/// Exit code: 0; 2 for another shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy completions bash > ~/.local/share/bash-completion/completions/twiceshy
  twiceshy completions zsh > \"${fpath[1]}/_twiceshy\"
  twiceshy completions fish > ~/.config/fish/completions/twiceshy.fish")]
pub struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints them.
///
/// # Errors
/// An output that is closed.
pub fn run(args: &Args, mut command: clap::Command) -> Result<ExitCode, Box<dyn Error>> {
    // Made in memory: the generator panics where an output is closed.
    let mut script = Vec::new();
    generate(args.shell, &mut command, "twiceshy", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
