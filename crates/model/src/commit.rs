//! Commits: `apply` turns a table's metadata, requirements and updates into new metadata or a
//! [`Refusal`].
//!
//! The function is pure: time and ids are arguments, and nothing is read or written. Every update,
//! including its error messages, behaves as in `TableMetadata.Builder` of the reference
//! implementation (Iceberg's Java library, release 1.11). Comments mark the deliberate differences.
//!
//! A commit has these steps: check the requirements, copy the base (a cheap copy that shares all
//! large parts), apply the updates in order, and finish. The last step shortens the snapshot log,
//! appends the location of the base's document to the metadata log, and sets the time. The cost of
//! a commit is the cost of its updates, plus the copy of one pointer per chunk of snapshots.

mod finish;
mod layout;
mod repeated;
mod snapshot_sets;
mod snapshots;

use std::collections::{BTreeMap, HashSet};

use serde_json::Map;
use uuid::Uuid;

use super::refusal::Refusal;
use super::requirement::TableRequirement;
pub use super::requirement::check_requirements;
use super::snapshot::Snapshots;
use super::table::{
    FORMAT_VERSION_DEFAULT, FORMAT_VERSION_MAX, SnapshotLog, TableMetadata, clean_location,
};
use super::update::TableUpdate;
use repeated::is_repeated;
use snapshot_sets::{Removals, SnapshotIds};

/// The state of the table to which a commit is applied.
#[derive(Debug, Clone, Copy)]
pub struct CommitBase<'a> {
    /// The current metadata.
    pub metadata: &'a TableMetadata,
    /// Location of the metadata file that contains `metadata`. This location becomes the newest
    /// entry of the metadata log. `None` if `metadata` is an intermediate state within a group of
    /// commits: such a state has no metadata file.
    pub metadata_location: Option<&'a str>,
}

/// Values from outside of the table that a commit needs.
#[derive(Debug, Clone)]
pub struct CommitContext {
    /// The current time, in milliseconds since 1970.
    pub now_ms: i64,
    /// UUID of a new table, if the client does not send one.
    pub new_uuid: Uuid,
    /// Location of a new table if the client sends none.
    pub default_location: Option<String>,
    /// The greatest format version that the commit may select.
    pub format_version_max: u8,
}

/// The result of a commit.
#[derive(Debug, Clone)]
pub struct AppliedCommit {
    /// The new metadata. Equal to the old metadata if nothing changed.
    pub metadata: TableMetadata,
    /// Whether any update had an effect. If `false`, there is nothing to write.
    pub changed: bool,
}

/// Applies a commit to a table. If `base` is `None`, the table does not exist, and the commit
/// creates it. Such a commit is the last step of a create transaction. The caller decides whether a
/// commit without `assert-create` may create a table.
///
/// A client that received no response sends the same commit again. If the table already contains
/// the snapshots of the commit and the result of its other updates, the commit is accepted without
/// effect. (The reference implementation refuses such a commit.)
pub fn apply(
    base: Option<CommitBase<'_>>,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    ctx: &CommitContext,
) -> Result<AppliedCommit, Refusal> {
    let applied = evaluate(base, requirements, updates, ctx);
    let (Err(_), Some(base)) = (&applied, base) else { return applied };
    let has_no_effect = |updates: &[&TableUpdate]| has_no_effect(base, updates, ctx);
    if is_repeated(base.metadata, requirements, updates, has_no_effect) {
        return Ok(AppliedCommit { metadata: base.metadata.clone(), changed: false });
    }
    applied
}

fn has_no_effect(base: CommitBase<'_>, updates: &[&TableUpdate], ctx: &CommitContext) -> bool {
    let mut builder = Builder::from_base(base, ctx);
    updates.iter().all(|update| builder.apply((*update).clone()).is_ok())
        && builder.finish().is_ok_and(|applied| !applied.changed)
}

fn evaluate(
    base: Option<CommitBase<'_>>,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    ctx: &CommitContext,
) -> Result<AppliedCommit, Refusal> {
    check_requirements(base.map(|base| base.metadata), requirements)?;
    let mut builder = match base {
        Some(base) => Builder::from_base(base, ctx),
        None => Builder::from_nothing(updates, ctx)?,
    };
    updates.iter().cloned().try_for_each(|update| builder.apply(update))?;
    builder.finish()
}

