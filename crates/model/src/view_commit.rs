//! Commits to views: `apply` turns a view's metadata, requirements and updates into new metadata or
//! a [`Refusal`], and `new_view` creates the first version.
//!
//! The functions are pure, like those of `commit`. Every update, including its error messages,
//! behaves as in `ViewMetadata.Builder` of the reference implementation (Iceberg's Java library,
//! release 1.11).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Map;
use uuid::Uuid;

use super::commit::{CommitContext, next_id};
use super::members::brief;
use super::refusal::Refusal;
use super::schema::Schema;
use super::update::LAST_ADDED;
use super::view::{VIEW_FORMAT_VERSION, ViewHistoryEntry, ViewMetadata, ViewVersion};
use super::view_update::{ViewRequirement, ViewUpdate};

/// Default number of versions that a view retains.
const HISTORY_ENTRIES_DEFAULT: i32 = 10;

/// The view property that overrides [`HISTORY_ENTRIES_DEFAULT`].
const HISTORY_ENTRIES_PROPERTY: &str = "version.history.num-entries";

/// The view property that allows a new version to drop a dialect of the previous version. The
/// default is `false`.
const DROP_DIALECT_PROPERTY: &str = "replace.drop-dialect.allowed";

/// The id of a view's first version.
const INITIAL_VERSION_ID: i32 = 1;

/// The result of a commit to a view.
#[derive(Debug, Clone)]
pub struct AppliedViewCommit {
    /// The new metadata. Equal to the old metadata if nothing changed.
    pub metadata: ViewMetadata,
    /// Whether any update had an effect. If `false`, there is nothing to write.
    pub changed: bool,
}

/// A request to create a view.
#[derive(Debug, Clone)]
pub struct NewView {
    /// The directory of the view's files.
    pub location: String,
    /// The columns of the result. Their ids are preserved.
    pub schema: Schema,
    /// The query. The id, schema id and time of this version are replaced.
    pub view_version: ViewVersion,
    /// The view's properties.
    pub properties: BTreeMap<String, String>,
}

/// Builds the metadata of a new view with one version.
pub fn new_view(new: NewView, ctx: &CommitContext) -> Result<ViewMetadata, Refusal> {
    if new.view_version.representations.is_empty() {
        return Err(Refusal::invalid("Cannot create view without specifying a query"));
    }
    let view_version = ViewVersion {
        version_id: INITIAL_VERSION_ID,
        timestamp_ms: ctx.now_ms,
        schema_id: LAST_ADDED,
        ..new.view_version
    };
    let updates = vec![
        ViewUpdate::SetProperties { updates: new.properties },
        ViewUpdate::SetLocation { location: new.location },
        ViewUpdate::AddSchema { schema: new.schema },
        ViewUpdate::AddViewVersion { view_version },
        ViewUpdate::SetCurrentViewVersion { view_version_id: LAST_ADDED },
    ];
    Ok(apply(None, &[], updates, ctx)?.metadata)
}

/// Applies a commit to a view, or to an empty view if there is no base.
pub fn apply(
    base: Option<&ViewMetadata>,
    requirements: &[ViewRequirement],
    updates: Vec<ViewUpdate>,
    ctx: &CommitContext,
) -> Result<AppliedViewCommit, Refusal> {
    requirements.iter().try_for_each(|requirement| requirement.check(base))?;
    let mut builder = Builder::new(base, ctx)?;
    updates.into_iter().try_for_each(|update| builder.apply(update))?;
    builder.finish()
}

/// A view during a commit.
struct Builder<'a> {
    metadata: ViewMetadata,
    ctx: &'a CommitContext,
    /// The version that was current before the commit.
    previous: Option<Arc<ViewVersion>>,
    has_base: bool,
    changed: bool,
    uuid_assigned: bool,
    last_added_schema_id: Option<i32>,
    last_added_version_id: Option<i32>,
    /// Versions that this commit added.
    added: HashSet<i32>,
    /// The last change of the current version in this commit.
    history_entry: Option<ViewHistoryEntry>,
}

impl<'a> Builder<'a> {
    fn new(base: Option<&ViewMetadata>, ctx: &'a CommitContext) -> Result<Self, Refusal> {
        let previous = base.map(|base| base.current_version().cloned()).transpose()?;
        Ok(Self {
            metadata: base.cloned().unwrap_or_else(|| empty_metadata(ctx.new_uuid)),
            ctx,
            previous,
            has_base: base.is_some(),
            changed: base.is_none(),
            uuid_assigned: base.is_some(),
            last_added_schema_id: None,
            last_added_version_id: None,
            added: HashSet::new(),
            history_entry: None,
        })
    }

