//! `slateberg policy`: checking, testing and asking policies, without a server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::fail;
use crate::app::policies;

mod explain;
mod test;
mod validate;

/// Check, test and ask policies, without a server.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that policies are well-formed and fit the schema: exit code 0, or 1 if they do not
    Validate(validate::Validate),
    /// Check that policies decide as a file expects: exit code 0, or 1 if they do not
    Test(test::Test),
    /// Ask what policies decide, and which: exit code 0 if it is allowed, 3 if it is denied
    Explain(Box<explain::Explain>),
}

impl Policy {
    /// Runs the subcommand.
    pub fn run(self) -> ExitCode {
        let ended = match self.command {
            Command::Validate(validate) => validate.run(),
            Command::Test(test) => test.run(),
            Command::Explain(explain) => explain.run(),
        };
        ended.unwrap_or_else(|error| fail(1, error))
    }
}

/// Why a subcommand gave no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Policies(#[from] policies::Error),
    #[error("{}: {}", .0.display(), .1)]
    Expectations(PathBuf, String),
    #[error("{0}")]
    Usage(String),
}