/// Metadata during a commit.
struct Builder<'a> {
    base: Option<CommitBase<'a>>,
    metadata: TableMetadata,
    ctx: &'a CommitContext,
    /// The new `last_updated_ms`: the current time, or the time of the base if that is later.
    updated_ms: i64,
    changed: bool,
    /// Whether the client assigned the UUID of a new table.
    uuid_assigned: bool,
    /// Whether a schema, spec or order changed. In this case, schemas, specs and orders are
    /// validated together again.
    layout_changed: bool,
    last_added_schema_id: Option<i32>,
    last_added_spec_id: Option<i32>,
    last_added_order_id: Option<i32>,
    snapshot_ids: SnapshotIds,
    /// Snapshots that this commit added.
    added: HashSet<i64>,
    /// Snapshots that this commit added and made current, even if another snapshot is current at
    /// the end of the commit.
    added_to_main: HashSet<i64>,
    removals: Removals,
    removed_snapshots: bool,
}

impl<'a> Builder<'a> {
    fn from_base(base: CommitBase<'a>, ctx: &'a CommitContext) -> Self {
        let updated_ms = ctx.now_ms.max(base.metadata.last_updated_ms);
        Self::new(Some(base), base.metadata.clone(), updated_ms, ctx)
    }

    /// Creates an empty table. Its format version is that of the first `upgrade-format-version`
    /// among the updates.
    fn from_nothing(updates: &[TableUpdate], ctx: &'a CommitContext) -> Result<Self, Refusal> {
        let requested = updates.iter().find_map(|update| match update {
            TableUpdate::UpgradeFormatVersion { format_version } => Some(*format_version),
            _ => None,
        });
        let format_version = match requested {
            Some(version) => supported_format_version(version, ctx.format_version_max)?,
            None => FORMAT_VERSION_DEFAULT,
        };
        let metadata = empty_metadata(format_version, ctx);
        let mut builder = Self::new(None, metadata, ctx.now_ms, ctx);
        builder.changed = true;
        builder.layout_changed = true;
        Ok(builder)
    }

    fn new(
        base: Option<CommitBase<'a>>,
        metadata: TableMetadata,
        updated_ms: i64,
        ctx: &'a CommitContext,
    ) -> Self {
        Self {
            base,
            metadata,
            ctx,
            updated_ms,
            changed: false,
            uuid_assigned: false,
            layout_changed: false,
            last_added_schema_id: None,
            last_added_spec_id: None,
            last_added_order_id: None,
            snapshot_ids: SnapshotIds::default(),
            added: HashSet::new(),
            added_to_main: HashSet::new(),
            removals: Removals::default(),
            removed_snapshots: false,
        }
    }

    fn apply(&mut self, update: TableUpdate) -> Result<(), Refusal> {
        match update {
            TableUpdate::AssignUuid { uuid } => self.assign_uuid(uuid),
            TableUpdate::UpgradeFormatVersion { format_version } => {
                self.upgrade_format_version(format_version)
            }
            TableUpdate::AddSchema { schema } => self.add_schema(schema),
            TableUpdate::SetCurrentSchema { schema_id } => self.set_current_schema(schema_id),
            TableUpdate::RemoveSchemas { schema_ids } => self.remove_schemas(&schema_ids),
            TableUpdate::AddSpec { spec } => self.add_spec(spec),
            TableUpdate::SetDefaultSpec { spec_id } => self.set_default_spec(spec_id),
            TableUpdate::RemovePartitionSpecs { spec_ids } => self.remove_specs(&spec_ids),
            TableUpdate::AddSortOrder { sort_order } => self.add_sort_order(sort_order),
            TableUpdate::SetDefaultSortOrder { sort_order_id } => {
                self.set_default_sort_order(sort_order_id)
            }
            TableUpdate::AddSnapshot { snapshot } => self.add_snapshot(snapshot),
            TableUpdate::RemoveSnapshots { snapshot_ids } => {
                self.removals.snapshots.extend(snapshot_ids);
                Ok(())
            }
            TableUpdate::SetSnapshotRef { ref_name, reference } => {
                self.set_ref(ref_name, reference)
            }
            TableUpdate::RemoveSnapshotRef { ref_name } => self.remove_ref(&ref_name),
            TableUpdate::SetStatistics { statistics } => self.set_statistics(statistics),
            TableUpdate::RemoveStatistics { snapshot_id } => {
                self.removals.statistics.insert(snapshot_id);
                Ok(())
            }
            TableUpdate::SetPartitionStatistics { partition_statistics } => {
                self.set_partition_statistics(partition_statistics)
            }
            TableUpdate::RemovePartitionStatistics { snapshot_id } => {
                self.removals.partition_statistics.insert(snapshot_id);
                Ok(())
            }
            TableUpdate::SetLocation { location } => self.set_location(&location),
            TableUpdate::SetProperties { updates } => self.set_properties(updates),
            TableUpdate::RemoveProperties { removals } => self.remove_properties(&removals),
            TableUpdate::AddEncryptionKey { encryption_key } => {
                self.add_encryption_key(encryption_key)
            }
            TableUpdate::RemoveEncryptionKey { key_id } => self.remove_encryption_key(&key_id),
        }
    }

