//! `slateberg checkpoint`: states of the catalog that it can be taken back to, on a running server or, while
//! none runs, in the store itself.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{ClientError, Connection, below};
use super::exit::Outcome;
use super::output::{Output, span, table, text};
use super::{Common, ask_server, print};
use crate::app::build::Seams;
use crate::app::stopped::{StoppedCatalog, StoppedError};
use crate::base::clock::{Clock, SystemClock};
use crate::base::rfc3339;
use crate::config::Settings;
use crate::store::checkpoints::Checkpoint as Kept;

const PATH: &str = "/management/v1/checkpoints";
const HOUR_SECONDS: u64 = 60 * 60;

/// Make, list and delete checkpoints.
#[derive(Debug, Args)]
pub struct Checkpoint {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep the state of the catalog as it is now, without a copy
    Create(Create),
    /// List what is kept
    List(List),
    /// Keep a state no longer: what only it needs is garbage then
    Delete(Delete),
}

/// Whom to speak to.
#[derive(Debug, Args)]
struct Whom {
    /// Work on the store itself, while no server runs on it, instead of asking one
    #[arg(long, conflicts_with_all = ["url", "api_key", "ca_cert", "client_cert"])]
    offline: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// What it is to be called
    name: Option<String>,
    /// Hours after which it may be forgotten [default: never]
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(1..=876_000))]
    expires_in_hours: Option<u64>,
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
    /// Its name or its id, as `list` shows them
    checkpoint: String,
    #[command(flatten)]
    whom: Whom,
}

impl Checkpoint {
    /// Does it, and says what came of it.
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

    /// Asks a server.
    async fn ask(self) -> Result<String, ClientError> {
        match self.command {
            Command::Create(Create { name, expires_in_hours, whom }) => {
                let mut body = json!({});
                if let Some(name) = name {
                    body["name"] = json!(name);
                }
                if let Some(hours) = expires_in_hours {
                    body["lifetime-seconds"] = json!(hours * HOUR_SECONDS);
                }
                let made = whom.connection.send("POST", PATH, &body).await?;
                Ok(told(&whom.connection, &made))
            }
            Command::List(List { whom }) => {
                let listed = whom.connection.send("GET", PATH, &Value::Null).await?;
                Ok(told_all(&whom.connection, &listed))
            }
            Command::Delete(Delete { checkpoint, whom }) => {
                let path = below(PATH, &checkpoint);
                whom.connection.send("DELETE", &path, &Value::Null).await?;
                Ok(told_deleted(&whom.connection, &checkpoint))
            }
        }
    }

    /// Does it without one.
    async fn work(&self, settings: &Settings) -> Result<String, StoppedError> {
        let seams = Seams::default();
        let catalog = StoppedCatalog::open(settings, &seams).await?;
        let done = match &self.command {
            Command::Create(Create { name, expires_in_hours, whom }) => {
                let seconds = expires_in_hours.map(|hours| hours * HOUR_SECONDS);
                let made = catalog.create_checkpoint(name.clone(), seconds).await;
                made.map(|made| told(&whom.connection, &shown(&made)))
            }
            Command::List(List { whom }) => catalog.checkpoints().await.map(|all| {
                let all: Vec<_> = all.iter().map(shown).collect();
                told_all(&whom.connection, &json!({ "checkpoints": all }))
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

/// A checkpoint as a server would tell it.
fn shown(checkpoint: &Kept) -> Value {
    json!({
        "id": checkpoint.id,
        "name": checkpoint.name,
        "created-at-ms": checkpoint.created_ms,
        "expires-at-ms": checkpoint.expires_ms,
    })
}

fn told(connection: &Connection, made: &Value) -> String {
    match connection.output {
        Output::Json => format!("{made:#}\n"),
        Output::Table => {
            let name = made["name"].as_str().map_or(String::new(), |name| format!("  {name}"));
            format!("checkpoint {}{name}\n", text(&made["id"]))
        }
    }
}

fn told_all(connection: &Connection, listed: &Value) -> String {
    if connection.output == Output::Json {
        return format!("{listed:#}\n");
    }
    let all = listed["checkpoints"].as_array().cloned().unwrap_or_default();
    let rows: Vec<_> = all.iter().map(row).collect();
    table(["ID", "NAME", "CREATED", "EXPIRES"], &rows)
}

fn told_deleted(connection: &Connection, word: &str) -> String {
    match connection.output {
        Output::Json => format!("{:#}\n", json!({ "deleted": word })),
        Output::Table => format!("deleted {word}\n"),
    }
}

fn row(checkpoint: &Value) -> [String; 4] {
    let created = checkpoint["created-at-ms"].as_i64().map_or("-".to_owned(), rfc3339::format);
    let left = |at_ms: i64| format!("in {}", span((at_ms - SystemClock.now_ms()).max(0)));
    let expires = checkpoint["expires-at-ms"].as_i64().map_or("never".to_owned(), left);
    let name = match text(&checkpoint["name"]) {
        name if name.is_empty() => "-".to_owned(),
        name => name,
    };
    [text(&checkpoint["id"]), name, created, expires]
}
