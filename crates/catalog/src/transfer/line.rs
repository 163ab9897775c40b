//! The lines of an export, version 1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use slateberg_model::warehouse::{Delegation, FileAccess};
use slateberg_store::records::{
    ApiKeyRecord, GrantRecord, PolicyRecord, WarehouseDefinition, WarehouseRecord,
};

/// The version of the lines that this binary writes, and the newest that it reads. Whatever older binaries
/// would not understand raises it: a new type of line as well as a new member of one.
pub const VERSION: u32 = 1;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Line {
    /// The first one.
    SlatebergExport(Header),
    /// A warehouse.
    Warehouse(Box<Warehouse>),
    /// A namespace, behind its parent.
    Namespace(Namespace),
    /// A table, behind its namespace.
    Table(Tabular),
    /// A view, behind its namespace.
    View(Tabular),
    /// A policy that was made at run time.
    Policy(Policy),
    /// A grant.
    Grant(Grant),
    /// An API key, without its text.
    ApiKey(ApiKey),
    /// The last one: a file without it was cut off.
    End(End),
}

/// What the lines are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Header {
    /// The version of the lines.
    pub version: u32,
    /// The id of the catalog that they come from.
    pub catalog_id: Uuid,
    /// The time of the state that they tell, if it is that of a checkpoint, or else of the export.
    pub as_of: String,
}

/// How many lines there are, this and the first one too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct End {
    /// The number.
    pub lines: usize,
}

/// A warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Warehouse {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: Uuid,
    /// The URL of its files.
    pub location: String,
    /// When it was made.
    pub created_at_ms: i64,
    /// What it is, if it was made at run time; null for one of the configuration, which says it.
    pub definition: Option<Definition>,
}

/// What a warehouse is that was made at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Grows by one with each change.
    pub version: u64,
    /// By whom it was made.
    pub created_by: String,
    /// When it became what it is.
    pub changed_at_ms: i64,
    /// By whom.
    pub changed_by: String,
    /// Further URLs below which tables may lie.
    pub allowed_locations: Vec<String>,
    /// Options of its object store that are no secrets.
    pub options: BTreeMap<String, String>,
    /// The name of a set of further options in the configuration.
    pub credentials: Option<String>,
    /// Configuration for clients.
    pub client_defaults: BTreeMap<String, String>,
    /// Configuration for clients.
    pub client_overrides: BTreeMap<String, String>,
    /// How clients get at files.
    pub access: Access,
}

/// How clients get at files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Access {
    /// The ways.
    pub delegation: Vec<Delegation>,
    /// The role that is assumed.
    pub role_arn: Option<String>,
    /// What its trust policy wants.
    pub external_id: Option<String>,
    /// Where it is assumed.
    pub sts_endpoint: Option<String>,
    /// Seconds that credentials are good for.
    pub credentials_seconds: u32,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Namespace {
    /// The name of its warehouse.
    pub warehouse: String,
    /// Its levels, from the outermost in.
    pub namespace: Vec<String>,
    /// Its identity.
    pub id: Uuid,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Grows by one with each change.
    pub version: u64,
    /// When it was made.
    pub created_at_ms: i64,
    /// Who made it, if that is known.
    pub owner: Option<String>,
}

/// A table or view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tabular {
    /// The name of its warehouse.
    pub warehouse: String,
    /// The levels of its namespace.
    pub namespace: Vec<String>,
    /// Its name there.
    pub name: String,
    /// Its identity in the catalog.
    pub id: Uuid,
    /// The `table-uuid` or `view-uuid` of its metadata.
    pub uuid: Uuid,
    /// Where its metadata file is.
    pub metadata_location: String,
    /// Grows by one with each new metadata.
    pub version: u64,
    /// When it came into the catalog.
    pub created_at_ms: i64,
    /// When its metadata last changed.
    pub updated_at_ms: i64,
    /// Who made it, if that is known.
    pub owner: Option<String>,
    /// The text of its metadata file, to the byte.
    pub metadata: String,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Policy {
    /// Its id.
    pub id: String,
    /// Its text, in Cedar's language.
    pub text: String,
    /// When it got it.
    pub changed_at_ms: i64,
    /// From whom.
    pub changed_by: String,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Grant {
    /// Its identity.
    pub id: Uuid,
    /// The id of the template that it fills in.
    pub template: String,
    /// To whom.
    pub grantee: String,
    /// On what.
    pub resource: String,
    /// When it was made.
    pub created_at_ms: i64,
    /// By whom.
    pub created_by: String,
}

/// An API key, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ApiKey {
    /// Its identity.
    pub id: Uuid,
    /// Display name.
    pub name: String,
    /// SHA-256 of its text, in hexadecimal. The text is 256 random bits, which no hash gives away.
    pub sha256: String,
    /// Its roles.
    pub roles: BTreeSet<String>,
    /// Warehouses that the key is limited to; null for all.
    pub warehouses: Option<BTreeSet<String>>,
    /// When it was made.
    pub created_at_ms: i64,
    /// By whom.
    pub created_by: String,
    /// When it expires; null for never.
    pub expires_at_ms: Option<i64>,
}

