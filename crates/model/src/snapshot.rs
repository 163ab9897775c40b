//! Snapshots, and the references that point to them.
//!
//! A snapshot in a table never changes, and a table may have ten thousand of them. Therefore, each
//! snapshot is stored in two forms: as the JSON that its writer sent, and as the few members that
//! commits need. A commit shares the existing snapshots and writes their JSON verbatim. This
//! preserves members that this version of slateberg does not know.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::chunked::{ChunkedList, Item};
use super::members::{Members, RawMembers, brief, compact, object};
use super::refusal::Refusal;

/// The name of the branch that defines the table's current state.
pub const MAIN_BRANCH: &str = "main";

/// Value of `operation` in the summary of a snapshot that only adds data files.
const APPEND: &str = "append";
/// Value of `operation` in the summary of a snapshot that changes no rows.
const REPLACE: &str = "replace";

/// The snapshots of a table. One chunk has about twenty kilobytes of JSON.
pub type Snapshots = ChunkedList<Arc<Snapshot>, 32>;

/// A state of a table ("Snapshots" in the table specification).
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The id, unique within the table; never -1.
    pub snapshot_id: i64,
    /// The id of the snapshot on which this snapshot is based.
    pub parent_snapshot_id: Option<i64>,
    /// The order of changes; 0 in tables of version 1.
    pub sequence_number: i64,
    /// Creation time in milliseconds since 1970, by the writer's clock.
    pub timestamp_ms: i64,
    /// The id of the schema that was current when the snapshot was created.
    pub schema_id: Option<i32>,
    /// The row id of the first added row (v3).
    pub first_row_id: Option<i64>,
    /// The number of row ids that the snapshot assigned (v3).
    pub added_rows: Option<i64>,
    /// The complete JSON, in UTF-8.
    json: Bytes,
    /// The operation in the summary, once it was read.
    operation: OnceLock<Option<Operation>>,
}

/// The operation of a snapshot that can be rebased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// It adds data files.
    Append,
    /// It reorganizes files and changes no rows, such as a compaction.
    Replace,
}