    fn apply(&mut self, update: ViewUpdate) -> Result<(), Refusal> {
        match update {
            ViewUpdate::AssignUuid { uuid } => self.assign_uuid(uuid),
            ViewUpdate::UpgradeFormatVersion { format_version } => {
                self.upgrade_format_version(format_version)
            }
            ViewUpdate::AddSchema { schema } => self.add_schema(schema),
            ViewUpdate::SetLocation { location } => {
                if location.is_empty() {
                    return Err(Refusal::invalid("Invalid location: must not be empty"));
                }
                self.changed |= self.metadata.location != location;
                self.metadata.location = location;
                Ok(())
            }
            ViewUpdate::SetProperties { updates } => {
                for (name, value) in updates {
                    self.changed |= self.metadata.properties.get(&name) != Some(&value);
                    self.metadata.properties.insert(name, value);
                }
                Ok(())
            }
            ViewUpdate::RemoveProperties { removals } => {
                for name in removals {
                    self.changed |= self.metadata.properties.remove(&name).is_some();
                }
                Ok(())
            }
            ViewUpdate::AddViewVersion { view_version } => self.add_version(view_version),
            ViewUpdate::SetCurrentViewVersion { view_version_id } => {
                self.set_current_version(view_version_id)
            }
        }
    }

    fn assign_uuid(&mut self, uuid: Uuid) -> Result<(), Refusal> {
        if uuid.is_nil() {
            return Err(Refusal::invalid("Cannot set uuid to null"));
        }
        if self.uuid_assigned && self.metadata.view_uuid != uuid {
            return Err(Refusal::invalid("Cannot reassign uuid"));
        }
        self.uuid_assigned = true;
        self.metadata.view_uuid = uuid;
        Ok(())
    }

    fn upgrade_format_version(&mut self, version: i32) -> Result<(), Refusal> {
        let current = i32::from(self.metadata.format_version);
        if version < current {
            let text = format!("Cannot downgrade v{current} view to v{version}");
            return Err(Refusal::invalid(text));
        }
        if version > i32::from(VIEW_FORMAT_VERSION) {
            return Err(Refusal::invalid(format!("Unsupported format version: {version}")));
        }
        Ok(())
    }

    fn add_schema(&mut self, schema: Schema) -> Result<(), Refusal> {
        let schemas = &self.metadata.schemas;
        if let Some(same) = schemas.iter().find(|other| other.same_schema(&schema)) {
            self.last_added_schema_id = Some(same.schema_id());
            return Ok(());
        }
        let id = next_id("a schema id", 0, schemas.iter().map(|schema| schema.schema_id()))?;
        self.metadata.schemas.push(Arc::new(schema.with_schema_id(id)));
        self.last_added_schema_id = Some(id);
        self.changed = true;
        Ok(())
    }

    fn add_version(&mut self, mut version: ViewVersion) -> Result<(), Refusal> {
        if version.schema_id == LAST_ADDED {
            version.schema_id = self.last_added_schema_id.ok_or_else(|| {
                Refusal::invalid("Cannot set last added schema: no schema has been added")
            })?;
        }
        let versions = &self.metadata.versions;
        if let Some(same) = versions.iter().find(|other| other.same_version(&version)) {
            self.last_added_version_id = Some(same.version_id);
            return Ok(());
        }
        let schema_id = version.schema_id;
        if !self.metadata.schemas.iter().any(|schema| schema.schema_id() == schema_id) {
            return Err(Refusal::invalid(format!(
                "Cannot add version with unknown schema: {schema_id}"
            )));
        }
        version.check_representations()?;
        let ids = versions.iter().map(|version| version.version_id);
        version.version_id =
            next_id("a version id", version.version_id.max(INITIAL_VERSION_ID), ids)?;
        self.last_added_version_id = Some(version.version_id);
        self.added.insert(version.version_id);
        self.metadata.versions.push(Arc::new(version));
        self.changed = true;
        Ok(())
    }

