//! `slateberg checkpoint`: the checkpoints of a running server, or of the store itself while no
//! server uses it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::arguments::Common;
use super::client::ask_server;
use super::client::{ClientError, Connection, below, body, parse};
use super::duration::{duration, hours};
use super::exit::Outcome;
use super::output::print;
use super::output::{Output, json_text, table, time};
use slateberg_config::Settings;
use slateberg_management::checkpoints::{
    Checkpoint as CheckpointInfo, CheckpointList, CreateCheckpointRequest,
};
use slateberg_runtime::seams::Seams;
use slateberg_runtime::stopped::{StoppedCatalog, StoppedError};
use slateberg_store::checkpoints::Checkpoint as Kept;

const PATH: &str = "/management/v1/checkpoints";

/// Create, list and delete checkpoints.
#[derive(Debug, Args)]
pub struct Checkpoint {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep the present state of the catalog, without copying it
    Create(Create),
    /// List the checkpoints
    #[command(visible_alias = "ls")]
    List(List),
    /// Delete a checkpoint. Data that only it references is garbage-collected
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

/// The catalog to work on: a running server, or the store.
#[derive(Debug, Args)]
struct Whom {
    /// Work on the store itself while no server uses it, instead of on a running server
    #[arg(long, conflicts_with_all = ["url", "api_key", "ca_cert", "client_cert"])]
    offline: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the checkpoint [default: none, only an id]
    name: Option<String>,
    /// Lifetime, such as 7d or 24h [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "expires_in", value_parser = hours)]
    expires_in_hours: Option<Duration>,
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name or ID, as `list` prints them
    checkpoint: String,
    #[command(flatten)]
    whom: Whom,
}

impl Checkpoint {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        let whom = match &self.command {
            Command::Create(create) => &create.whom,
            Command::List(list) => &list.whom,
            Command::Delete(delete) => &delete.whom,
        };
        if !whom.offline {
            return ask_server(self.ask());
        }
        whom.common.work(async |settings| {
            print(&self.work(settings).await?);
            Ok::<_, StoppedError>(ExitCode::SUCCESS)
        })
    }

    /// Works on a running server.
    async fn ask(self) -> Result<String, ClientError> {
        match self.command {
            Command::Create(Create { name, expires_in, expires_in_hours, whom }) => {
                let lifetime_seconds = expires_in.or(expires_in_hours).map(|it| it.as_secs());
                let request = CreateCheckpointRequest { name, lifetime_seconds };
                let created = whom.connection.send("POST", PATH, &body(&request)?).await?;
                match whom.connection.output {
                    Output::Json => Ok(json_text(&created)),
                    Output::Table => Ok(created_line(&parse(created)?)),
                }
            }
            Command::List(List { whom }) => {
                let listed = whom.connection.send("GET", PATH, &Value::Null).await?;
                match whom.connection.output {
                    Output::Json => Ok(json_text(&listed)),
                    Output::Table => Ok(rows(&parse(listed)?)),
                }
            }
            Command::Delete(Delete { checkpoint, whom }) => {
                let path = below(PATH, &checkpoint);
                whom.connection.send("DELETE", &path, &Value::Null).await?;
                Ok(told_deleted(&whom.connection, &checkpoint))
            }
        }
    }

    /// Works on the store.
    async fn work(&self, settings: &Settings) -> Result<String, StoppedError> {
        let seams = Seams::default();
        let catalog = StoppedCatalog::open(settings, &seams).await?;
        let done = match &self.command {
            Command::Create(Create { name, expires_in, expires_in_hours, whom }) => {
                let seconds = expires_in.or(*expires_in_hours).map(|lifetime| lifetime.as_secs());
                let made = catalog.create_checkpoint(name.clone(), seconds).await;
                made.map(|made| match whom.connection.output {
                    Output::Json => json_text(&json!(info(made))),
                    Output::Table => created_line(&info(made)),
                })
            }
            Command::List(List { whom }) => catalog.checkpoints().await.map(|all| {
                let listed = CheckpointList { checkpoints: all.into_iter().map(info).collect() };
                match whom.connection.output {
                    Output::Json => json_text(&json!(listed)),
                    Output::Table => rows(&listed),
                }
            }),
            Command::Delete(Delete { checkpoint, whom }) => {
                let deleted = catalog.delete_checkpoint(checkpoint).await;
                deleted.map(|()| told_deleted(&whom.connection, checkpoint))
            }
        };
        let closed = catalog.close().await;
        let done = done?;
        closed.map(|()| done)
    }
}

/// Returns a checkpoint as the server does.
fn info(checkpoint: Kept) -> CheckpointInfo {
    CheckpointInfo {
        id: checkpoint.id,
        name: checkpoint.name,
        created_at_ms: checkpoint.created_ms,
        expires_at_ms: checkpoint.expires_ms,
    }
}

fn created_line(created: &CheckpointInfo) -> String {
    let name = created.name.as_ref().map_or(String::new(), |name| format!("  {name}"));
    format!("checkpoint {}{name}\n", created.id)
}

fn rows(listed: &CheckpointList) -> String {
    let rows: Vec<_> = listed.checkpoints.iter().map(row).collect();
    table(["ID", "NAME", "CREATED", "EXPIRES"], &rows)
}

fn told_deleted(connection: &Connection, word: &str) -> String {
    match connection.output {
        Output::Json => json_text(&json!({ "deleted": word })),
        Output::Table => format!("deleted {word}\n"),
    }
}

fn row(checkpoint: &CheckpointInfo) -> [String; 4] {
    let created = time(Some(checkpoint.created_at_ms));
    let expires = match checkpoint.expires_at_ms {
        None => "never".to_owned(),
        at_ms => time(at_ms),
    };
    let name = checkpoint.name.clone().unwrap_or_else(|| "-".to_owned());
    [checkpoint.id.to_string(), name, created, expires]
}
