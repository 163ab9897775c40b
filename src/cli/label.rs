//! `slateberg label`: labels of tables, views and columns of a running server.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, body, query};
use super::exit::Outcome;
use super::output::table;
use slateberg_management::labels::{Labels, UpdateLabelsRequest};

const PATH: &str = "/management/v1/labels";

/// Show, set and remove labels of tables, views and columns.
#[derive(Debug, Args)]
pub struct LabelCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the labels of a table or view and of its columns
    Show(Show),
    /// Set labels of a table, view or column
    Set(Set),
    /// Remove labels of a table, view or column
    #[command(visible_alias = "rm")]
    Remove(Remove),
}

#[derive(Debug, Args)]
struct Show {
    /// Resource, as table:WAREHOUSE/LEVEL.../NAME or view:...
    resource: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Set {
    #[command(flatten)]
    labeled: Labeled,
    /// Labels to set
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Remove {
    #[command(flatten)]
    labeled: Labeled,
    /// Keys of the labels to remove
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Labeled {
    /// Resource, as table:WAREHOUSE/LEVEL.../NAME or view:...
    resource: String,
    /// Full name of a column, such as customer.email. Without it, the table or view itself
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Id of a column, such as a column that the current schema does not contain
    #[arg(long, value_name = "ID", conflicts_with = "column")]
    field_id: Option<i32>,
}

impl LabelCommand {
    /// Changes labels if the command says so, and prints the labels.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::Show(Show { resource, connection }) => {
                    let path = format!("{PATH}{}", query(&[("resource", Some(resource))]));
                    let shown = connection.send("GET", &path, &Value::Null).await?;
                    connection.render(shown, text)
                }
                Command::Set(Set { labeled, labels, connection }) => {
                    let set = labels.into_iter().collect();
                    update(&connection, labeled, set, Vec::new()).await
                }
                Command::Remove(Remove { labeled, keys, connection }) => {
                    update(&connection, labeled, BTreeMap::new(), keys).await
                }
            }
        })
    }
}

async fn update(
    connection: &Connection,
    labeled: Labeled,
    set: BTreeMap<String, String>,
    remove: Vec<String>,
) -> Result<String, ClientError> {
    let Labeled { resource, column, field_id } = labeled;
    let request = UpdateLabelsRequest { resource, field_id, column, set, remove };
    let updated = connection.send("POST", PATH, &body(&request)?).await?;
    connection.render(updated, text)
}

fn label(argument: &str) -> Result<(String, String), String> {
    match argument.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("expected KEY=VALUE".to_owned()),
    }
}

fn text(labels: Labels) -> String {
    let Labels { object_labels, fields, .. } = labels;
    let object = object_labels.into_iter().map(|(key, value)| [String::new(), key, value]);
    let fields = fields.into_iter().flat_map(|field| {
        let column = field.column.unwrap_or_else(|| format!("field {}", field.field_id));
        field.labels.into_iter().map(move |(key, value)| [column.clone(), key, value])
    });
    let rows: Vec<_> = object.chain(fields).collect();
    table(["COLUMN", "KEY", "VALUE"], &rows)
}
