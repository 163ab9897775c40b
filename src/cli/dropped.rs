//! `slateberg dropped` and `slateberg undrop`: dropped namespaces, tables and views of a running
//! server.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path, parse};
use super::exit::Outcome;
use super::output::{Output, count, json_text, principal, table, time};
use slateberg_management::dropped::{DroppedList, DroppedResource, UndropRequest, UndropResult};

const PATH: &str = "/management/v1/dropped";

/// List dropped namespaces, tables and views, or delete them for good.
#[derive(Debug, Args)]
pub struct Dropped {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the dropped namespaces, tables and views that you may restore, the last dropped one first
    #[command(visible_alias = "ls")]
    List(List),
    /// Delete a dropped namespace, table or view now, before its retention ends. It cannot be
    /// restored afterwards
    Delete(Delete),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Delete {
    /// ID of the dropped namespace, table or view, as `list` prints it
    id: String,
    /// Also delete the files of the table
    #[arg(long)]
    purge: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Restore a dropped table or view, or a dropped namespace with everything that was dropped with
/// it.
#[derive(Debug, Args)]
pub struct Undrop {
    /// Former name, as namespace:WAREHOUSE/LEVEL..., table:WAREHOUSE/LEVEL.../NAME or
    /// view:WAREHOUSE/LEVEL.../NAME
    resource: String,
    /// ID, if several resources with this name were dropped [default: the one that was dropped last]
    #[arg(long)]
    id: Option<Uuid>,
    /// New name in the same warehouse, written like RESOURCE [default: the former name]
    #[arg(long = "as", value_name = "RESOURCE")]
    new_name: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Dropped {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Delete(delete) => delete.run().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        self.connection.render(listed, |DroppedList { mut dropped, .. }| {
            dropped.sort_by_key(|it| std::cmp::Reverse(it.dropped_at_ms));
            let rows: Vec<_> = dropped.iter().map(row).collect();
            table(["ID", "RESOURCE", "DROPPED", "BY", "KEPT UNTIL", "FILES"], &rows)
        })
    }
}

fn row(dropped: &DroppedResource) -> [String; 6] {
    [
        dropped.id.to_string(),
        dropped.resource.clone(),
        time(Some(dropped.dropped_at_ms)),
        principal(&dropped.dropped_by, dropped.dropped_by_name.as_deref()),
        time(Some(dropped.expires_at_ms)),
        match (&dropped.location, dropped.purge) {
            (None, _) => "-",
            (Some(_), true) => "deleted then",
            (Some(_), false) => "stay",
        }
        .to_owned(),
    ]
}

impl Delete {
    async fn run(self) -> Result<String, ClientError> {
        let Self { id, purge, connection } = self;
        let path = format!("{}?purge={purge}", child_path(PATH, &id));
        connection.send("DELETE", &path, &Value::Null).await?;
        Ok(match (connection.output, purge) {
            (Output::Json, _) => json_text(&json!({ "deleted": id, "purge": purge })),
            (Output::Table, true) => format!("deleted {id}; a background job deletes its files\n"),
            (Output::Table, false) => format!("deleted {id}; no file is deleted\n"),
        })
    }
}

impl Undrop {
    /// Restores the namespace, table or view and prints its name.
    pub fn run(self) -> Outcome {
        run_online(async {
            let Self { resource, id, new_name, connection } = self;
            let request = UndropRequest { resource, id, new_name };
            let path = format!("{PATH}/undrop");
            let restored = connection.send("POST", &path, &body(&request)?).await?;
            Ok(match connection.output {
                Output::Json => json_text(&restored),
                Output::Table => {
                    let UndropResult { resource, restored, .. } = parse(restored)?;
                    match restored.len() {
                        0 | 1 => format!("restored {resource}\n"),
                        more => format!(
                            "restored {resource} with {} in it\n",
                            count(more - 1, "resource", "resources")
                        ),
                    }
                }
            })
        })
    }
}
