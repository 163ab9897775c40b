//! `slateberg history`: the changes of a resource, or of the whole catalog.

use clap::Args;
use serde_json::Value;
use uuid::Uuid;

use super::client::run_online;
use super::client::{Connection, query};
use super::exit::Outcome;
use super::output::{principal, table, time};
use slateberg_management::history::{HistoryEntry, HistoryResponse};

const PATH: &str = "/management/v1/history";

/// Show who changed what and when, the newest change first.
#[derive(Debug, Args)]
pub struct History {
    /// Resource, as table:WAREHOUSE/LEVEL.../NAME, view:..., namespace:WAREHOUSE/LEVEL... or
    /// warehouse:NAME. For a warehouse, also shows the changes of everything in it [default: the
    /// whole catalog]
    resource: Option<String>,
    /// Show only changes of the namespace, table or view with this ID, for example of a dropped
    /// table
    #[arg(long)]
    id: Option<Uuid>,
    /// Maximum number of changes
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: u32,
    /// Show only changes before change NUMBER. If there are more changes, the last line of the
    /// output contains the NUMBER to continue with
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

impl History {
    /// Prints the changes.
    pub fn run(self) -> Outcome {
        run_online(async {
            let Self { resource, id, limit, before, connection } = self;
            let parameters = query(&[
                ("resource", resource),
                ("id", id.map(|id| id.to_string())),
                ("pageSize", Some(limit.to_string())),
                ("before", before.map(|before| before.to_string())),
            ]);
            let found =
                connection.send("GET", &format!("{PATH}{parameters}"), &Value::Null).await?;
            connection.render(found, |HistoryResponse { entries, next_before }| {
                let rows: Vec<_> = entries.iter().map(row).collect();
                let columns = ["TIME", "ACTION", "NAME", "VERSION", "BY", "REQUEST", "ALLOWED BY"];
                let more = next_before.map(|before| format!("More: add --before {before}\n"));
                table(columns, &rows) + &more.unwrap_or_default()
            })
        })
    }
}

fn row(entry: &HistoryEntry) -> [String; 7] {
    let name = match &entry.warehouse {
        Some(warehouse) if *warehouse != entry.name => format!("{warehouse}: {}", entry.name),
        _ => entry.name.clone(),
    };
    let version = match (entry.version_before, entry.version_after) {
        (_, Some(version)) => version.to_string(),
        (Some(version), None) => format!("{version} (removed)"),
        (None, None) => String::new(),
    };
    [
        time(Some(entry.at_ms)),
        entry.action.clone(),
        name,
        version,
        principal(&entry.principal, entry.principal_name.as_deref()),
        entry.request_id.clone().unwrap_or_default(),
        entry.policies.clone().unwrap_or_default().join(", "),
    ]
}
