//! `slateberg policy`: validates, tests and explains policies without a server, and changes the
//! policies of a server.

use clap::{Args, Subcommand};

use super::client::run_online;
use super::exit::Outcome;

mod decision;
mod diff;
mod error;
mod explain;
mod explain_online;
mod question;
mod remote;
mod test;
mod validate;

/// Validate, test, explain, list and change policies.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Validate policy files against the schema, without a server
    Validate(validate::Validate),
    /// Test policy files against expected decisions, without a server
    Test(test::Test),
    /// Explain a decision. The exit code is 0 if the request is allowed, and 3 if it is denied
    Explain(Box<explain::Explain>),
    /// List the policies in force on a server
    #[command(visible_alias = "ls")]
    List(remote::List),
    /// Print a policy of a server
    Show(remote::Show),
    /// Create or replace a policy on a server
    Put(remote::Put),
    /// Delete a policy that was created on a server
    #[command(visible_alias = "rm")]
    Delete(remote::Delete),
    /// Show the revision history of policies and grants
    History(remote::History),
    /// Compare two revisions of policies and grants
    Diff(remote::Diff),
    /// Return policies and grants to an earlier revision
    Rollback(remote::Rollback),
}

impl Policy {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        let ended = match self.command {
            Command::Validate(validate) => validate.run(),
            Command::Test(test) => test.run(),
            Command::Explain(explain) => explain.run(),
            Command::List(list) => return run_online(list.run()),
            Command::Show(show) => return run_online(show.run()),
            Command::Put(put) => return run_online(put.run()),
            Command::Delete(delete) => return run_online(delete.run()),
            Command::History(history) => return run_online(history.run()),
            Command::Diff(diff) => return run_online(diff.run()),
            Command::Rollback(rollback) => return run_online(rollback.run()),
        };
        Ok(ended?)
    }
}
