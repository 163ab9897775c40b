//! `slateberg table usage`: how often tables are loaded, scanned and changed.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cli::client::{ClientError, Connection, parse, query};
use crate::cli::ls::{joined, split};
use crate::cli::output::{Output, grouped, json_text, principal, table, time};
use slateberg_management::tables::{TableUsage, TableUsageList};

const PATH: &str = "/management/v1/tables/usage";

/// Options of `slateberg table usage`.
#[derive(Debug, Args)]
pub(super) struct Usage {
    /// Table, as WAREHOUSE/LEVEL.../NAME. Without it, the tables of a warehouse
    #[arg(value_name = "TABLE")]
    name: Option<String>,
    /// Warehouse whose tables to list
    #[arg(long, default_value = "default", conflicts_with = "name")]
    warehouse: String,
    /// Tables to list first
    #[arg(long, value_enum, default_value_t = Sort::LeastRecentlyRead, conflicts_with = "name")]
    sort: Sort,
    /// Maximum number of tables
    #[arg(long, value_name = "NUMBER", default_value_t = 100, conflicts_with = "name")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    LeastRecentlyRead,
    MostRead,
}

impl Sort {
    fn as_str(self) -> &'static str {
        match self {
            Self::LeastRecentlyRead => "least-recently-read",
            Self::MostRead => "most-read",
        }
    }
}

impl Usage {
    pub(super) async fn run(self) -> Result<String, ClientError> {
        let parameters = match &self.name {
            Some(name) => {
                let name = name.strip_prefix("table:").unwrap_or(name);
                query(&[("resource", Some(format!("table:{}", joined(&split(name)))))])
            }
            None => query(&[
                ("warehouse", Some(self.warehouse.clone())),
                ("sort", Some(self.sort.as_str().to_owned())),
                ("pageSize", Some(self.limit.to_string())),
            ]),
        };
        let path = format!("{PATH}{parameters}");
        let listed = self.connection.send("GET", &path, &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&listed),
            Output::Table => text(&parse(listed)?),
        })
    }
}

fn text(listed: &TableUsageList) -> String {
    let rows: Vec<_> = listed.tables.iter().map(row).collect();
    let more = match &listed.next_page_token {
        Some(_) => "There are more tables. Raise --limit\n",
        None => "",
    };
    let headings =
        ["RESOURCE", "LOADS", "SCANS", "COMMITS", "LAST READ", "BY", "LAST COMMIT", "BY"];
    format!("{}{more}", table(headings, &rows))
}

fn row(usage: &TableUsage) -> [String; 8] {
    let by = |id: Option<&String>, name: Option<&String>| {
        id.map_or_else(String::new, |id| principal(id, name.map(String::as_str)))
    };
    [
        usage.resource.clone(),
        grouped(usage.loads),
        grouped(usage.scans),
        grouped(usage.commits),
        usage.last_read_at_ms.map_or_else(|| "never".to_owned(), |ms| time(Some(ms))),
        by(usage.last_read_by.as_ref(), usage.last_read_by_name.as_ref()),
        usage.last_commit_at_ms.map_or_else(|| "never".to_owned(), |ms| time(Some(ms))),
        by(usage.last_commit_by.as_ref(), usage.last_commit_by_name.as_ref()),
    ]
}
