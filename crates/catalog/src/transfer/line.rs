//! The lines of an export, version 5. Version 2 added functions. Version 3 added protections, and
//! the retention of dropped resources of a warehouse. Version 4 added the maintenance properties of a
//! warehouse. Version 5 added the labels of tables and views.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use slateberg_model::function::FunctionMetadata;
use slateberg_model::warehouse::{Delegation, FileAccess};
use slateberg_store::labels::LabelsRecord;
use slateberg_store::records::{
    ApiKeyRecord, GrantRecord, PolicyRecord, ProtectionRecord, WarehouseDefinition, WarehouseRecord,
};

/// Version of the lines that this binary writes, and the newest version that it reads. Increment it
/// with each change that older binaries cannot read, such as a new type of line or a new field.
pub const VERSION: u32 = 5;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Line {
    /// The first line.
    SlatebergExport(Header),
    /// A warehouse.
    Warehouse(Box<Warehouse>),
    /// A namespace, after its parent.
    Namespace(Namespace),
    /// A table, after its namespace.
    Table(Tabular),
    /// A view, after its namespace.
    View(Tabular),
    /// A function, after its namespace.
    Function(Function),
    /// A protection.
    Protection(Protection),
    /// A policy that was created at run time.
    Policy(Policy),
    /// A grant.
    Grant(Grant),
    /// An API key, without its secret.
    ApiKey(ApiKey),
    /// The last line. A file without this line was truncated.
    End(End),
}

/// Properties of the whole export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Header {
    /// The version of the lines.
    pub version: u32,
    /// The id of the exported catalog.
    pub catalog_id: Uuid,
    /// The time of the exported state. This is the time of the checkpoint if a checkpoint was
    /// exported. Otherwise it is the time of the export.
    pub as_of: String,
}

/// The last line, which contains the number of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct End {
    /// The number of lines, including the first line and this line.
    pub lines: usize,
}

/// A warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Warehouse {
    /// The name of the warehouse.
    pub name: String,
    /// Its id.
    pub id: Uuid,
    /// The URL of its files.
    pub location: String,
    /// The time of its creation.
    pub created_at_ms: i64,
    /// The definition of a warehouse that was created at run time. Null for a warehouse that the
    /// configuration defines.
    pub definition: Option<Definition>,
}

/// The definition of a warehouse that was created at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Incremented by each change.
    pub version: u64,
    /// The principal that created it.
    pub created_by: String,
    /// The time of its last change.
    pub changed_at_ms: i64,
    /// The principal that changed it last.
    pub changed_by: String,
    /// Further URLs below which tables may be located.
    pub allowed_locations: Vec<String>,
    /// Options of its object store, without secrets.
    pub options: BTreeMap<String, String>,
    /// The name of a set of further options in the configuration.
    pub credentials: Option<String>,
    /// Configuration defaults for clients.
    pub client_defaults: BTreeMap<String, String>,
    /// Configuration overrides for clients.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped resources, in seconds. Null for the retention of the catalog.
    #[serde(default)]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties.
    #[serde(default)]
    pub maintenance: BTreeMap<String, String>,
    /// Access of clients to files.
    pub access: Access,
}

/// Access of clients to the files of a warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Access {
    /// The enabled delegation modes.
    pub delegation: Vec<Delegation>,
    /// The role for vended credentials.
    pub role_arn: Option<String>,
    /// The external id that the role's trust policy requires.
    pub external_id: Option<String>,
    /// The STS endpoint.
    pub sts_endpoint: Option<String>,
    /// Lifetime of vended credentials, in seconds.
    pub credentials_seconds: u32,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Namespace {
    /// The name of its warehouse.
    pub warehouse: String,
    /// Its levels, outermost first.
    pub namespace: Vec<String>,
    /// Its id.
    pub id: Uuid,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Incremented by each change.
    pub version: u64,
    /// The time of its creation.
    pub created_at_ms: i64,
    /// Its owner, if known.
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
    /// The name in the namespace.
    pub name: String,
    /// Its id in the catalog.
    pub id: Uuid,
    /// The `table-uuid` or `view-uuid` of its metadata.
    pub uuid: Uuid,
    /// The location of its metadata file.
    pub metadata_location: String,
    /// Incremented by each change of the metadata.
    pub version: u64,
    /// The time of its creation in the catalog.
    pub created_at_ms: i64,
    /// The time of the last change of its metadata.
    pub updated_at_ms: i64,
    /// Its owner, if known.
    pub owner: Option<String>,
    /// The content of its metadata file, byte for byte.
    pub metadata: String,
    /// Its labels. Null if it has none.
    #[serde(default)]
    pub labels: Option<Labels>,
}

