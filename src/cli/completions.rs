//! `slateberg completions` and `slateberg man`: shell completions and man pages, generated from the
//! command line definition.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::{Exit, Failure, Outcome};
use super::output::print;

/// Print completions for a shell.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell that reads the completions
    #[arg(value_enum)]
    shell: Shell,
}

/// Write man pages.
#[derive(Debug, Args)]
pub struct Man {
    /// Directory for the pages, one for each subcommand
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Completions {
    /// Prints the completions of a command line.
    pub fn run(self, mut command: Command) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "slateberg", &mut script);
        print(&String::from_utf8_lossy(&script));
        Ok(ExitCode::SUCCESS)
    }
}

impl Man {
    /// Writes the pages of a command line.
    pub fn run(self, command: Command) -> Outcome {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", self.out.display()))
        };
        std::fs::create_dir_all(&self.out).map_err(failed)?;
        clap_mangen::generate_to(command, &self.out).map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}
