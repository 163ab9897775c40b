//! `slateberg namespace`: drops namespaces of a running server.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, body};
use super::exit::Outcome;
use super::ls::{Warehouse, joined, split};
use super::output::{count, table};
use slateberg_management::namespaces::{DropNamespaceRequest, DroppedNamespace};

const PATH: &str = "/management/v1/namespaces/drop";

/// Drop namespaces.
#[derive(Debug, Args)]
pub struct Namespace {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drop an empty namespace. With --recursive, list what a recursive drop would drop. With
    /// --recursive --delete, drop the namespace and everything in it
    Drop(DropNamespace),
}

#[derive(Debug, Args)]
struct DropNamespace {
    /// Namespace, as WAREHOUSE/LEVEL...
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// Include all namespaces, tables, views and functions in it
    #[arg(long, short)]
    recursive: bool,
    /// Drop them instead of listing them. `undrop` restores the namespace and everything in it
    #[arg(long, requires = "recursive")]
    delete: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Namespace {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        let Command::Drop(drop) = self.command;
        run_online(drop.run())
    }
}

impl DropNamespace {
    async fn run(self) -> Result<String, ClientError> {
        let names = split(self.name.strip_prefix("namespace:").unwrap_or(&self.name));
        let ([warehouse, levels @ ..], 2..) = (names.as_slice(), names.len()) else {
            return Err(ClientError::Input(format!(
                "not a namespace: '{}'. Write WAREHOUSE/LEVEL..., such as default/sales",
                self.name
            )));
        };
        let resource = format!("namespace:{}", joined(&names));
        if self.recursive {
            return self.run_recursively(resource).await;
        }
        let warehouse = Warehouse::open(&self.connection, Some(warehouse)).await?;
        self.connection.send("DELETE", &warehouse.namespace(levels), &Value::Null).await?;
        Ok(self.connection.done("dropped", &resource))
    }

    async fn run_recursively(&self, resource: String) -> Result<String, ClientError> {
        let request = DropNamespaceRequest { resource, dry_run: !self.delete };
        let dropped = self.connection.send("POST", PATH, &body(&request)?).await?;
        self.connection.render(dropped, |dropped| text(&dropped, self.delete))
    }
}

/// Formats the resources that were dropped or would be dropped.
fn text(dropped: &DroppedNamespace, delete: bool) -> String {
    let DroppedNamespace { namespaces, tables, views, functions, protected } = dropped;
    let verb = if delete { "Dropped" } else { "Would drop" };
    let mut text = format!(
        "{verb} {}, {}, {}, {}\n",
        count(namespaces.len(), "namespace", "namespaces"),
        count(tables.len(), "table", "tables"),
        count(views.len(), "view", "views"),
        count(functions.len(), "function", "functions")
    );
    if delete {
        return text;
    }
    let row = |resource: &String| {
        let state = if protected.contains(resource) { "protected" } else { "" };
        [resource.clone(), state.to_owned()]
    };
    let all = namespaces.iter().chain(tables).chain(views).chain(functions);
    let rows: Vec<_> = all.map(row).collect();
    text.push_str(&table(["RESOURCE", ""], &rows));
    if let Some(first) = protected.first() {
        text.push_str(&format!(
            "Cannot drop protected resources. Lift their protections first: slateberg unprotect {first}\n"
        ));
    }
    text
}