impl Snapshot {
    /// Parses a snapshot's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let json = compact("snapshot", raw)?;
        let head = SnapshotHead::parse(&json)?;
        Self::new(head, Bytes::copy_from_slice(json.get().as_bytes()))
    }

    /// Parses a snapshot's JSON, which is a part of `text`. The snapshot shares the memory of
    /// `text`.
    pub(super) fn parse_in(text: &Bytes, raw: &RawValue) -> Result<Self, Refusal> {
        match compact("snapshot", raw)? {
            Cow::Borrowed(json) => {
                Self::new(SnapshotHead::parse(json)?, text.slice_ref(json.get().as_bytes()))
            }
            Cow::Owned(json) => Self::parse(&json),
        }
    }

    fn new(head: SnapshotHead, json: Bytes) -> Result<Self, Refusal> {
        let snapshot = Self {
            snapshot_id: head.snapshot_id,
            parent_snapshot_id: head.parent_snapshot_id,
            sequence_number: head.sequence_number.unwrap_or_default(),
            timestamp_ms: head.timestamp_ms,
            schema_id: head.schema_id,
            first_row_id: head.first_row_id,
            added_rows: head.added_rows,
            json,
            operation: OnceLock::new(),
        };
        snapshot.check(head.manifest_list.is_some() || head.manifests.is_some())?;
        Ok(snapshot)
    }

    fn check(&self, has_manifests: bool) -> Result<(), Refusal> {
        let refuse = |text: String| Err(Refusal::invalid(text));
        if self.snapshot_id == -1 {
            return refuse("Invalid snapshot id: -1 (reserved)".to_owned());
        }
        if self.sequence_number < 0 {
            let number = self.sequence_number;
            return refuse(format!("Invalid sequence number (cannot be negative): {number}"));
        }
        if !has_manifests {
            return refuse("Cannot parse missing string: manifest-list".to_owned());
        }
        match (self.first_row_id, self.added_rows) {
            (Some(id), _) if id < 0 => {
                refuse(format!("Invalid first-row-id (cannot be negative): {id}"))
            }
            (_, Some(rows)) if rows < 0 => {
                refuse(format!("Invalid added-rows (cannot be negative): {rows}"))
            }
            (Some(_), None) => {
                refuse("Invalid added-rows (required when first-row-id is set): null".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the complete JSON of the snapshot.
    pub fn json(&self) -> &str {
        std::str::from_utf8(&self.json).expect("it was parsed as text")
    }

    /// Returns the location of the manifest list. `None` for old snapshots of version 1, which list
    /// manifests inline.
    pub fn manifest_list(&self) -> Option<String> {
        self.members().ok()?.opt_string("manifest-list").ok()?
    }

    /// Returns the id of the key that encrypts the manifest list. `None` if it is not encrypted.
    pub fn key_id(&self) -> Option<String> {
        self.members().ok()?.opt_string("key-id").ok()?
    }

    /// Returns the writer's summary of the change; `operation` is one of its keys.
    pub fn summary(&self) -> BTreeMap<String, String> {
        let summary = self.members().and_then(|members| members.opt_string_map("summary"));
        summary.ok().flatten().unwrap_or_default()
    }

    /// Returns the operation in the summary. `None` for other operations. Parses the summary only
    /// once, because each rebased commit needs the operations of all snapshots since its base.
    pub(super) fn operation(&self) -> Option<Operation> {
        *self.operation.get_or_init(|| match self.summary().get("operation").map(String::as_str) {
            Some(APPEND) => Some(Operation::Append),
            Some(REPLACE) => Some(Operation::Replace),
            _ => None,
        })
    }

    fn members(&self) -> Result<RawMembers<'_>, Refusal> {
        RawMembers::parse("snapshot", self.json())
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Eq for Snapshot {}

impl Item for Arc<Snapshot> {
    fn id(&self) -> i64 {
        self.snapshot_id
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.json);
    }

    fn with_json(&self, json: Bytes) -> Self {
        Self::new(Snapshot { json, ..Snapshot::clone(self) })
    }
}

/// The members of a snapshot that commits need, read in one pass without allocation.
#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SnapshotHead {
    snapshot_id: i64,
    parent_snapshot_id: Option<i64>,
    sequence_number: Option<i64>,
    timestamp_ms: i64,
    schema_id: Option<i32>,
    first_row_id: Option<i64>,
    added_rows: Option<i64>,
    manifest_list: Option<IgnoredString>,
    manifests: Option<Vec<IgnoredString>>,
    #[serde(rename = "summary")]
    _summary: Option<IgnoredStringMap>,
    #[serde(rename = "key-id")]
    _key_id: Option<IgnoredString>,
}

impl SnapshotHead {
    fn parse(json: &RawValue) -> Result<Self, Refusal> {
        serde_json::from_str(json.get()).map_err(|error| explain(json, &error))
    }
}

/// A string whose content is ignored.
struct IgnoredString;

impl<'de> Deserialize<'de> for IgnoredString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringVisitor;
        impl Visitor<'_> for StringVisitor {
            type Value = IgnoredString;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, _: &str) -> Result<IgnoredString, E> {
                Ok(IgnoredString)
            }
        }
        deserializer.deserialize_str(StringVisitor)
    }
}

/// A map of strings whose content is ignored.
struct IgnoredStringMap;

impl<'de> Deserialize<'de> for IgnoredStringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringMapVisitor;
        impl<'de> Visitor<'de> for StringMapVisitor {
            type Value = IgnoredStringMap;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<IgnoredStringMap, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredString>()?.is_some() {}
                Ok(IgnoredStringMap)
            }
        }
        deserializer.deserialize_map(StringMapVisitor)
    }
}

/// Parses an invalid snapshot again, member by member, so that the refusal names the invalid
/// member.
fn explain(json: &RawValue, error: &serde_json::Error) -> Refusal {
    let read = || {
        let members = RawMembers::parse("snapshot", json.get())?;
        members.i64("snapshot-id")?;
        members.opt_i64("parent-snapshot-id")?;
        members.opt_i64("sequence-number")?;
        members.i64("timestamp-ms")?;
        members.opt_string_map("summary")?;
        members.opt_i32("schema-id")?;
        members.opt_i64("first-row-id")?;
        members.opt_i64("added-rows")?;
        members.opt_string("key-id")?;
        members.opt_string("manifest-list")
    };
    match read() {
        Err(refusal) => refusal,
        Ok(_) => Refusal::invalid(format!("Cannot parse snapshot: {error}")),
    }
}

