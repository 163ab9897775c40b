//! Requirements and updates of a commit to a view, with the names of the REST specification.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::members::{Members, RawMembers, brief};
use super::refusal::Refusal;
use super::schema::Schema;
use super::table_json::parse_uuid;
use super::update::{read_removals, read_updates, split_action, unrecognized};
use super::view::{ViewMetadata, ViewVersion};

/// The actions that only apply to tables.
const TABLE_ACTIONS: [&str; 17] = [
    "set-current-schema",
    "remove-schemas",
    "add-spec",
    "set-default-spec",
    "remove-partition-specs",
    "add-sort-order",
    "set-default-sort-order",
    "add-snapshot",
    "remove-snapshots",
    "set-snapshot-ref",
    "remove-snapshot-ref",
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "add-encryption-key",
    "remove-encryption-key",
];

/// A condition of a commit on the state of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewRequirement {
    /// `assert-view-uuid`
    UuidMatch {
        /// The UUID that the view must have.
        uuid: Uuid,
    },
}

impl ViewRequirement {
    /// Parses one requirement. Refuses an unknown `type`, as the specification requires.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let members = RawMembers::parse("update requirement", raw.get())?;
        let kind = members.opt_string("type")?.ok_or_else(|| {
            Refusal::invalid("Cannot parse update requirement. Missing field: type")
        })?;
        match kind.to_ascii_lowercase().as_str() {
            "assert-view-uuid" => {
                Ok(Self::UuidMatch { uuid: parse_uuid("uuid", &members.string("uuid")?)? })
            }
            _ => {
                let kind = brief(kind);
                Err(Refusal::invalid(format!("Cannot validate {kind} against a view")))
            }
        }
    }

    /// Checks the requirement against the view. `view` is `None` if the view does not exist.
    pub fn check(&self, view: Option<&ViewMetadata>) -> Result<(), Refusal> {
        let Self::UuidMatch { uuid } = self;
        match view {
            Some(view) if view.view_uuid == *uuid => Ok(()),
            Some(view) => Err(Refusal::conflict(format!(
                "Requirement failed: view UUID does not match: expected {} != {uuid}",
                view.view_uuid
            ))),
            None => Err(Refusal::conflict("Requirement failed: view does not exist")),
        }
    }
}

/// One change to a view.
#[derive(Debug, Clone)]
pub enum ViewUpdate {
    /// `assign-uuid`
    AssignUuid {
        /// The view's UUID.
        uuid: Uuid,
    },
    /// `upgrade-format-version`
    UpgradeFormatVersion {
        /// The new format version.
        format_version: i32,
    },
    /// `add-schema`
    AddSchema {
        /// The schema. The view assigns its id.
        schema: Schema,
    },
    /// `set-location`
    SetLocation {
        /// The new directory of the view's files.
        location: String,
    },
    /// `set-properties`
    SetProperties {
        /// The properties to add or overwrite.
        updates: BTreeMap<String, String>,
    },
    /// `remove-properties`
    RemoveProperties {
        /// The properties to remove. Unknown names are ignored.
        removals: Vec<String>,
    },
    /// `add-view-version`
    AddViewVersion {
        /// The version. The view assigns its id.
        view_version: ViewVersion,
    },
    /// `set-current-view-version`
    SetCurrentViewVersion {
        /// A version of the view, or -1 for the one that was added last.
        view_version_id: i32,
    },
}

impl ViewUpdate {
    /// Parses one update. Refuses an unknown `action`, as the specification requires.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let (action, members) = split_action(raw)?;
        Ok(match action.as_str() {
            "assign-uuid" => {
                Self::AssignUuid { uuid: parse_uuid("uuid", &members.string("uuid")?)? }
            }
            "upgrade-format-version" => {
                Self::UpgradeFormatVersion { format_version: members.i32("format-version")? }
            }
            "add-schema" => {
                Self::AddSchema { schema: Schema::parse(members.required_raw("schema")?)? }
            }
            "set-location" => Self::SetLocation { location: members.string("location")? },
            "set-properties" => Self::SetProperties { updates: read_updates(&members)? },
            "remove-properties" => Self::RemoveProperties { removals: read_removals(&members)? },
            "add-view-version" => {
                let view_version = ViewVersion::parse(members.required_raw("view-version")?)?;
                Self::AddViewVersion { view_version }
            }
            "set-current-view-version" => {
                Self::SetCurrentViewVersion { view_version_id: members.i32("view-version-id")? }
            }
            other if TABLE_ACTIONS.contains(&other) => {
                return Err(Refusal::invalid(format!("Cannot apply update {other} to a view")));
            }
            other => return Err(unrecognized(other)),
        })
    }

    /// Returns the `action` of this update, as in the JSON.
    pub fn action(&self) -> &'static str {
        match self {
            Self::AssignUuid { .. } => "assign-uuid",
            Self::UpgradeFormatVersion { .. } => "upgrade-format-version",
            Self::AddSchema { .. } => "add-schema",
            Self::SetLocation { .. } => "set-location",
            Self::SetProperties { .. } => "set-properties",
            Self::RemoveProperties { .. } => "remove-properties",
            Self::AddViewVersion { .. } => "add-view-version",
            Self::SetCurrentViewVersion { .. } => "set-current-view-version",
        }
    }
}
