//! `slateberg plan`: explains which files a scan reads.

mod filter;

use clap::Args;
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, body, parse};
use super::exit::Outcome;
use super::ls::{joined, split};
use super::output::{Output, bytes, grouped, json_text, lines_of};
use slateberg_management::scans::{ExplainScanRequest, ScanExplanation};

const PATH: &str = "/management/v1/scans/explain";

/// Show which files a scan would read, and what prunes the others.
#[derive(Debug, Args)]
pub struct Plan {
    /// Table, as WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    name: String,
    /// Filter, such as "region = 'eu' and id > 5", or an Iceberg expression as JSON
    #[arg(long, value_parser = filter::parse)]
    filter: Option<Value>,
    /// Snapshot to scan [default: the newest one]
    #[arg(long)]
    snapshot: Option<i64>,
    #[command(flatten)]
    connection: Connection,
}

impl Plan {
    /// Prints the explanation.
    pub fn run(self) -> Outcome {
        run_online(self.explain())
    }

    async fn explain(self) -> Result<String, ClientError> {
        let name = self.name.strip_prefix("table:").unwrap_or(&self.name);
        let name = joined(&split(name));
        let request = ExplainScanRequest {
            resource: format!("table:{name}"),
            filter: self.filter,
            snapshot_id: self.snapshot,
            start_snapshot_id: None,
            end_snapshot_id: None,
            case_sensitive: None,
        };
        let explained = self.connection.send("POST", PATH, &body(&request)?).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&explained),
            Output::Table => text(&name, &parse(explained)?),
        })
    }
}

fn text(name: &str, scan: &ScanExplanation) -> String {
    let pruned = |count: u64, why: &str| format!("{} pruned by {why}", grouped(count));
    let of_files = |files: u64, size: u64| format!("{}, {}", grouped(files), bytes(size));
    let in_manifests =
        scan.files + scan.files_pruned_by_partition + scan.files_pruned_by_statistics;
    lines_of(&[
        ["table".to_owned(), name.to_owned()],
        ["files to read".to_owned(), of_files(scan.files, scan.bytes)],
        ["rows in them".to_owned(), grouped(scan.rows)],
        ["delete files".to_owned(), of_files(scan.delete_files, scan.delete_bytes)],
        [
            "data manifests".to_owned(),
            format!(
                "{}, {}",
                grouped(scan.manifests),
                pruned(scan.manifests_pruned, "the filter on partitions")
            ),
        ],
        [
            "files in the others".to_owned(),
            format!(
                "{}, {}, {}",
                grouped(in_manifests),
                pruned(scan.files_pruned_by_partition, "partition"),
                pruned(scan.files_pruned_by_statistics, "statistics")
            ),
        ],
        ["delete manifests".to_owned(), grouped(scan.delete_manifests)],
    ])
}
