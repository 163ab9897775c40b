//! The shapes of bodies, with the specification's names. Nothing but serde.
//!
//! Schemas, specs, updates and requirements stay JSON text here ([`serde_json::value::RawValue`]);
//! what they mean is the model's to say.

pub mod api_keys;
pub mod checkpoints;
pub mod encryption;
pub mod explain;
pub mod grants;
pub mod identity;
pub mod jobs;
pub mod listings;
pub mod object;
pub mod policies;
pub mod sign;
pub mod warehouses;

use std::collections::BTreeMap;

use object::Object;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use slateberg_model::ident::{NamespaceIdent, TabularIdent};

/// Properties, by key.
pub type Properties = BTreeMap<String, String>;

/// Body of `POST /v1/{prefix}/namespaces`.
#[derive(Debug, Deserialize)]
pub struct CreateNamespaceRequest {
    /// Levels, from the outermost in.
    pub namespace: NamespaceIdent,
    /// Its properties.
    #[serde(default)]
    pub properties: Option<Properties>,
}

/// Answer of `GET /v1/{prefix}/namespaces/{namespace}`.
#[derive(Debug, Serialize)]
pub struct GetNamespaceResponse {
    /// Its levels.
    pub namespace: NamespaceIdent,
    /// Its properties.
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
    /// The table's name.
    pub name: String,
    /// Where its files go.
    #[serde(default)]
    pub location: Option<String>,
    /// Its schema.
    pub schema: Box<RawValue>,
    /// Its partition spec.
    #[serde(default)]
    pub partition_spec: Option<Box<RawValue>>,
    /// Its sort order.
    #[serde(default)]
    pub write_order: Option<Box<RawValue>>,
    /// Whether the table is only staged.
    #[serde(default)]
    pub stage_create: Option<bool>,
    /// Its properties.
    #[serde(default)]
    pub properties: Option<Properties>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/register`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RegisterTableRequest {
    /// The table's name.
    pub name: String,
    /// Its metadata file.
    pub metadata_location: String,
    /// Whether a table of that name may be there.
    #[serde(default)]
    pub overwrite: Option<bool>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/register-view`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RegisterViewRequest {
    /// The view's name.
    pub name: String,
    /// Its metadata file.
    pub metadata_location: String,
}

/// Body of `POST /v1/{prefix}/tables/rename` and of `.../views/rename`.
#[derive(Debug, Deserialize)]
pub struct RenameTableRequest {
    /// Its name now.
    pub source: Object<TabularIdent>,
    /// Its name afterwards.
    pub destination: Object<TabularIdent>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}` and of the same for views, and
/// one change of a transaction.
#[derive(Debug, Deserialize)]
pub struct CommitRequest {
    /// Which table or view; required in a transaction.
    #[serde(default)]
    pub identifier: Option<Object<TabularIdent>>,
    /// What has to be so.
    #[serde(default)]
    pub requirements: Option<Vec<Box<RawValue>>>,
    /// What becomes different.
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
    /// The view's name.
    pub name: String,
    /// Where its metadata files go.
    #[serde(default)]
    pub location: Option<String>,
    /// Its schema.
    pub schema: Box<RawValue>,
    /// Its first version.
    pub view_version: Box<RawValue>,
    /// Its properties.
    #[serde(default)]
    pub properties: Option<Properties>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics`, as far as it matters
/// here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReportMetricsRequest {
    /// Which kind of report.
    pub report_type: String,
}

/// Answer of `GET /v1/config`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogConfig {
    /// What the client uses unless it knows better.
    pub defaults: Properties,
    /// What the client uses in any case.
    pub overrides: Properties,
    /// What is served, and nothing else.
    pub endpoints: Vec<String>,
    /// For how long an `Idempotency-Key` is remembered (ISO 8601).
    pub idempotency_key_lifetime: String,
}
