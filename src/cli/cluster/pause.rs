//! `slateberg cluster pause` and `slateberg cluster resume`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::bucket::{Bucket, bucket, state_of, unreachable};
use super::transfer::{END_MAX, INTERVAL, PATH, name_of_writer};
use crate::cli::arguments::Common;
use crate::cli::client::{ClientError, Connection, parse};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{GLOBAL, OUTPUT_HELP, Output, json_text, print, print_json};
use slateberg_cluster::WriterRecord;
use slateberg_config::Settings;
use slateberg_management::cluster::{ClusterStatus, PauseStarted};
use slateberg_runtime::cluster::{ResumeError, resume};
use slateberg_runtime::dependencies::Dependencies;

/// Each member responds to this path itself.
const READY: &str = "/ready";

#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Resume {
    #[command(flatten)]
    pub(super) common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

/// The state of the cluster, as the member at the address of the server knows it.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Paused,
    Writer,
    NoWriter,
}

impl Pause {
    /// Starts the pause, and waits until the writer has closed the store.
    pub(super) async fn run(self) -> Result<String, ClientError> {
        let Self { connection } = self;
        if known(&connection).await? == Known::Paused {
            return Ok(paused(&connection, None));
        }
        let started = connection.send("POST", &format!("{PATH}/pause"), &Value::Null).await?;
        let started: PauseStarted = parse(started)?;
        let begun = Instant::now();
        while begun.elapsed() < END_MAX {
            match known(&connection).await? {
                Known::Paused => return Ok(paused(&connection, Some(&started))),
                Known::Writer => reject_other_writer(&connection, &started).await?,
                Known::NoWriter => {}
            }
            sleep(INTERVAL).await;
        }
        let PauseStarted { writer, .. } = started;
        let seconds = END_MAX.as_secs();
        let message = format!("the writer '{writer}' did not close the store within {seconds} s");
        Err(ClientError::Http(message))
    }
}

async fn known(connection: &Connection) -> Result<Known, ClientError> {
    match connection.send("GET", READY, &Value::Null).await {
        Ok(ready) if ready["status"] == "paused" => Ok(Known::Paused),
        Ok(_) => Ok(Known::Writer),
        Err(error) if error.is_temporary() => Ok(Known::NoWriter),
        Err(error) => Err(error),
    }
}

/// Errors if another member has become the writer, because the writer failed before it paused the
/// cluster.
async fn reject_other_writer(
    connection: &Connection,
    started: &PauseStarted,
) -> Result<(), ClientError> {
    let status = match connection.send("GET", PATH, &Value::Null).await {
        Err(error) if error.is_temporary() => return Ok(()),
        response => parse::<ClusterStatus>(response?)?,
    };
    if status.term <= started.term {
        return Ok(());
    }
    let (former, writer) = (&started.writer, name_of_writer(&status));
    Err(ClientError::Http(format!(
        "the cluster is not paused: the writer '{former}' failed before, and '{writer}' is the writer now. Repeat the \
         command"
    )))
}

/// Reports a pause. `started` is absent if the cluster was paused before.
fn paused(connection: &Connection, started: Option<&PauseStarted>) -> String {
    if connection.output == Output::Json {
        let (writer, term) = started.map(|it| (&it.writer, it.term)).unzip();
        return json_text(&json!({ "status": "paused", "writer": writer, "term": term }));
    }
    let state = match started {
        None => "the cluster was paused before".to_owned(),
        Some(PauseStarted { term, writer }) => {
            format!("paused the cluster: the writer '{writer}' has closed the store (term {term})")
        }
    };
    format!(
        "{state}\nto end the pause, use `slateberg cluster resume` with the settings of a member\n"
    )
}

impl Resume {
    pub(super) async fn run(&self, settings: &Settings) -> Result<ExitCode, Failure> {
        let dependencies = Dependencies::default();
        let Bucket { url, register, .. } = bucket(settings, &dependencies).await?;
        let resumed = resume(&register, || dependencies.ids.random()).await;
        let last = resumed.map_err(|error| match error {
            ResumeError::NotPaused(writer) => not_paused(&url, writer.as_deref()),
            error => unreachable(&error),
        })?;
        match self.output {
            Output::Json => print_json(&json!({ "state": url, "status": "resumed" })),
            Output::Table => {
                let (name, term) = (last.holder.name, last.term);
                print(&format!(
                    "ended the pause of {url} (last writer '{name}', term {term})\nthe first eligible member becomes the writer\n"
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn not_paused(url: &str, writer: Option<&WriterRecord>) -> Failure {
    let reason = match writer {
        None => "no cluster has used this state".to_owned(),
        Some(writer) => format!("the writer {} (term {})", state_of(writer), writer.term),
    };
    Failure::new(Exit::Failed, format!("the cluster on {url} is not paused: {reason}"))
}
