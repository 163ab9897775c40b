//! [`TabularMetadata`]: the differences between tables and views.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use serde::Deserialize;
use uuid::Uuid;

use crate::version_cache::ParsedMetadata;
use crate::{Error, Result};
use slateberg_authz::commit_kind::{CommitKind, Refs, of_table, of_view};
use slateberg_base::error_chain::Cause;
use slateberg_model::commit::{self, CommitBase, CommitContext};
use slateberg_model::ident::TabularKind;
use slateberg_model::refusal::Refusal;
use slateberg_model::requirement::TableRequirement;
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_model::table::TableMetadata;
use slateberg_model::update::TableUpdate;
use slateberg_model::view::ViewMetadata;
use slateberg_model::view_commit;
use slateberg_model::view_update::{ViewRequirement, ViewUpdate};
use slateberg_store::records::ChangeAction;

/// Table property. If it is `true`, metadata files that are no longer in the metadata log are
/// deleted.
const DELETE_AFTER_COMMIT: &str = "write.metadata.delete-after-commit.enabled";

/// Whether a table's property requests that metadata files are deleted which are no longer in its
/// metadata log, and an earlier metadata file is not in it. This is never the case for a view.
pub(crate) fn is_deleted_after_commit(metadata: &SegmentedJson, location: &str) -> Result<bool> {
    let named: NamedFiles =
        serde_json::from_slice(&metadata.to_bytes()).map_err(Error::internal)?;
    let has_left = |log: &[NamedFile]| log.iter().all(|entry| entry.metadata_file != location);
    Ok(deletes_after_commit(&named.properties)
        && named.metadata_log.as_deref().is_some_and(has_left))
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct NamedFiles {
    #[serde(default)]
    properties: BTreeMap<String, String>,
    /// Views have none.
    metadata_log: Option<Vec<NamedFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct NamedFile {
    metadata_file: String,
}

fn deletes_after_commit(properties: &BTreeMap<String, String>) -> bool {
    properties.get(DELETE_AFTER_COMMIT).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Names, in the change log, logs and metrics, for the transactions that change a table or view.
#[derive(Debug, Clone, Copy)]
pub struct Actions {
    /// Creates the table or view.
    pub create: ChangeAction,
    /// Registers an existing metadata file.
    pub register: ChangeAction,
    /// Commits to the table or view.
    pub commit: ChangeAction,
}

/// The summary of a commit's updates for the change feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateSummary {
    /// The kinds of the updates, in the order of their first occurrence.
    pub operations: Vec<String>,
    /// The branches and tags that the updates set, with their snapshots.
    pub snapshots: BTreeMap<String, i64>,
}

impl UpdateSummary {
    fn of(actions: impl Iterator<Item = &'static str>) -> Self {
        let mut operations: Vec<String> = Vec::new();
        for action in actions {
            if !operations.iter().any(|known| known == action) {
                operations.push(action.to_owned());
            }
        }
        Self { operations, snapshots: BTreeMap::new() }
    }
}

/// The metadata of a table or view, and how a commit changes it.
pub trait TabularMetadata: Debug + Clone + Send + Sync + 'static {
    /// A requirement of a commit.
    type Requirement: Debug + Clone + Send + Sync;
    /// An update of a commit.
    type Update: Debug + Clone + Send + Sync;

    /// Table or view.
    const KIND: TabularKind;
    /// The names of the transactions.
    const ACTIONS: Actions;

    /// Parses a metadata file.
    fn parse(json: &[u8]) -> std::result::Result<Self, Refusal>;
    /// Parses the metadata in the store.
    fn from_segmented_json(text: &SegmentedJson) -> std::result::Result<Self, Refusal>;
    /// Serializes the metadata for the metadata file.
    fn to_segmented_json(&self) -> SegmentedJson;
    /// Returns the `table-uuid` or `view-uuid`.
    fn uuid(&self) -> Uuid;
    /// Returns the format version.
    fn format_version(&self) -> u8;
    /// Returns the location.
    fn location(&self) -> &str;
    /// Returns the properties.
    fn properties(&self) -> &BTreeMap<String, String>;

    /// Applies a commit and returns the new metadata. Returns `None` if nothing changed. `base` is
    /// the current metadata and the location of its metadata file. If several commits become one
    /// version, the location is `None` from the second commit on.
    fn apply(
        base: Option<(&Self, Option<&str>)>,
        requirements: &[Self::Requirement],
        updates: &[Self::Update],
        context: &CommitContext,
    ) -> std::result::Result<Option<Self>, Refusal>;

    /// Whether a commit with these requirements creates the table or view.
    fn creates(requirements: &[Self::Requirement]) -> bool;

    /// Returns the kinds of change in these updates. `current` is `None` if the table or view does
    /// not exist.
    fn commit_kinds(updates: &[Self::Update], current: Option<&Self>) -> BTreeSet<CommitKind>;

    /// Returns the summary of these updates for the change feed.
    fn summarize(updates: &[Self::Update]) -> UpdateSummary;

    /// Returns the properties and the location that these updates set on a new table or view.
    fn attributes_of_new(updates: &[Self::Update]) -> (BTreeMap<String, String>, Option<&String>);

    /// Returns the metadata files that are no longer in the metadata log of `after`, if a property
    /// of the table enables the deletion of such files.
    fn outdated_files(before: &Self, after: &Self) -> Vec<String>;

    /// Converts the metadata into an entry of the version cache.
    fn into_parsed(this: Arc<Self>) -> ParsedMetadata;
    /// Returns the metadata in an entry of the version cache. `None` if the entry contains a view
    /// instead of a table, or the reverse.
    fn from_parsed(parsed: &ParsedMetadata) -> Option<&Arc<Self>>;
}

impl TabularMetadata for TableMetadata {
    type Requirement = TableRequirement;
    type Update = TableUpdate;

    const KIND: TabularKind = TabularKind::Table;
    const ACTIONS: Actions = Actions {
        create: ChangeAction::CreateTable,
        register: ChangeAction::RegisterTable,
        commit: ChangeAction::CommitTable,
    };

    fn parse(json: &[u8]) -> std::result::Result<Self, Refusal> {
        Self::parse(json)
    }

    fn from_segmented_json(text: &SegmentedJson) -> std::result::Result<Self, Refusal> {
        Self::from_segmented_json(text)
    }

    fn to_segmented_json(&self) -> SegmentedJson {
        self.to_segmented_json()
    }

    fn uuid(&self) -> Uuid {
        self.table_uuid
    }

    fn format_version(&self) -> u8 {
        self.format_version
    }

    fn location(&self) -> &str {
        &self.location
    }

    fn properties(&self) -> &BTreeMap<String, String> {
        &self.properties
    }

    fn apply(
        base: Option<(&Self, Option<&str>)>,
        requirements: &[TableRequirement],
        updates: &[TableUpdate],
        context: &CommitContext,
    ) -> std::result::Result<Option<Self>, Refusal> {
        let base =
            base.map(|(metadata, metadata_location)| CommitBase { metadata, metadata_location });
        let applied = commit::apply(base, requirements, updates, context)?;
        Ok(applied.changed.then_some(applied.metadata))
    }

    fn creates(requirements: &[TableRequirement]) -> bool {
        requirements.iter().any(|it| matches!(it, TableRequirement::NotExist))
    }

    fn commit_kinds(updates: &[TableUpdate], current: Option<&Self>) -> BTreeSet<CommitKind> {
        match current {
            Some(current) => of_table(updates, &current.refs),
            None => of_table(updates, &Refs::new()),
        }
    }

    fn summarize(updates: &[TableUpdate]) -> UpdateSummary {
        let mut summary = UpdateSummary::of(updates.iter().map(TableUpdate::action));
        for update in updates {
            if let TableUpdate::SetSnapshotRef { ref_name, reference } = update {
                summary.snapshots.insert(ref_name.clone(), reference.snapshot_id);
            }
        }
        summary
    }

    fn attributes_of_new(updates: &[TableUpdate]) -> (BTreeMap<String, String>, Option<&String>) {
        let mut properties = BTreeMap::new();
        let mut location = None;
        for update in updates {
            match update {
                TableUpdate::SetProperties { updates } => properties.extend(updates.clone()),
                TableUpdate::RemoveProperties { removals } => {
                    removals.iter().for_each(|key| _ = properties.remove(key));
                }
                TableUpdate::SetLocation { location: to } => location = Some(to),
                _ => {}
            }
        }
        (properties, location)
    }

    fn outdated_files(before: &Self, after: &Self) -> Vec<String> {
        if !deletes_after_commit(&after.properties) {
            return Vec::new();
        }
        let current: HashSet<_> = after.metadata_log.iter().map(|it| it.metadata_file()).collect();
        let files = before.metadata_log.iter().map(|entry| entry.metadata_file());
        files.filter(|file| !current.contains(file)).collect()
    }

    fn into_parsed(this: Arc<Self>) -> ParsedMetadata {
        ParsedMetadata::Table(this)
    }

    fn from_parsed(parsed: &ParsedMetadata) -> Option<&Arc<Self>> {
        match parsed {
            ParsedMetadata::Table(metadata) => Some(metadata),
            ParsedMetadata::View(_) => None,
        }
    }
}

impl TabularMetadata for ViewMetadata {
    type Requirement = ViewRequirement;
    type Update = ViewUpdate;

    const KIND: TabularKind = TabularKind::View;
    const ACTIONS: Actions = Actions {
        create: ChangeAction::CreateView,
        register: ChangeAction::RegisterView,
        commit: ChangeAction::CommitView,
    };

    fn parse(json: &[u8]) -> std::result::Result<Self, Refusal> {
        Self::parse(json)
    }

    fn from_segmented_json(text: &SegmentedJson) -> std::result::Result<Self, Refusal> {
        Self::parse(&text.to_bytes())
    }

    fn to_segmented_json(&self) -> SegmentedJson {
        self.to_json().into()
    }

    fn uuid(&self) -> Uuid {
        self.view_uuid
    }

    fn format_version(&self) -> u8 {
        self.format_version
    }

    fn location(&self) -> &str {
        &self.location
    }

    fn properties(&self) -> &BTreeMap<String, String> {
        &self.properties
    }

    fn apply(
        base: Option<(&Self, Option<&str>)>,
        requirements: &[ViewRequirement],
        updates: &[ViewUpdate],
        context: &CommitContext,
    ) -> std::result::Result<Option<Self>, Refusal> {
        let base = base.map(|(metadata, _)| metadata);
        let applied = view_commit::apply(base, requirements, updates.to_vec(), context)?;
        Ok(applied.changed.then_some(applied.metadata))
    }

    /// No requirement of a commit can create a view.
    fn creates(_requirements: &[ViewRequirement]) -> bool {
        false
    }

    fn commit_kinds(updates: &[ViewUpdate], _current: Option<&Self>) -> BTreeSet<CommitKind> {
        of_view(updates)
    }

    fn summarize(updates: &[ViewUpdate]) -> UpdateSummary {
        UpdateSummary::of(updates.iter().map(ViewUpdate::action))
    }

    fn attributes_of_new(_updates: &[ViewUpdate]) -> (BTreeMap<String, String>, Option<&String>) {
        (BTreeMap::new(), None)
    }

    /// Views have no metadata log.
    fn outdated_files(_before: &Self, _after: &Self) -> Vec<String> {
        Vec::new()
    }

    fn into_parsed(this: Arc<Self>) -> ParsedMetadata {
        ParsedMetadata::View(this)
    }

    fn from_parsed(parsed: &ParsedMetadata) -> Option<&Arc<Self>> {
        match parsed {
            ParsedMetadata::View(metadata) => Some(metadata),
            ParsedMetadata::Table(_) => None,
        }
    }
}

/// Parses the stored metadata of a table or view.
pub(crate) fn metadata_of<M: TabularMetadata>(id: Uuid, text: &SegmentedJson) -> Result<M> {
    M::from_segmented_json(text)
        .map_err(|refusal| Error::internal(Cause::about(format_args!("metadata of {id}"), refusal)))
}
