//! Appends to one table whose conflicts the server resolves: it rebases the appends. The clients
//! write manifests and manifest lists, so the directory of the warehouse must be on this machine.
//!
//! All manifests have the same content, with one data file that does not exist.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, ManifestWriterBuilder, PartitionSpec, Schema,
};
use serde_json::{Value, json};

use super::bodies::{self, Head, History};
use super::connection::{Call, CallResponse};
use super::load::{CallOutcome, Caller};
use super::prepare::snapshot_id;
use super::target::{Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};
use slateberg_model::manifest_file::ManifestFile;
use slateberg_objects::manifest_list::{ListBlocks, ListHeader};

/// Format version of the table.
const FORMAT_VERSION: u8 = 2;
/// Rows of each data file.
const ROWS: i64 = 1000;

fn failed(error: impl std::fmt::Display) -> TargetError {
    TargetError::Unsupported(format!("writing the files of appends failed: {error}"))
}

/// Returns the last sequence number and the number of snapshots of a table. Each append increments
/// the sequence number, also if the server rebases it.
fn counts(body: &[u8]) -> Result<(i64, usize), TargetError> {
    let (head, history) = (Head::read(body)?, History::read(body)?);
    Ok((head.sequence_number, history.len()))
}

/// The table that the clients append to.
pub struct SharedTable {
    path: String,
    /// The state before the first append.
    head: Head,
    /// Directory of the metadata files.
    directory: PathBuf,
    /// Content of each manifest.
    manifest: Bytes,
    acknowledged: AtomicU64,
    rejected: AtomicU64,
}

impl SharedTable {
    /// Adds the first snapshot to the table at this path.
    ///
    /// # Errors
    /// Errors if the files of the table are not in a directory on this machine.
    pub async fn begin(target: &Target, path: String) -> Result<Arc<Self>, TargetError> {
        let body = target.request(Call::get(&path)).await?.body;
        let head = Head::read(&body)?;
        let directory = head.location.strip_prefix("file://").ok_or_else(|| {
            failed(format!("the location of the table is not a directory: {}", head.location))
        })?;
        let directory = PathBuf::from(directory).join("metadata");
        let schema = serde_json::from_slice::<Value>(&body)
            .and_then(|loaded| serde_json::from_value(loaded["metadata"]["schemas"][0].clone()));
        let manifest = manifest(&head.location, schema.map_err(failed)?).await.map_err(failed)?;
        let (acknowledged, rejected) = (AtomicU64::new(0), AtomicU64::new(0));
        let table = Self { path, head, directory, manifest, acknowledged, rejected };
        let first = table.write_append(&table.head).map_err(failed)?;
        target.request(Call::post(&table.path, first)).await?;
        let head = Head::read(&target.request(Call::get(&table.path)).await?.body)?;
        Ok(Arc::new(Self { head, ..table }))
    }

    /// Writes the manifest and the manifest list of a new snapshot on top of this head. Returns the
    /// body of its commit.
    fn write_append(&self, head: &Head) -> std::io::Result<Bytes> {
        let (id, sequence_number) = (snapshot_id(), head.sequence_number + 1);
        let name = format!("{id}-m0.avro");
        std::fs::write(self.directory.join(&name), &self.manifest)?;
        let own = ManifestFile {
            path: format!("{}/metadata/{name}", head.location),
            length: self.manifest.len() as i64,
            spec_id: 0,
            content: 0,
            sequence_number,
            min_sequence_number: sequence_number,
            added_snapshot_id: id,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(ROWS),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        };
        let header = ListHeader {
            format_version: FORMAT_VERSION,
            snapshot_id: id,
            parent_snapshot_id: head.snapshot_id,
            sequence_number,
            first_row_id: None,
        };
        let list = ListBlocks::new(FORMAT_VERSION, RandomIds.random(), vec![own]).to_file(&header);
        std::fs::write(self.directory.join(bodies::manifest_list(id)), list)?;
        let (body, _) = head.append(&[id], SystemClock.now_ms());
        Ok(body)
    }

    fn count(&self, response: &CallResponse) -> CallOutcome {
        if response.is_success() {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
            CallOutcome::Done
        } else {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            CallOutcome::Failed
        }
    }

