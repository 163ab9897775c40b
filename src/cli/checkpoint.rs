//! `slateberg checkpoint`: the checkpoints of a running server or, with `--offline`, of a store
//! that no server uses.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::arguments::Common;
use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path, parse};
use super::duration::{duration, hours};
use super::exit::Outcome;
use super::output::print;
use super::output::{Output, json_text, table, time};
use slateberg_config::Settings;
use slateberg_management::checkpoints::{
    Checkpoint as CheckpointInfo, CheckpointList, CreateCheckpointRequest,
};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline_writer::{OfflineError, OfflineWriter};
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
    /// Create a checkpoint of the current state, without copying data
    Create(Create),
    /// List the checkpoints
    #[command(visible_alias = "ls")]
    List(List),
    /// Delete a checkpoint. Data that nothing else needs is then garbage-collected
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

/// The catalog to work on: a running server, or the store.
#[derive(Debug, Args)]
struct Target {
    /// Open the catalog's storage directly instead of calling a running server. The server must be
    /// stopped
    #[arg(long, conflicts_with_all = ["url", "api_key", "ca_cert", "client_cert"])]
    offline: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the checkpoint. Without a name, the checkpoint has only an ID
    name: Option<String>,
    /// Lifetime, such as 7d or 24h [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "expires_in", value_parser = hours)]
    expires_in_hours: Option<Duration>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name or ID, as `list` prints them
    checkpoint: String,
    #[command(flatten)]
    target: Target,
}

impl Checkpoint {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        let target = match &self.command {
            Command::Create(create) => &create.target,
            Command::List(list) => &list.target,
            Command::Delete(delete) => &delete.target,
        };
        if !target.offline {
            return run_online(self.send_request());
        }
        target.common.run_offline(async |settings| {
            print(&self.run_offline(settings).await?);
            Ok::<_, OfflineError>(ExitCode::SUCCESS)
        })
    }

    /// Calls a running server.
    async fn send_request(self) -> Result<String, ClientError> {
        match self.command {
            Command::Create(Create { name, expires_in, expires_in_hours, target }) => {
                let lifetime_seconds = expires_in.or(expires_in_hours).map(|it| it.as_secs());
                let request = CreateCheckpointRequest { name, lifetime_seconds };
                let created = target.connection.send("POST", PATH, &body(&request)?).await?;
                match target.connection.output {
                    Output::Json => Ok(json_text(&created)),
                    Output::Table => Ok(created_line(&parse(created)?)),
                }
            }
            Command::List(List { target }) => {
                let listed = target.connection.send("GET", PATH, &Value::Null).await?;
                match target.connection.output {
                    Output::Json => Ok(json_text(&listed)),
                    Output::Table => Ok(rows(&parse(listed)?)),
                }
            }
            Command::Delete(Delete { checkpoint, target }) => {
                let path = child_path(PATH, &checkpoint);
                target.connection.send("DELETE", &path, &Value::Null).await?;
                Ok(target.connection.done("deleted", &checkpoint))
            }
        }
    }

    /// Opens the store and works on it directly.
    async fn run_offline(&self, settings: &Settings) -> Result<String, OfflineError> {
        let dependencies = Dependencies::default();
        let catalog = OfflineWriter::open(settings, &dependencies).await?;
        let result = match &self.command {
            Command::Create(Create { name, expires_in, expires_in_hours, target }) => {
                let seconds = expires_in.or(*expires_in_hours).map(|lifetime| lifetime.as_secs());
                let created = catalog.create_checkpoint(name.clone(), seconds).await;
                created.map(|created| match target.connection.output {
                    Output::Json => json_text(&info(created)),
                    Output::Table => created_line(&info(created)),
                })
            }
            Command::List(List { target }) => catalog.checkpoints().await.map(|all| {
                let listed = CheckpointList { checkpoints: all.into_iter().map(info).collect() };
                match target.connection.output {
                    Output::Json => json_text(&listed),
                    Output::Table => rows(&listed),
                }
            }),
            Command::Delete(Delete { checkpoint, target }) => {
                let deleted = catalog.delete_checkpoint(checkpoint).await;
                deleted.map(|()| target.connection.done("deleted", checkpoint))
            }
        };
        let closed = catalog.close().await;
        let result = result?;
        closed.map(|()| result)
    }
}

/// Returns a checkpoint in the form of the server's response.
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

fn row(checkpoint: &CheckpointInfo) -> [String; 4] {
    let created = time(Some(checkpoint.created_at_ms));
    let expires = match checkpoint.expires_at_ms {
        None => "never".to_owned(),
        at_ms => time(at_ms),
    };
    let name = checkpoint.name.clone().unwrap_or_else(|| "-".to_owned());
    [checkpoint.id.to_string(), name, created, expires]
}
