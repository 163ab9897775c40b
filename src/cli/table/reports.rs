//! `slateberg table reports`: the metrics reports of a table.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cli::client::{ClientError, Connection, parse, query};
use crate::cli::ls::{joined, split};
use crate::cli::output::{Output, grouped, json_text, principal, table, time};
use slateberg_management::tables::{MetricsReport, MetricsReportList};

const PATH: &str = "/management/v1/tables/metrics-reports";

/// Options of `slateberg table reports`.
#[derive(Debug, Args)]
pub(super) struct Reports {
    /// Table, as WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    name: String,
    /// Show only reports of this type
    #[arg(long = "type", value_enum)]
    only: Option<ReportType>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReportType {
    Scan,
    Commit,
}

impl Reports {
    pub(super) async fn run(self) -> Result<String, ClientError> {
        let name = self.name.strip_prefix("table:").unwrap_or(&self.name);
        let only = self.only.map(|only| match only {
            ReportType::Scan => "scan-report".to_owned(),
            ReportType::Commit => "commit-report".to_owned(),
        });
        let resource = Some(format!("table:{}", joined(&split(name))));
        let parameters = query(&[("resource", resource), ("type", only)]);
        let path = format!("{PATH}{parameters}");
        let listed = self.connection.send("GET", &path, &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&listed),
            Output::Table => text(&parse(listed)?),
        })
    }
}

fn text(listed: &MetricsReportList) -> String {
    if listed.reports.is_empty() {
        return "No client has sent a report of this table\n".to_owned();
    }
    let rows: Vec<_> = listed.reports.iter().map(row).collect();
    let headings = ["RECEIVED", "BY", "TYPE", "SNAPSHOT", "FILES", "DURATION", "FILTER"];
    table(headings, &rows)
}

fn row(it: &MetricsReport) -> [String; 7] {
    let MetricsReport { received_at_ms, reported_by, reported_by_name, report } = it;
    let metrics = &report["metrics"];
    let (kind, files, duration) = match report["report-type"].as_str() {
        Some("commit-report") => {
            let operation = report["operation"].as_str().unwrap_or("commit");
            (operation, &metrics["added-data-files"], &metrics["total-duration"])
        }
        _ => ("scan", &metrics["result-data-files"], &metrics["total-planning-duration"]),
    };
    [
        time(Some(*received_at_ms)),
        principal(reported_by, reported_by_name.as_deref()),
        kind.to_owned(),
        report["snapshot-id"].to_string(),
        files["value"].as_u64().map_or_else(String::new, grouped),
        duration_text(duration),
        report.get("filter").map_or_else(String::new, Value::to_string),
    ]
}

/// Returns the total of a timer, such as `12.4ms`.
fn duration_text(timer: &Value) -> String {
    let Some(total) = timer["total-duration"].as_u64() else { return String::new() };
    let of: fn(u64) -> Duration = match timer["time-unit"].as_str() {
        Some("nanoseconds") => Duration::from_nanos,
        Some("microseconds") => Duration::from_micros,
        Some("milliseconds") => Duration::from_millis,
        Some("seconds") => Duration::from_secs,
        _ => return total.to_string(),
    };
    format!("{:.1?}", of(total))
}
