//! Entries of the change log. An entry states who changed what and when, and which policies allowed
//! the change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::change_action::LoggedAction;
use slateberg_authz::decide::Decision;
use slateberg_model::ident::TabularKind;

/// An entry of the change log. It is written in the same batch as its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time of the change.
    pub at_ms: i64,
    /// Kind of the change.
    pub action: LoggedAction,
    /// Id of the principal.
    pub principal: String,
    /// Id of the warehouse.
    pub warehouse: Uuid,
    /// Id of the namespace, table, view or function.
    pub subject: Uuid,
    /// Full name after the change, with dots between its parts.
    pub name: String,
    /// Version of the record before the change, if it existed.
    pub version_before: Option<u64>,
    /// Version of the record after the change, if it exists.
    pub version_after: Option<u64>,
    /// The policies that allowed the change. `None` if no policy was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<AllowedBy>,
    /// Origin of the request. `None` for background tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The changed resource. Present only for warehouses and their contents. `None` also if an older
    /// binary wrote the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ChangedResource>,
    /// Position of this entry in its transaction. `None` if the transaction has no other entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPosition>,
}

/// Position of an entry among the entries of its transaction, whose numbers are consecutive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPosition {
    /// Position, counted from 0.
    pub index: u32,
    /// Number of entries of the transaction.
    pub count: u32,
}

/// Kind of a changed resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangedKind {
    /// A warehouse.
    Warehouse,
    /// A namespace.
    Namespace,
    /// A table.
    Table,
    /// A view.
    View,
    /// A function.
    Function,
}

impl ChangedKind {
    /// Returns the name in responses, such as `table`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse",
            Self::Namespace => "namespace",
            Self::Table => "table",
            Self::View => "view",
            Self::Function => "function",
        }
    }
}

impl From<TabularKind> for ChangedKind {
    fn from(kind: TabularKind) -> Self {
        match kind {
            TabularKind::Table => Self::Table,
            TabularKind::View => Self::View,
        }
    }
}

/// The state of a resource after a change, for readers of the change feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ChangedResource {
    /// Kind of the resource.
    pub kind: ChangedKind,
    /// Levels of the changed namespace, or of the namespace that contains the changed table,
    /// view or function. Empty for a warehouse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace: Vec<String>,
    /// Name of the warehouse, table, view or function. `None` for a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace and name before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<PreviousName>,
    /// The `table-uuid`, `view-uuid` or `function-uuid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Location of the metadata file before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_before: Option<String>,
    /// Location of the metadata file after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_after: Option<String>,
    /// Branches and tags that the change set, with their snapshots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snapshots: BTreeMap<String, i64>,
    /// Kinds of the updates of a commit, such as `add-snapshot`, without repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
}

/// The name of a table or view before a rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousName {
    /// Levels of the namespace.
    pub namespace: Vec<String>,
    /// Name in the namespace.
    pub name: String,
}

/// Origin of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Origin {
    /// Name of the principal. It is stored because the id of an API key does not contain the name
    /// of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_name: Option<String>,
    /// Kind of the principal's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// IP address of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_address: Option<String>,
    /// The request's `X-Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Policies that allowed a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedBy {
    /// Revision of the policies.
    pub revision: String,
    /// Ids of the matching policies.
    pub policies: Vec<String>,
}

impl From<&Decision> for AllowedBy {
    fn from(decision: &Decision) -> Self {
        Self { revision: decision.revision.to_string(), policies: decision.policies.clone() }
    }
}
