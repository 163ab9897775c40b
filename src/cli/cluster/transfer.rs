//! `slateberg cluster transfer`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cli::client::{ClientError, Connection, body, parse};
use crate::cli::output::{Output, json_text};
use slateberg_management::cluster::{ClusterStatus, TransferStarted, TransferWriterRequest};

/// The path of the cluster in the management API.
pub(super) const PATH: &str = "/management/v1/cluster";
/// Time limit of a transfer or a pause, and the interval at which the command checks it.
pub(super) const END_MAX: Duration = Duration::from_secs(120);
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct Transfer {
    /// Name or ID of the next writer [default: the writer chooses a member]
    pub(super) member: Option<String>,
    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Transfer {
    /// Starts the transfer, and waits until another member is the writer.
    pub(super) async fn run(self) -> Result<String, ClientError> {
        let Self { member, connection } = self;
        let request = body(&TransferWriterRequest { member })?;
        let started = connection.send("POST", &format!("{PATH}/transfer"), &request).await?;
        let started: TransferStarted = parse(started)?;
        let begun = Instant::now();
        while begun.elapsed() < END_MAX {
            let status = connection.send("GET", PATH, &Value::Null).await?;
            let status: ClusterStatus = parse(status)?;
            if status.term > started.term {
                return transferred(&connection, &started, &status);
            }
            sleep(INTERVAL).await;
        }
        let (to, seconds) = (&started.to, END_MAX.as_secs());
        let message = format!("the member '{to}' did not become the writer within {seconds} s");
        Err(ClientError::Http(message))
    }
}

fn transferred(
    connection: &Connection,
    started: &TransferStarted,
    status: &ClusterStatus,
) -> Result<String, ClientError> {
    if connection.output == Output::Json {
        return Ok(json_text(status));
    }
    let writer = name_of_writer(status);
    let TransferStarted { from, to, successor, .. } = started;
    if status.writer != Some(*successor) {
        let message =
            format!("the member '{to}' did not continue the term: '{writer}' is the writer");
        return Err(ClientError::Http(message));
    }
    Ok(format!("transferred the writer from '{from}' to '{writer}' (term {})\n", status.term))
}

/// Returns the name of the writer in a response of the management API.
pub(super) fn name_of_writer(status: &ClusterStatus) -> String {
    let writer = status.members.iter().find(|member| Some(member.id) == status.writer);
    let id = || status.writer.map_or_else(String::new, |id| id.to_string());
    writer.map_or_else(id, |member| member.name.clone())
}
