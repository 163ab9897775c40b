//! Request and response bodies, under the names that the specification gives them. They contain no
//! logic.
//!
//! Schemas, specs, updates and requirements remain unparsed JSON ([`serde_json::value::RawValue`]);
//! the model parses and validates them.

pub mod api_keys;
pub mod checkpoints;
pub mod cursors;
pub mod dropped;
pub mod encryption;
pub mod events;
pub mod explain;
pub mod functions;
pub mod grants;
pub mod history;
pub mod identity;
pub mod jobs;
pub mod labels;
pub mod listings;
pub mod metrics_reports;
pub mod namespaces;
pub mod object;
pub mod past;
pub mod plan;
pub mod policies;
pub mod protections;
pub mod scans;
pub mod search;
pub mod sign;
pub mod snapshots;
pub mod tables;
pub mod usage;
pub mod warehouses;
pub mod watch;
pub mod webhooks;

use std::collections::BTreeMap;

use object::Object;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use slateberg_model::ident::{NamespaceIdent, TabularIdent};

/// Properties by key.
pub type Properties = BTreeMap<String, String>;

/// Body of `POST /v1/{prefix}/namespaces`.
#[derive(Debug, Deserialize)]
pub struct CreateNamespaceRequest {
    /// Levels of the namespace, outermost first.
    pub namespace: NamespaceIdent,
    /// Properties of the namespace.
    #[serde(default)]
    pub properties: Option<Properties>,
}

/// Response of `GET /v1/{prefix}/namespaces/{namespace}`.
#[derive(Debug, Serialize)]
pub struct GetNamespaceResponse {
    /// Levels of the namespace, outermost first.
    pub namespace: NamespaceIdent,
    /// Properties of the namespace.
    pub properties: Properties,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/properties`.
#[derive(Debug, Deserialize)]
pub struct UpdateNamespacePropertiesRequest {
    /// Keys to remove.
    #[serde(default)]
    pub removals: Option<Vec<String>>,
    /// Keys to set.
    #[serde(default)]
    pub updates: Option<Properties>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CreateTableRequest {
    /// Name of the table.
    pub name: String,
    /// Base location of the table's files.
    #[serde(default)]
    pub location: Option<String>,
    /// Schema of the table.
    pub schema: Box<RawValue>,
    /// Partition spec of the table.
    #[serde(default)]
    pub partition_spec: Option<Box<RawValue>>,
    /// Sort order of the table.
    #[serde(default)]
    pub write_order: Option<Box<RawValue>>,
    /// True to stage the table: a later commit creates it.
    #[serde(default)]
    pub stage_create: Option<bool>,
    /// Properties of the table.
    #[serde(default)]
    pub properties: Option<Properties>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/register`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RegisterTableRequest {
    /// Name of the table.
    pub name: String,
    /// Location of the table's metadata file.
    pub metadata_location: String,
    /// True to replace an existing table of that name.
    #[serde(default)]
    pub overwrite: Option<bool>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/register-view`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RegisterViewRequest {
    /// Name of the view.
    pub name: String,
    /// Location of the view's metadata file.
    pub metadata_location: String,
}

/// Body of `POST /v1/{prefix}/tables/rename` and of `.../views/rename`.
#[derive(Debug, Deserialize)]
pub struct RenameTableRequest {
    /// Current name.
    pub source: Object<TabularIdent>,
    /// New name.
    pub destination: Object<TabularIdent>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}` and its counterpart for views.
/// A transaction contains one such body for each table.
#[derive(Debug, Deserialize)]
pub struct CommitRequest {
    /// The table or view. Required in a transaction.
    #[serde(default)]
    pub identifier: Option<Object<TabularIdent>>,
    /// Conditions that the current metadata must meet.
    #[serde(default)]
    pub requirements: Option<Vec<Box<RawValue>>>,
    /// Changes to the metadata.
    pub updates: Vec<Box<RawValue>>,
}

/// Body of `POST /v1/{prefix}/transactions/commit`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CommitTransactionRequest {
    /// The changes, one for each table.
    pub table_changes: Vec<Object<CommitRequest>>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/views`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CreateViewRequest {
    /// Name of the view.
    pub name: String,
    /// Base location of the view's metadata files.
    #[serde(default)]
    pub location: Option<String>,
    /// Schema of the view.
    pub schema: Box<RawValue>,
    /// First version of the view.
    pub view_version: Box<RawValue>,
    /// Properties of the view.
    #[serde(default)]
    pub properties: Option<Properties>,
}

/// Response of `GET /v1/config`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogConfig {
    /// Properties that the client's own configuration overrides.
    pub defaults: Properties,
    /// Properties that override the client's own configuration.
    pub overrides: Properties,
    /// All supported endpoints. Clients must not use others.
    pub endpoints: Vec<String>,
    /// Retention of an `Idempotency-Key`, as an ISO 8601 duration.
    pub idempotency_key_lifetime: String,
}