    /// Loads the table and compares its sequence number with the number of acknowledged appends.
    /// Rewrites of manifests increment it, too, so the appends of maintained tables are not compared
    /// exactly.
    ///
    /// # Errors
    /// Errors if the table cannot be loaded.
    pub async fn check(&self, target: &Target) -> Result<Value, TargetError> {
        let body = target.request(Call::get(&self.path)).await?.body;
        let (sequence_number, snapshots) = counts(&body)?;
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        let there = sequence_number.abs_diff(self.head.sequence_number);
        Ok(json!({
            "acknowledged": acknowledged,
            "rejected": self.rejected.load(Ordering::Relaxed),
            "lost": acknowledged.saturating_sub(there),
            "snapshots": snapshots,
            "response_bytes": body.len(),
        }))
    }
}

/// Returns the content of a manifest with one added data file. The file inherits its snapshot and
/// its sequence number.
async fn manifest(location: &str, schema: Schema) -> Result<Bytes, iceberg::Error> {
    let io = FileIO::new_with_memory();
    let path = "memory:///manifest.avro";
    let output = io.new_output(path)?;
    let spec = PartitionSpec::unpartition_spec();
    let mut writer =
        ManifestWriterBuilder::new(output, None, Arc::new(schema), spec).build_v2_data();
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("{location}/data/part.parquet"))
        .file_format(DataFileFormat::Parquet)
        .partition_spec_id(0)
        .record_count(ROWS.unsigned_abs())
        .file_size_in_bytes(1 << 20)
        .build()
        .expect("all required values are set");
    writer.add_file(file, -1)?;
    writer.write_manifest_file().await?;
    io.new_input(path)?.read().await
}

/// A client whose appends were prepared before the measurement, all for the same state.
pub struct PreparedAppender {
    table: Arc<SharedTable>,
    bodies: Vec<Bytes>,
}

impl PreparedAppender {
    /// Writes the files of this number of appends.
    ///
    /// # Errors
    /// Errors if a file cannot be written.
    pub fn new(table: &Arc<SharedTable>, appends: u64) -> Result<Self, TargetError> {
        let append = |_| table.write_append(&table.head);
        let bodies = (0..appends).map(append).collect::<std::io::Result<_>>().map_err(failed)?;
        Ok(Self { table: Arc::clone(table), bodies })
    }
}

impl Caller for PreparedAppender {
    fn next(&mut self) -> Option<Call> {
        let body = self.bodies.pop()?;
        Some(Call { accepts_gzip: true, ..Call::post(&self.table.path, body) })
    }

    fn on_response(&mut self, response: &CallResponse) -> CallOutcome {
        self.table.count(response)
    }
}

/// A client that appends on top of the state in the response to its last append.
pub struct WholeAppender {
    table: Arc<SharedTable>,
    /// The state that the client knows. `None` after a failure, until the client has loaded the
    /// table again.
    head: Option<Head>,
}

impl WholeAppender {
    /// Creates a client that knows the state before the first append.
    pub fn new(table: &Arc<SharedTable>) -> Self {
        Self { table: Arc::clone(table), head: Some(table.head.clone()) }
    }
}

impl Caller for WholeAppender {
    fn next(&mut self) -> Option<Call> {
        let Some(head) = &self.head else {
            return Some(Call::get(&self.table.path).keeping_body());
        };
        // If the files cannot be written, the client ends, and the step has fewer appends.
        let body = self.table.write_append(head).ok()?;
        Some(Call::post(&self.table.path, body).keeping_body())
    }

    fn on_response(&mut self, response: &CallResponse) -> CallOutcome {
        let is_append = self.head.is_some();
        self.head = response.is_success().then(|| Head::read(&response.body).ok()).flatten();
        match (is_append, &self.head) {
            (true, _) => self.table.count(response),
            (false, Some(_)) => CallOutcome::Retry,
            (false, None) => CallOutcome::Failed,
        }
    }

    fn on_error(&mut self) -> CallOutcome {
        self.head = None;
        CallOutcome::Failed
    }
}
