//! The bucket of a cluster, for the commands that need no server.

use std::fmt::Display;
use std::time::Duration;

use crate::cli::exit::{Exit, Failure};
use slateberg_cluster::{WriterRecord, WriterState};
use slateberg_config::Settings;
use slateberg_runtime::cluster::{Members, RecordSigner, WriterRegister};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::state::State;
use slateberg_store::encryption::IfMissing;

/// Timeout of a request to the bucket.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// The records of a cluster in its bucket.
pub(super) struct Bucket {
    /// The URL of the state.
    pub(super) url: String,
    /// The record of the writer.
    pub(super) register: WriterRegister,
    /// The records of the members.
    pub(super) members: Members,
}

/// Opens the bucket of a cluster. The records of an encrypted state require its keys.
pub(super) async fn bucket(
    settings: &Settings,
    dependencies: &Dependencies,
) -> Result<Bucket, Failure> {
    let mut state = State::offline(settings, dependencies).await?;
    if state.opened().directory.is_some() {
        let url = &state.url;
        let message = format!("{url} is a local directory: a cluster requires a state in a bucket");
        return Err(Failure::new(Exit::Settings, message));
    }
    let keys = state.unlock(IfMissing::Reject).await?;
    let signer = RecordSigner::new(keys.as_ref()).map_err(BuildError::Encryption)?;
    let register = WriterRegister::open(state.opened(), &signer, REQUEST_MAX);
    let members = Members::open(state.opened(), &signer, REQUEST_MAX);
    Ok(Bucket { url: state.url, register, members })
}

/// The failure of a request to the bucket.
pub(super) fn unreachable(error: &dyn Display) -> Failure {
    Failure::new(Exit::Unreachable, error)
}

/// Describes the writer and its state.
pub(super) fn state_of(writer: &WriterRecord) -> String {
    let state = match writer.state {
        WriterState::Opening => "opens the catalog",
        WriterState::Serving => "serves requests",
        WriterState::Leaving => "is stopping",
        WriterState::Released => "has stopped",
        WriterState::Paused => "has paused the cluster",
    };
    format!("{} {state}", writer.holder.name)
}
