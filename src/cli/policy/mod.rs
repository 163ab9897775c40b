//! `slateberg policy`: checking, testing and asking policies without a server, and those of a running one.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::Outcome;
use super::{ask_server, client};
use crate::app::policies;

mod ask;
mod diff;
mod explain;
mod remote;
mod test;
mod validate;

/// Check, test and ask policies; list and change those of a running server.
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
    /// List the policies in force on a server
    List(remote::List),
    /// Print a policy of a server
    Show(remote::Show),
    /// Put a policy in force on a server, or change it
    Put(remote::Put),
    /// Take a policy back that was put in force
    Delete(remote::Delete),
    /// Tell how policies and grants of a server became what they are
    History(remote::History),
    /// Compare two revisions of the policies and grants of a server
    Diff(remote::Diff),
    /// Make policies and grants of a server what they were
    Rollback(remote::Rollback),
}

impl Policy {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        let ended = match self.command {
            Command::Validate(validate) => validate.run(),
            Command::Test(test) => test.run(),
            Command::Explain(explain) => explain.run(),
            Command::List(list) => return ask_server(list.run()),
            Command::Show(show) => return ask_server(show.run()),
            Command::Put(put) => return ask_server(put.run()),
            Command::Delete(delete) => return ask_server(delete.run()),
            Command::History(history) => return ask_server(history.run()),
            Command::Diff(diff) => return ask_server(diff.run()),
            Command::Rollback(rollback) => return ask_server(rollback.run()),
        };
        Ok(ended?)
    }
}

/// Why a subcommand failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Policies(#[from] policies::Error),
    #[error("{}: {}", .0.display(), .1)]
    Expectations(PathBuf, String),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Server(#[from] client::ClientError),
    #[error("{0}")]
    Runtime(#[from] std::io::Error),
}
