//! `slateberg cluster`: the members of a cluster, as the bucket of the state describes them, and the
//! planned transfer of the writer.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::arguments::Common;
use super::client::{ClientError, Connection, body, parse, run_online};
use super::exit::{Exit, Failure, Outcome};
use super::output::{GLOBAL, OUTPUT_HELP, Output, json_text, print, print_json, table};
use slateberg_cluster::{WriterRecord, WriterState};
use slateberg_config::Settings;
use slateberg_management::cluster::{ClusterStatus, TransferStarted, TransferWriterRequest};
use slateberg_runtime::cluster::{MemberRecord, Members, RecordSigner, WriterRegister};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::state::State;
use slateberg_store::encryption::IfMissing;

/// Timeout of a request to the bucket.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// The path of the cluster in the management API.
const PATH: &str = "/management/v1/cluster";
/// Time limit of a transfer, and the interval at which the command checks it.
const TRANSFER_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// Show the members of a cluster, and transfer the writer.
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
}

#[derive(Debug, Args)]
struct Status {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

#[derive(Debug, Args)]
struct Transfer {
    /// Name or ID of the next writer [default: the writer chooses a member]
    member: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Cluster {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Status(status) => {
                status.common.run_offline(async |settings| status.run(settings).await)
            }
            Command::Transfer(transfer) => run_online(transfer.run()),
        }
    }
}

impl Transfer {
    /// Starts the transfer, and waits until another member is the writer.
    async fn run(self) -> Result<String, ClientError> {
        let Self { member, connection } = self;
        let request = body(&TransferWriterRequest { member })?;
        let started = connection.send("POST", &format!("{PATH}/transfer"), &request).await?;
        let started: TransferStarted = parse(started)?;
        let begun = Instant::now();
        while begun.elapsed() < TRANSFER_MAX {
            let status = connection.send("GET", PATH, &Value::Null).await?;
            let status: ClusterStatus = parse(status)?;
            if status.term > started.term {
                return transferred(&connection, &started, &status);
            }
            sleep(PAUSE).await;
        }
        let (to, seconds) = (&started.to, TRANSFER_MAX.as_secs());
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
        return Ok(json_text(&json!(status)));
    }
    let writer = status.members.iter().find(|member| member.id == status.writer);
    let writer = writer.map_or_else(|| status.writer.to_string(), |member| member.name.clone());
    let TransferStarted { from, to, successor, .. } = started;
    if status.writer != *successor {
        let message =
            format!("the member '{to}' did not continue the term: '{writer}' is the writer");
        return Err(ClientError::Http(message));
    }
    Ok(format!("transferred the writer from '{from}' to '{writer}' (term {})\n", status.term))
}

impl Status {
    async fn run(&self, settings: &Settings) -> Result<ExitCode, Failure> {
        let mut state = State::offline(settings, &Dependencies::default()).await?;
        if state.opened().directory.is_some() {
            let message = format!(
                "{} is a local directory: a cluster requires a state in a bucket",
                state.url
            );
            return Err(Failure::new(Exit::Settings, message));
        }
        let keys = state.unlock(IfMissing::Reject).await?;
        let signer = RecordSigner::new(keys.as_ref()).map_err(BuildError::Encryption)?;
        let (url, opened) = (&state.url, state.opened());
        let unreachable = |error: &dyn std::fmt::Display| Failure::new(Exit::Unreachable, error);
        let register = WriterRegister::open(opened, &signer, REQUEST_MAX);
        let writer = register.read().await.map_err(|error| unreachable(&error))?;
        let members = Members::open(opened, &signer, REQUEST_MAX).list().await;
        let members = members.map_err(|error| unreachable(&error))?;
        let writer = writer.map(|(record, _)| record);
        match self.output {
            Output::Json => print_json(&json!({
                "state": url,
                "writer": writer,
                "members": members,
            })),
            Output::Table => print(&text(url, writer.as_ref(), &members)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(url: &str, writer: Option<&WriterRecord>, members: &[MemberRecord]) -> String {
    let mut text = format!("state   {url}\n");
    text += &match writer {
        None => "writer  none: no cluster has used this state\n".to_owned(),
        Some(writer) => {
            let (name, term) = (&writer.holder.name, writer.term);
            let state = match writer.state {
                WriterState::Opening => "opens the catalog",
                WriterState::Serving => "serves requests",
                WriterState::Leaving => "is stopping",
                WriterState::Released => "has stopped",
            };
            format!("writer  {name} {state} (term {term}, lease {} ms)\n", writer.lease_ms)
        }
    };
    let is_writer = |member: &MemberRecord| {
        writer.is_some_and(|writer| {
            writer.holder.node == member.member.node && writer.state == WriterState::Serving
        })
    };
    let rows: Vec<_> = members
        .iter()
        .map(|member| {
            let role = match (is_writer(member), member.eligible) {
                (true, _) => "writer",
                (false, true) => "standby",
                (false, false) => "standby, not eligible",
            };
            let MemberRecord { member, peer, .. } = member;
            [member.name.clone(), role.to_owned(), member.version.clone(), peer.url.clone()]
        })
        .collect();
    text.push('\n');
    text += &table(["MEMBER", "ROLE", "VERSION", "ADDRESS"], &rows);
    let Some(writer) = writer else { return text };
    for MemberRecord { member, .. } in members {
        let different = member.settings.different_sections(&writer.holder.settings);
        if !different.is_empty() {
            let (name, sections) = (&member.name, different.join(", "));
            text += &format!("\n{name} and the writer have different settings: {sections}\n");
        }
    }
    text
}
