//! `twiceshy man`: manual pages of all verbs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::Command;
use clap_mangen::Man;

/// Writes manual pages of all verbs to a directory.
///
/// The directory is created if it does not exist, and pages that are there are replaced.
///
/// Exit code: 0; 2 if they could not be written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy man ~/.local/share/man/man1
  man twiceshy-serve")]
pub struct Args {
    /// Where to write them
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(args: &Args, mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    command.build();
    let written = fs::create_dir_all(&args.directory).and_then(|()| {
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        [&command].into_iter().chain(verbs).try_for_each(|verb| write(verb, &args.directory))
    });
    written.map_err(|error| format!("cannot write to {}: {error}", args.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write(command: &Command, directory: &Path) -> io::Result<()> {
    let source = concat!("twiceshy ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(source).manual("twiceshy");
    let mut roff = Vec::new();
    page.render(&mut roff)?;
    // What follows the flags in the help: line by line.
    let roff =
        String::from_utf8_lossy(&roff).replace("\n.SH EXTRA\nExamples:\n", "\n.SH EXAMPLES\n.nf\n");
    fs::write(directory.join(page.get_filename()), roff)
}
