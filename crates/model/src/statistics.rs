//! Statistics files of snapshots: Puffin files, and partition statistics files.
//!
//! The entry of each file is stored as the client's JSON, like the entry of a snapshot. Only the
//! snapshot id is parsed.

use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::members::{Members, RawMembers, brief, compact, elements, object};
use super::refusal::Refusal;

/// A Puffin file with statistics of one snapshot ("Table Statistics").
#[derive(Debug, Clone)]
pub struct StatisticsFile {
    /// The snapshot to which the statistics belong.
    pub snapshot_id: i64,
    json: Box<RawValue>,
}

/// A file with statistics of one snapshot's partitions ("Partition Statistics").
#[derive(Debug, Clone)]
pub struct PartitionStatisticsFile {
    /// The snapshot to which the statistics belong.
    pub snapshot_id: i64,
    json: Box<RawValue>,
}

impl StatisticsFile {
    /// Parses a statistics file's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let json = compact("statistics file", raw)?.into_owned();
        let members = RawMembers::parse("statistics file", json.get())?;
        let snapshot_id = members.i64("snapshot-id")?;
        members.string("statistics-path")?;
        members.i64("file-size-in-bytes")?;
        members.i64("file-footer-size-in-bytes")?;
        let blobs = members.required("blob-metadata")?;
        if !blobs.is_array() {
            return Err(Refusal::invalid(format!(
                "Cannot parse blob metadata from non-array: {}",
                brief(&*blobs)
            )));
        }
        for blob in elements(&blobs) {
            let blob = object("blob metadata", blob)?;
            blob.string("type")?;
            blob.i64("snapshot-id")?;
            blob.i64("sequence-number")?;
            blob.i32_list("fields")?;
            blob.opt_string_map("properties")?;
        }
        Ok(Self { snapshot_id, json })
    }

    /// Returns the complete JSON.
    pub fn json(&self) -> &RawValue {
        &self.json
    }
}

impl PartitionStatisticsFile {
    /// Parses a partition statistics file's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let json = compact("partition statistics file", raw)?.into_owned();
        let members = RawMembers::parse("partition statistics file", json.get())?;
        let snapshot_id = members.i64("snapshot-id")?;
        members.string("statistics-path")?;
        members.i64("file-size-in-bytes")?;
        Ok(Self { snapshot_id, json })
    }

    /// Returns the complete JSON.
    pub fn json(&self) -> &RawValue {
        &self.json
    }
}

impl PartialEq for StatisticsFile {
    fn eq(&self, other: &Self) -> bool {
        self.json.get() == other.json.get()
    }
}

impl PartialEq for PartitionStatisticsFile {
    fn eq(&self, other: &Self) -> bool {
        self.json.get() == other.json.get()
    }
}

impl Serialize for StatisticsFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl Serialize for PartitionStatisticsFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}