    fn set_current_version(&mut self, version_id: i32) -> Result<(), Refusal> {
        let version_id = match (version_id, self.last_added_version_id) {
            (LAST_ADDED, Some(id)) => id,
            (LAST_ADDED, None) => {
                return Err(Refusal::invalid(
                    "Cannot set last version id: no current version id has been set",
                ));
            }
            (id, _) => id,
        };
        let mut versions = self.metadata.versions.iter();
        let Some(version) = versions.find(|version| version.version_id == version_id) else {
            return Err(Refusal::invalid(format!(
                "Cannot set current version to unknown version: {version_id}"
            )));
        };
        let is_current = self.metadata.current_version_id == version_id;
        if is_current && (self.has_base || self.history_entry.is_some()) {
            return Ok(());
        }
        // If a version becomes current again, the log entry has the current time, not the creation
        // time of the version.
        let added = self.added.contains(&version_id);
        let timestamp_ms = if added { version.timestamp_ms } else { self.ctx.now_ms };
        self.history_entry = Some(ViewHistoryEntry { timestamp_ms, version_id });
        self.metadata.current_version_id = version_id;
        self.changed = true;
        Ok(())
    }

    fn finish(mut self) -> Result<AppliedViewCommit, Refusal> {
        if !self.changed {
            return Ok(AppliedViewCommit { metadata: self.metadata, changed: false });
        }
        if self.metadata.location.is_empty() {
            let default = self.ctx.default_location.clone();
            self.metadata.location =
                default.ok_or_else(|| Refusal::invalid("Invalid location: null"))?;
        }
        if self.metadata.versions.is_empty() {
            return Err(Refusal::invalid("Invalid view: no versions were added"));
        }
        self.metadata.version_log.extend(self.history_entry);
        self.check_dialects()?;
        let versions_max = self.history_entries()?;
        self.expire_versions(versions_max);
        self.metadata.current_schema()?;
        Ok(AppliedViewCommit { metadata: self.metadata, changed: true })
    }

    /// Refuses the removal of a dialect, because readers with this dialect could no longer use the
    /// view. The property [`DROP_DIALECT_PROPERTY`] allows the removal.
    fn check_dialects(&self) -> Result<(), Refusal> {
        let allowed = self.metadata.properties.get(DROP_DIALECT_PROPERTY);
        if allowed.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(());
        }
        let Some(previous) = &self.previous else { return Ok(()) };
        let before: BTreeSet<String> = previous.dialects().collect();
        let after: BTreeSet<String> = self.metadata.current_version()?.dialects().collect();
        if after.is_superset(&before) {
            return Ok(());
        }
        let list =
            |dialects: BTreeSet<String>| brief(dialects.into_iter().collect::<Vec<_>>().join(", "));
        Err(Refusal::invalid(format!(
            "Cannot replace view due to loss of view dialects ({DROP_DIALECT_PROPERTY}=false):\n\
             Previous dialects: [{}]\nNew dialects: [{}]",
            list(before),
            list(after)
        )))
    }

    fn history_entries(&self) -> Result<usize, Refusal> {
        let Some(value) = self.metadata.properties.get(HISTORY_ENTRIES_PROPERTY) else {
            return Ok(usize::try_from(HISTORY_ENTRIES_DEFAULT).unwrap_or_default());
        };
        let number = value.parse::<i32>().ok().filter(|number| *number > 0);
        number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
            Refusal::invalid(format!(
                "{HISTORY_ENTRIES_PROPERTY} must be positive but was {}",
                brief(value)
            ))
        })
    }

    /// Retains the versions with the greatest ids, the current version, and the versions that this
    /// commit added. Removes all entries of the version log up to the last entry of a removed
    /// version.
    fn expire_versions(&mut self, versions_max: usize) {
        let current = self.metadata.current_version_id;
        let mut needed = self.added.clone();
        needed.insert(current);
        let keep = versions_max.max(needed.len());
        if self.metadata.versions.len() <= keep {
            return;
        }
        let mut ids: Vec<i32> = self.metadata.versions.iter().map(|v| v.version_id).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let mut retained = HashSet::from([current]);
        for id in ids {
            if retained.len() == keep {
                break;
            }
            retained.insert(id);
        }
        self.metadata.versions.retain(|version| retained.contains(&version.version_id));
        let log = std::mem::take(&mut self.metadata.version_log);
        for entry in log {
            if retained.contains(&entry.version_id) {
                self.metadata.version_log.push(entry);
            } else {
                self.metadata.version_log.clear();
            }
        }
    }
}

/// Returns a view before its first update. It is not valid yet: it has no location and no version.
fn empty_metadata(view_uuid: Uuid) -> ViewMetadata {
    ViewMetadata {
        view_uuid,
        format_version: VIEW_FORMAT_VERSION,
        location: String::new(),
        properties: BTreeMap::new(),
        schemas: Vec::new(),
        current_version_id: 0,
        versions: Vec::new(),
        version_log: Vec::new(),
        extra: Map::new(),
    }
}

#[cfg(test)]
mod tests;
