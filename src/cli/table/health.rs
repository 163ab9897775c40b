//! `slateberg table health`: what to compact and what to expire.

use clap::Args;
use serde_json::Value;

use crate::cli::client::{ClientError, Connection, parse, query};
use crate::cli::ls::{joined, split};
use crate::cli::output::{Output, bytes, count, grouped, json_text, lines_of, time};
use slateberg_base::rfc3339;
use slateberg_management::tables::{StatementProgram, TableGrowth, TableHealth};

const PATH: &str = "/management/v1/tables/health";

/// Options of `slateberg table health`.
#[derive(Debug, Args)]
pub(super) struct Health {
    /// Table, as WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    name: String,
    #[command(flatten)]
    connection: Connection,
}

impl Health {
    pub(super) async fn run(self) -> Result<String, ClientError> {
        let name = self.name.strip_prefix("table:").unwrap_or(&self.name);
        let name = joined(&split(name));
        let parameters = query(&[("resource", Some(format!("table:{name}")))]);
        let path = format!("{PATH}{parameters}");
        let health = self.connection.send("GET", &path, &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&health),
            Output::Table => text(&name, &parse(health)?),
        })
    }
}

fn text(name: &str, health: &TableHealth) -> String {
    let TableHealth { data_files, delete_files, manifests, metadata, snapshots, .. } = health;
    let row = |name: &str, value: String| [name.to_owned(), value];
    let at_least = if health.complete { "" } else { "more than " };
    let mut rows = vec![
        row("table", name.to_owned()),
        row(
            "data files",
            format!(
                "{at_least}{}, {}, {} rows, {}",
                grouped(data_files.files),
                bytes(data_files.bytes),
                grouped(data_files.rows),
                count_of(data_files.partitions, "partition", "partitions")
            ),
        ),
        row(
            "small data files",
            format!(
                "{}, {} (the target is {} for each file)",
                grouped(data_files.small_files),
                bytes(data_files.small_bytes),
                bytes(data_files.target_bytes)
            ),
        ),
        row(
            "delete files",
            format!(
                "{} by position, {} by value, {}, {}",
                grouped(delete_files.position_files),
                grouped(delete_files.equality_files),
                count_of(delete_files.vectors, "deletion vector", "deletion vectors"),
                bytes(delete_files.bytes)
            ),
        ),
        row(
            "manifests",
            format!(
                "{} of data files, {} of delete files, {}",
                grouped(manifests.data),
                grouped(manifests.delete),
                bytes(manifests.bytes)
            ),
        ),
        row("manifest list", bytes(metadata.manifest_list_bytes)),
        row(
            "metadata",
            format!(
                "{}, {}",
                bytes(metadata.bytes),
                count_of(metadata.previous_files, "earlier file", "earlier files")
            ),
        ),
        row(
            "snapshots",
            format!(
                "{}, {} expired, {}",
                grouped(snapshots.snapshots),
                snapshots.expired.map_or("an unknown number".to_owned(), grouped),
                count_of(snapshots.refs, "branch or tag", "branches and tags")
            ),
        ),
        row("oldest snapshot", time(snapshots.oldest_at_ms)),
        row("newest snapshot", time(snapshots.newest_at_ms)),
    ];
    rows.extend(health.growth.as_ref().map(|it| row("growth", growth(it))));
    format!("{}\n{}", lines_of(&rows), advice(health))
}

fn count_of(number: u64, one: &str, many: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), one, many)
}

fn growth(growth: &TableGrowth) -> String {
    let signed = |difference: Option<i64>, unit: fn(u64) -> String| match difference {
        None => "an unknown number".to_owned(),
        Some(number) => {
            let sign = if number < 0 { "-" } else { "+" };
            format!("{sign}{}", unit(number.unsigned_abs()))
        }
    };
    format!(
        "{} data files, {} delete files, {}, {} rows in {} since {}",
        signed(growth.data_files, grouped),
        signed(growth.delete_files, grouped),
        signed(growth.bytes, bytes),
        signed(growth.rows, grouped),
        count_of(growth.snapshots, "snapshot", "snapshots"),
        rfc3339::format_seconds(growth.from_at_ms)
    )
}

/// Formats the advice, each with its reason and its statement.
fn advice(health: &TableHealth) -> String {
    if health.advice.is_empty() {
        return "There is nothing to compact or to expire\n".to_owned();
    }
    let item = |(number, advice): (usize, &slateberg_management::tables::TableAdvice)| {
        let run = match advice.run_with {
            StatementProgram::Slateberg => "Run",
            _ => "Run in Spark",
        };
        format!("{number}. {}. {run}:\n   {}\n", capitalized(&advice.reason), advice.statement)
    };
    (1..).zip(&health.advice).map(item).collect()
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