    /// Sets the UUID of a new table. An existing table keeps its UUID. (The builder of the
    /// reference implementation lets any commit change it.)
    fn assign_uuid(&mut self, uuid: Uuid) -> Result<(), Refusal> {
        if uuid.is_nil() {
            return Err(Refusal::invalid("Cannot set uuid to null"));
        }
        let known =
            self.uuid_assigned || (self.base.is_some() && !self.metadata.table_uuid.is_nil());
        if known && self.metadata.table_uuid != uuid {
            return Err(Refusal::invalid(format!(
                "Cannot reassign uuid: {} != {uuid}",
                self.metadata.table_uuid
            )));
        }
        self.changed |= self.metadata.table_uuid != uuid;
        self.uuid_assigned = true;
        self.metadata.table_uuid = uuid;
        Ok(())
    }

    fn upgrade_format_version(&mut self, version: i32) -> Result<(), Refusal> {
        let current = self.metadata.format_version;
        // A table keeps its version even if new tables may not have it.
        let max = self.ctx.format_version_max.max(current);
        if version > i32::from(max) {
            return Err(Refusal::invalid(format!(
                "Cannot upgrade table to unsupported format version: v{version} (supported: {})",
                supported_text(version, max)
            )));
        }
        if version < i32::from(current) {
            return Err(Refusal::invalid(format!(
                "Cannot downgrade v{current} table to v{version}"
            )));
        }
        let version = supported_format_version(version, max)?;
        self.changed |= version != current;
        self.metadata.format_version = version;
        Ok(())
    }

    fn set_location(&mut self, location: &str) -> Result<(), Refusal> {
        let location = clean_location(location)?;
        self.changed |= self.metadata.location != location;
        self.metadata.location = location;
        Ok(())
    }

    fn set_properties(&mut self, updates: BTreeMap<String, String>) -> Result<(), Refusal> {
        for (name, value) in updates {
            self.changed |= self.metadata.properties.get(&name) != Some(&value);
            self.metadata.properties.insert(name, value);
        }
        Ok(())
    }

    fn remove_properties(&mut self, names: &[String]) -> Result<(), Refusal> {
        for name in names {
            self.changed |= self.metadata.properties.remove(name).is_some();
        }
        Ok(())
    }
}

/// Converts a version number. Errors if the version is greater than `max`, or less than 1.
pub fn supported_format_version(version: i32, max: u8) -> Result<u8, Refusal> {
    match u8::try_from(version) {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(Refusal::invalid(format!(
            "Unsupported format version: v{version} (supported: {})",
            supported_text(version, max)
        ))),
    }
}

fn supported_text(version: i32, max: u8) -> String {
    let is_disabled = version > i32::from(max) && version <= i32::from(FORMAT_VERSION_MAX);
    let hint = if is_disabled { ", set catalog.format_version_4 for v4" } else { "" };
    format!("v{max}{hint}")
}

/// Returns a table before its first update. It is not valid yet: it has no schema, spec, order or
/// location.
fn empty_metadata(format_version: u8, ctx: &CommitContext) -> TableMetadata {
    TableMetadata {
        format_version,
        table_uuid: ctx.new_uuid,
        location: String::new(),
        last_sequence_number: 0,
        last_updated_ms: ctx.now_ms,
        last_column_id: 0,
        current_schema_id: 0,
        schemas: Vec::new(),
        default_spec_id: 0,
        partition_specs: Vec::new(),
        last_partition_id: 0,
        default_sort_order_id: 0,
        sort_orders: Vec::new(),
        properties: BTreeMap::new(),
        current_snapshot_id: None,
        refs: BTreeMap::new(),
        snapshots: Snapshots::new(),
        snapshot_log: SnapshotLog::new(),
        metadata_log: Vec::new(),
        statistics: Vec::new(),
        partition_statistics: Vec::new(),
        encryption_keys: Vec::new(),
        next_row_id: 0,
        extra: Map::new(),
    }
}

/// Returns the id after the greatest of `ids`, but at least `first`.
pub(super) fn next_id(
    what: &str,
    first: i32,
    ids: impl Iterator<Item = i32>,
) -> Result<i32, Refusal> {
    match ids.max() {
        None => Ok(first),
        Some(greatest) => match greatest.checked_add(1) {
            Some(next) => Ok(next.max(first)),
            None => Err(Refusal::invalid(format!("Cannot assign {what}: ids are exhausted"))),
        },
    }
}

#[cfg(test)]
mod tests;