/// A branch or tag ("Snapshot References" in the table specification).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRef {
    /// The snapshot that the reference points to.
    pub snapshot_id: i64,
    /// Branch or tag.
    pub kind: SnapshotRefKind,
    /// The minimum number of a branch's snapshots that expiry retains.
    pub min_snapshots_to_keep: Option<i32>,
    /// The age, in milliseconds, at which expiry removes a branch's snapshots.
    pub max_snapshot_age_ms: Option<i64>,
    /// The age, in milliseconds, at which expiry removes the reference.
    pub max_ref_age_ms: Option<i64>,
}

/// The kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotRefKind {
    /// A reference that commits move.
    Branch,
    /// A reference that does not move.
    Tag,
}

impl SnapshotRefKind {
    /// Returns `branch` or `tag`, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Tag => "tag",
        }
    }
}

impl SnapshotRef {
    /// Returns a branch without retention rules.
    pub(super) fn branch(snapshot_id: i64) -> Self {
        Self {
            snapshot_id,
            kind: SnapshotRefKind::Branch,
            min_snapshots_to_keep: None,
            max_snapshot_age_ms: None,
            max_ref_age_ms: None,
        }
    }

    /// Parses a reference's JSON.
    pub(super) fn from_json(json: &Value) -> Result<Self, Refusal> {
        Self::from_members(object("snapshot reference", json)?)
    }

    /// Parses a reference from an object that may have other members too.
    pub(super) fn from_members(members: &impl Members) -> Result<Self, Refusal> {
        let snapshot_id = members.i64("snapshot-id")?;
        let kind = members.string("type")?;
        let kind = match kind.to_ascii_lowercase().as_str() {
            "branch" => SnapshotRefKind::Branch,
            "tag" => SnapshotRefKind::Tag,
            _ => {
                let kind = brief(kind);
                return Err(Refusal::invalid(format!("Invalid snapshot ref type: {kind}")));
            }
        };
        let reference = Self {
            snapshot_id,
            kind,
            min_snapshots_to_keep: members.opt_i32("min-snapshots-to-keep")?,
            max_snapshot_age_ms: members.opt_i64("max-snapshot-age-ms")?,
            max_ref_age_ms: members.opt_i64("max-ref-age-ms")?,
        };
        reference.check()?;
        Ok(reference)
    }

    fn check(&self) -> Result<(), Refusal> {
        let tag = self.kind == SnapshotRefKind::Tag;
        let problem = if tag && self.min_snapshots_to_keep.is_some() {
            "Tags do not support setting minSnapshotsToKeep"
        } else if tag && self.max_snapshot_age_ms.is_some() {
            "Tags do not support setting maxSnapshotAgeMs"
        } else if self.min_snapshots_to_keep.is_some_and(|number| number <= 0) {
            "Min snapshots to keep must be greater than 0"
        } else if self.max_snapshot_age_ms.is_some_and(|age| age <= 0) {
            "Max snapshot age must be greater than 0 ms"
        } else if self.max_ref_age_ms.is_some_and(|age| age <= 0) {
            "Max reference age must be greater than 0"
        } else {
            return Ok(());
        };
        Err(Refusal::invalid(problem))
    }
}

impl SnapshotRef {
    /// Writes the members into the enclosing object.
    pub(super) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("snapshot-id", &self.snapshot_id)?;
        map.serialize_entry("type", self.kind.name())?;
        if let Some(number) = self.min_snapshots_to_keep {
            map.serialize_entry("min-snapshots-to-keep", &number)?;
        }
        if let Some(age) = self.max_snapshot_age_ms {
            map.serialize_entry("max-snapshot-age-ms", &age)?;
        }
        if let Some(age) = self.max_ref_age_ms {
            map.serialize_entry("max-ref-age-ms", &age)?;
        }
        Ok(())
    }
}

impl Serialize for SnapshotRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write(&mut map)?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
