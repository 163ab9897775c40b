//! `slateberg cluster`: the members of a cluster, as the bucket of the state describes them, the
//! planned transfer of the writer, and pauses.

mod bucket;
mod finalize;
mod pause;
mod status;
mod transfer;

use clap::{Args, Subcommand};

use super::client::run_online;
use super::exit::Outcome;
use finalize::Finalize;
use pause::{Pause, Resume};
use status::Status;
use transfer::Transfer;

/// Show the members of a cluster, transfer the writer, and pause the cluster.
#[derive(Debug, Args)]
pub struct Cluster {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the writer and all members. Reads the bucket, so it needs no running server
    Status(Status),
    /// Make another member the writer. Requests wait until the transfer is complete; none is rejected
    Transfer(Transfer),
    /// Complete an upgrade: make a member of the newest version the writer. Members of older
    /// versions may then be unable to become the writer
    Finalize(Finalize),
    /// Pause the cluster: no member executes changes until `resume`. Waits until the writer has
    /// closed the store
    Pause(Pause),
    /// End a pause. Changes the bucket, so it needs the settings of a member, and no running
    /// server
    Resume(Resume),
}

impl Cluster {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Status(status) => {
                status.common.run_offline(async |settings| status.run(settings).await)
            }
            Command::Transfer(transfer) => run_online(transfer.run()),
            Command::Finalize(finalize) => run_online(finalize.run()),
            Command::Pause(pause) => run_online(pause.run()),
            Command::Resume(resume) => {
                resume.common.run_offline(async |settings| resume.run(settings).await)
            }
        }
    }
}
