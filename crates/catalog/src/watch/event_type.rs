//! [`EventType`]: the kinds of events, and the changes that cause them.

use std::fmt;

use crate::{Error, Result};
use slateberg_model::members::brief;
use slateberg_store::records::{Change, ChangedKind};

/// The kind of an event, such as `table.committed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType(&'static str);

/// Kind of change of a warehouse or of something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    Created,
    Registered,
    Updated,
    Committed,
    Renamed,
    Dropped,
    Undropped,
    Purged,
    Deleted,
    Protected,
    Unprotected,
}

/// Creates the types of a kind of resource.
macro_rules! types {
    ($kind:literal, $happening:expr) => {
        match $happening {
            Happening::Created => concat!($kind, ".created"),
            Happening::Registered => concat!($kind, ".registered"),
            Happening::Updated => concat!($kind, ".updated"),
            Happening::Committed => concat!($kind, ".committed"),
            Happening::Renamed => concat!($kind, ".renamed"),
            Happening::Dropped => concat!($kind, ".dropped"),
            Happening::Undropped => concat!($kind, ".undropped"),
            Happening::Purged => concat!($kind, ".purged"),
            Happening::Deleted => concat!($kind, ".deleted"),
            Happening::Protected => concat!($kind, ".protected"),
            Happening::Unprotected => concat!($kind, ".unprotected"),
        }
    };
}

/// The types that a filter can name.
const SELECTABLE: [&str; 44] = [
    "warehouse.created",
    "warehouse.updated",
    "warehouse.deleted",
    "warehouse.protected",
    "warehouse.unprotected",
    "namespace.created",
    "namespace.updated",
    "namespace.dropped",
    "namespace.protected",
    "namespace.unprotected",
    "table.created",
    "table.registered",
    "table.committed",
    "table.renamed",
    "table.dropped",
    "table.undropped",
    "table.purged",
    "table.protected",
    "table.unprotected",
    "view.created",
    "view.registered",
    "view.committed",
    "view.renamed",
    "view.dropped",
    "view.undropped",
    "view.purged",
    "view.protected",
    "view.unprotected",
    "function.created",
    "function.updated",
    "function.dropped",
    "function.protected",
    "function.unprotected",
    "policy.changed",
    "grant.created",
    "grant.revoked",
    "api-key.created",
    "api-key.revoked",
    "job.started",
    "job.cancelled",
    "checkpoint.created",
    "checkpoint.deleted",
    "encryption.changed",
    "catalog.changed",
];

impl EventType {
    /// The client must list its resources again. The caller may now see other resources, or the
    /// server cannot determine whether the caller may see some change.
    pub const RESYNC: Self = Self("resync");
    /// The watch has selected no change. The event only advances the position.
    pub const PROGRESS: Self = Self("progress");

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Returns the type of a change. `None` if the entry does not contain the changed resource,
    /// because an older binary wrote the entry.
    pub(crate) fn of(change: &Change) -> Option<Self> {
        let happening = happening(change);
        let Some(resource) = &change.resource else {
            return match happening {
                Some(_) => None,
                None => Some(Self(other(&change.action))),
            };
        };
        let happening = happening?;
        Some(Self(match resource.kind {
            ChangedKind::Warehouse => types!("warehouse", happening),
            ChangedKind::Namespace => types!("namespace", happening),
            ChangedKind::Table => types!("table", happening),
            ChangedKind::View => types!("view", happening),
            ChangedKind::Function => types!("function", happening),
        }))
    }

    /// Returns the type of the creation of a resource. A rename appears as a creation to a caller
    /// that may see only the new name.
    pub(super) fn created(kind: ChangedKind) -> Self {
        Self(if kind == ChangedKind::View { "view.created" } else { "table.created" })
    }

    /// Returns the type of the drop of a resource. A rename appears as a drop to a caller that may
    /// see only the old name.
    pub(super) fn dropped(kind: ChangedKind) -> Self {
        Self(if kind == ChangedKind::View { "view.dropped" } else { "table.dropped" })
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Returns what a change did to its resource. `None` if changes of this kind do not concern
/// warehouses or their contents.
fn happening(change: &Change) -> Option<Happening> {
    use Happening as H;
    Some(match &*change.action {
        "create_warehouse" | "create_namespace" | "create_table" | "create_view"
        | "create_function" => H::Created,
        "update_warehouse" | "update_namespace_properties" | "replace_function" => H::Updated,
        "register_table" | "register_view" => H::Registered,
        "commit_table" | "commit_view" | "commit_transaction" | "expire_snapshots" => {
            match change.version_before {
                None => H::Created,
                Some(_) => H::Committed,
            }
        }
        "rename_table" | "rename_view" => H::Renamed,
        "delete_warehouse" => H::Deleted,
        "drop_namespace" | "drop_table" | "drop_view" | "drop_function" | "purge_table"
        | "unregister_table" => H::Dropped,
        "undrop_table" | "undrop_view" => H::Undropped,
        "purge_dropped" | "delete_dropped" => H::Purged,
        "protect" => H::Protected,
        "unprotect" => H::Unprotected,
        _ => return None,
    })
}

/// Returns the type of a change that does not concern a warehouse or its contents.
fn other(action: &str) -> &'static str {
    match action {
        "put_policy" | "remove_policy" | "roll_back_policies" => "policy.changed",
        "grant" => "grant.created",
        "revoke" => "grant.revoked",
        "create_api_key" => "api-key.created",
        "revoke_api_key" => "api-key.revoked",
        "start_job" => "job.started",
        "cancel_job" => "job.cancelled",
        "create_checkpoint" => "checkpoint.created",
        "delete_checkpoint" => "checkpoint.deleted",
        "rotate_data_key" | "rewrap_data_keys" => "encryption.changed",
        _ => "catalog.changed",
    }
}

/// The types that a watch selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TypeFilter(Vec<String>);

impl TypeFilter {
    /// Parses types such as `table.committed`, or kinds such as `table` for all types of tables. An
    /// empty list selects all types.
    pub(super) fn parse(types: &[String]) -> Result<Self> {
        let is_known = |wanted: &String| SELECTABLE.iter().any(|known| covers(wanted, known));
        match types.iter().find(|wanted| !is_known(wanted)) {
            None => Ok(Self(types.to_vec())),
            Some(unknown) => Err(Error::Invalid(format!(
                "Invalid event type '{}'. Expected one of {}, or only the part before the dot",
                brief(unknown),
                SELECTABLE.join(", ")
            ))),
        }
    }

    pub(super) fn selects(&self, event_type: EventType) -> bool {
        self.0.is_empty() || self.0.iter().any(|wanted| covers(wanted, event_type.0))
    }
}

fn covers(wanted: &str, event_type: &str) -> bool {
    wanted == event_type
        || event_type.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}