impl Warehouse {
    /// The line of a warehouse.
    pub fn of(name: String, record: WarehouseRecord) -> Self {
        let definition = record.definition.map(|it| Definition {
            version: it.version,
            created_by: it.created_by,
            changed_at_ms: it.changed_ms,
            changed_by: it.changed_by,
            allowed_locations: it.allowed_locations,
            options: it.options,
            credentials: it.credentials,
            client_defaults: it.client_defaults,
            client_overrides: it.client_overrides,
            access: Access {
                delegation: it.access.delegation,
                role_arn: it.access.role_arn,
                external_id: it.access.external_id,
                sts_endpoint: it.access.sts_endpoint,
                credentials_seconds: it.access.credentials_seconds,
            },
        });
        let WarehouseRecord { id, location, created_ms, .. } = record;
        Self { name, id, location, created_at_ms: created_ms, definition }
    }

    /// Its record.
    pub fn record(&self) -> WarehouseRecord {
        let definition = self.definition.clone().map(|it| WarehouseDefinition {
            version: it.version,
            created_by: it.created_by,
            changed_ms: it.changed_at_ms,
            changed_by: it.changed_by,
            allowed_locations: it.allowed_locations,
            options: it.options,
            credentials: it.credentials,
            client_defaults: it.client_defaults,
            client_overrides: it.client_overrides,
            access: FileAccess {
                delegation: it.access.delegation,
                role_arn: it.access.role_arn,
                external_id: it.access.external_id,
                sts_endpoint: it.access.sts_endpoint,
                credentials_seconds: it.access.credentials_seconds,
            },
        });
        let (id, created_ms) = (self.id, self.created_at_ms);
        WarehouseRecord { id, location: self.location.clone(), created_ms, definition }
    }
}

impl From<PolicyRecord> for Policy {
    fn from(record: PolicyRecord) -> Self {
        let PolicyRecord { id, text, changed_ms, changed_by } = record;
        Self { id, text, changed_at_ms: changed_ms, changed_by }
    }
}

impl From<Policy> for PolicyRecord {
    fn from(line: Policy) -> Self {
        let Policy { id, text, changed_at_ms, changed_by } = line;
        Self { id, text, changed_ms: changed_at_ms, changed_by }
    }
}

impl From<GrantRecord> for Grant {
    fn from(record: GrantRecord) -> Self {
        let GrantRecord { id, template, grantee, resource, created_ms, created_by } = record;
        Self { id, template, grantee, resource, created_at_ms: created_ms, created_by }
    }
}

impl From<Grant> for GrantRecord {
    fn from(line: Grant) -> Self {
        let Grant { id, template, grantee, resource, created_at_ms, created_by } = line;
        Self { id, template, grantee, resource, created_ms: created_at_ms, created_by }
    }
}

impl From<ApiKeyRecord> for ApiKey {
    fn from(record: ApiKeyRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            sha256: record.hash,
            roles: record.roles,
            warehouses: record.warehouses,
            created_at_ms: record.created_ms,
            created_by: record.created_by,
            expires_at_ms: record.expires_ms,
        }
    }
}

impl From<ApiKey> for ApiKeyRecord {
    fn from(line: ApiKey) -> Self {
        Self {
            id: line.id,
            name: line.name,
            hash: line.sha256,
            roles: line.roles,
            warehouses: line.warehouses,
            created_ms: line.created_at_ms,
            created_by: line.created_by,
            expires_ms: line.expires_at_ms,
        }
    }
}