/// The labels of a table or view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Labels {
    /// Random id of this state of the labels.
    pub revision: Uuid,
    /// The labels of the table or view itself.
    pub object_labels: BTreeMap<String, String>,
    /// The labels of its columns.
    pub fields: Vec<FieldLabels>,
}

/// The labels of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FieldLabels {
    /// The id of the column.
    pub field_id: i32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Function {
    /// The name of its warehouse.
    pub warehouse: String,
    /// The levels of its namespace.
    pub namespace: Vec<String>,
    /// The name in the namespace.
    pub name: String,
    /// Its id in the catalog.
    pub id: Uuid,
    /// Incremented by each change.
    pub version: u64,
    /// The time of its creation in the catalog.
    pub created_at_ms: i64,
    /// The time of its last change.
    pub updated_at_ms: i64,
    /// Its owner, if known.
    pub owner: Option<String>,
    /// Its metadata.
    pub metadata: FunctionMetadata,
}

/// A protection against removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Protection {
    /// The id of the protected resource.
    pub id: Uuid,
    /// The name of the protected resource.
    pub resource: String,
    /// The time of the protection.
    pub protected_at_ms: i64,
    /// The principal that protected the resource.
    pub protected_by: String,
    /// A comment for people.
    pub comment: Option<String>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Policy {
    /// Its id.
    pub id: String,
    /// The source of the policy, in Cedar's language.
    pub text: String,
    /// The time of its last change.
    pub changed_at_ms: i64,
    /// The principal that changed it last.
    pub changed_by: String,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Grant {
    /// Its id.
    pub id: Uuid,
    /// The id of its template.
    pub template: String,
    /// The grantee.
    pub grantee: String,
    /// The resource.
    pub resource: String,
    /// The time of its creation.
    pub created_at_ms: i64,
    /// The principal that created it.
    pub created_by: String,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ApiKey {
    /// Its id.
    pub id: Uuid,
    /// Its display name.
    pub name: String,
    /// SHA-256 of the secret, in hexadecimal. The secret has 256 random bits, so it cannot be
    /// derived from the hash.
    pub sha256: String,
    /// Its roles.
    pub roles: BTreeSet<String>,
    /// Warehouses to which the key is limited. Null if it is not limited.
    pub warehouses: Option<BTreeSet<String>>,
    /// The time of its creation.
    pub created_at_ms: i64,
    /// The principal that created it.
    pub created_by: String,
    /// The time at which the key expires. Null if it never expires.
    pub expires_at_ms: Option<i64>,
}

impl Warehouse {
    /// Returns the line of a warehouse.
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
            dropped_kept_seconds: it.dropped_kept_seconds,
            maintenance: it.maintenance,
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

    /// Returns the record of a warehouse.
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
            dropped_kept_seconds: it.dropped_kept_seconds,
            maintenance: it.maintenance,
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

impl From<LabelsRecord> for Labels {
    fn from(record: LabelsRecord) -> Self {
        let LabelsRecord { revision, object, fields } = record;
        let fields = fields.into_iter().map(|(field_id, labels)| FieldLabels { field_id, labels });
        Self { revision, object_labels: object, fields: fields.collect() }
    }
}

impl From<Labels> for LabelsRecord {
    fn from(line: Labels) -> Self {
        let Labels { revision, object_labels, fields } = line;
        let fields = fields.into_iter().map(|it| (it.field_id, it.labels)).collect();
        Self { revision, object: object_labels, fields }
    }
}

impl From<(Uuid, ProtectionRecord)> for Protection {
    fn from((id, record): (Uuid, ProtectionRecord)) -> Self {
        let ProtectionRecord { resource, protected_ms, protected_by, comment } = record;
        Self { id, resource, protected_at_ms: protected_ms, protected_by, comment }
    }
}

impl From<Protection> for ProtectionRecord {
    fn from(line: Protection) -> Self {
        let Protection { resource, protected_at_ms, protected_by, comment, .. } = line;
        Self { resource, protected_ms: protected_at_ms, protected_by, comment }
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
