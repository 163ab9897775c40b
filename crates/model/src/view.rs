//! The metadata of a view: its versions, their schemas, and which version is current.
//!
//! A *version* is a state of the view: a query in one or more SQL dialects (its *representations*)
//! and the schema of its result. The *version log* records which version was current at what time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::members::{Members, RawMembers, brief, elements, object, parse_value};
use super::refusal::Refusal;
use super::schema::Schema;
use super::table_json::parse_uuid;

/// The only format version of views.
pub(crate) const VIEW_FORMAT_VERSION: u8 = 1;

/// The members that this version knows. All others go to `extra`.
const KNOWN_MEMBERS: [&str; 8] = [
    "view-uuid",
    "format-version",
    "location",
    "properties",
    "schemas",
    "current-version-id",
    "versions",
    "version-log",
];

/// A view's metadata document ("View Metadata" in the view specification, version 1).
#[derive(Debug, Clone, PartialEq)]
pub struct ViewMetadata {
    /// The view's UUID.
    pub view_uuid: Uuid,
    /// Always 1.
    pub format_version: u8,
    /// The directory of the view's files.
    pub location: String,
    /// The view's properties.
    pub properties: BTreeMap<String, String>,
    /// The schemas, in the order in which they were added.
    pub schemas: Vec<Arc<Schema>>,
    /// The id of the current version, one of `versions`.
    pub current_version_id: i32,
    /// The versions, in the order in which they were added.
    pub versions: Vec<Arc<ViewVersion>>,
    /// The log of the versions that were current, oldest first.
    pub version_log: Vec<ViewHistoryEntry>,
    /// Members of the document that this version of slateberg does not know.
    pub extra: Map<String, Value>,
}

/// A state of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewVersion {
    /// The id within the view.
    pub version_id: i32,
    /// Creation time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The schema of the result. In a request, -1 means the schema that was added last.
    pub schema_id: i32,
    /// The writer's summary of the change.
    pub summary: BTreeMap<String, String>,
    /// The catalog for table references that do not contain a catalog.
    pub default_catalog: Option<String>,
    /// The namespace for table references that do not contain a namespace.
    pub default_namespace: Vec<String>,
    /// The query, once per dialect.
    pub representations: Vec<ViewRepresentation>,
}

/// The query of a view version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewRepresentation {
    /// A query in SQL.
    Sql {
        /// The SQL.
        sql: String,
        /// The SQL dialect.
        dialect: String,
    },
    /// A representation of a later specification. It is preserved if a document contains it, but
    /// refused if a client's request contains it.
    Other {
        /// The type of the representation.
        kind: String,
        /// The complete representation.
        json: Value,
    },
}

/// A change of the current version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewHistoryEntry {
    /// The time of the change, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The version that became current.
    pub version_id: i32,
}

impl ViewMetadata {
    /// Parses a view's metadata document and checks its consistency.
    pub fn parse(json: &[u8]) -> Result<Self, Refusal> {
        let json = std::str::from_utf8(json)
            .map_err(|error| Refusal::invalid(format!("Cannot parse view metadata: {error}")))?;
        let members = RawMembers::parse("view metadata", json)?;
        let format_version = members.i32("format-version")?;
        if format_version != i32::from(VIEW_FORMAT_VERSION) {
            return Err(Refusal::invalid(format!("Unsupported format version: {format_version}")));
        }
        let unknown = members.iter().filter(|(name, _)| !KNOWN_MEMBERS.contains(name));
        let extra = unknown.map(|(name, raw)| Ok((name.to_owned(), parse_value(name, raw)?)));
        let metadata = Self {
            view_uuid: parse_uuid("view-uuid", &members.string("view-uuid")?)?,
            format_version: VIEW_FORMAT_VERSION,
            location: members.string("location")?,
            properties: members.opt_string_map("properties")?.unwrap_or_default(),
            schemas: read_list(&members, "schemas", Schema::parse)?,
            current_version_id: members.i32("current-version-id")?,
            versions: read_list(&members, "versions", ViewVersion::parse)?,
            version_log: required_list(&members, "version-log")?
                .into_iter()
                .map(ViewHistoryEntry::parse)
                .collect::<Result<_, _>>()?,
            extra: extra.collect::<Result<_, Refusal>>()?,
        };
        metadata.check()?;
        Ok(metadata)
    }

    /// Returns the document as the reference implementation writes it.
    pub fn to_json(&self) -> Vec<u8> {
        // Writing strings, numbers and validated JSON into memory cannot fail.
        serde_json::to_vec(self).expect("metadata always serializes into memory")
    }

    /// Returns the current version.
    pub fn current_version(&self) -> Result<&Arc<ViewVersion>, Refusal> {
        let id = self.current_version_id;
        self.versions.iter().find(|version| version.version_id == id).ok_or_else(|| {
            Refusal::invalid(format!("Cannot find current version {id} in view versions"))
        })
    }

    /// Returns the schema of the current version.
    pub fn current_schema(&self) -> Result<&Arc<Schema>, Refusal> {
        let id = self.current_version()?.schema_id;
        self.schemas.iter().find(|schema| schema.schema_id() == id).ok_or_else(|| {
            Refusal::invalid(format!("Cannot find current schema with id {id} in schemas"))
        })
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.location.is_empty() {
            return Err(Refusal::invalid("Invalid location: must not be empty"));
        }
        let mut ids = HashSet::new();
        if let Some(schema) = self.schemas.iter().find(|s| !ids.insert(s.schema_id())) {
            let id = schema.schema_id();
            return Err(Refusal::invalid(format!("Invalid metadata: duplicate schema id: {id}")));
        }
        let mut ids = HashSet::new();
        if let Some(version) = self.versions.iter().find(|v| !ids.insert(v.version_id)) {
            let id = version.version_id;
            return Err(Refusal::invalid(format!("Invalid metadata: duplicate version id: {id}")));
        }
        self.current_schema().map(|_| ())
    }
}

fn required_list<'a>(members: &RawMembers<'a>, name: &str) -> Result<Vec<&'a RawValue>, Refusal> {
    members
        .raw_list(name)?
        .ok_or_else(|| Refusal::invalid(format!("Cannot parse missing field: {name}")))
}

fn read_list<T>(
    members: &RawMembers<'_>,
    name: &str,
    read: impl Fn(&RawValue) -> Result<T, Refusal>,
) -> Result<Vec<Arc<T>>, Refusal> {
    required_list(members, name)?.into_iter().map(|raw| read(raw).map(Arc::new)).collect()
}

impl ViewVersion {
    /// Parses a view version's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let members = RawMembers::parse("view version", raw.get())?;
        let representations = members.required("representations")?;
        if !representations.is_array() {
            return Err(Refusal::invalid(format!(
                "Cannot parse representations from non-array: {}",
                brief(&*representations)
            )));
        }
        let representations = elements(&representations).iter();
        Ok(Self {
            version_id: members.i32("version-id")?,
            schema_id: members.i32("schema-id")?,
            timestamp_ms: members.i64("timestamp-ms")?,
            summary: members.string_map("summary")?,
            default_catalog: members.opt_string("default-catalog")?,
            default_namespace: members.string_list("default-namespace")?,
            representations: representations
                .map(ViewRepresentation::parse)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the dialects of the SQL representations, in lower case, with duplicates.
    pub(super) fn dialects(&self) -> impl Iterator<Item = String> {
        self.representations.iter().filter_map(|representation| match representation {
            ViewRepresentation::Sql { dialect, .. } => Some(dialect.to_lowercase()),
            ViewRepresentation::Other { .. } => None,
        })
    }

    /// Whether both versions are equal except for their ids and times.
    pub(super) fn same_version(&self, other: &Self) -> bool {
        self.summary == other.summary
            && self.representations == other.representations
            && self.default_catalog == other.default_catalog
            && self.default_namespace == other.default_namespace
            && self.schema_id == other.schema_id
    }

    /// Refuses an invalid new version: a duplicate dialect, or a representation that is not SQL.
    pub(super) fn check_representations(&self) -> Result<(), Refusal> {
        let others =
            self.representations.iter().filter_map(|representation| match representation {
                ViewRepresentation::Sql { .. } => None,
                ViewRepresentation::Other { kind, .. } => Some(kind.as_str()),
            });
        let others: Vec<&str> = others.collect();
        if !others.is_empty() {
            return Err(Refusal::invalid(format!(
                "Found unsupported view representations: [{}]",
                brief(others.join(", "))
            )));
        }
        let mut dialects = HashSet::new();
        match self.dialects().find(|dialect| !dialects.insert(dialect.clone())) {
            None => Ok(()),
            Some(dialect) => Err(Refusal::invalid(format!(
                "Invalid view version: Cannot add multiple queries for dialect {}",
                brief(dialect)
            ))),
        }
    }
}

impl ViewRepresentation {
    fn parse(json: &Value) -> Result<Self, Refusal> {
        let members = object("view representation", json)?;
        let kind = members.string("type")?;
        if kind.eq_ignore_ascii_case("sql") {
            return Ok(Self::Sql {
                sql: members.string("sql")?,
                dialect: members.string("dialect")?,
            });
        }
        Ok(Self::Other { kind, json: json.clone() })
    }
}

impl ViewHistoryEntry {
    fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let members = RawMembers::parse("view history entry", raw.get())?;
        let version_id = members.i32("version-id")?;
        Ok(Self { timestamp_ms: members.i64("timestamp-ms")?, version_id })
    }
}

impl Serialize for ViewMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("view-uuid", &self.view_uuid)?;
        map.serialize_entry("format-version", &self.format_version)?;
        map.serialize_entry("location", &self.location)?;
        if !self.properties.is_empty() {
            map.serialize_entry("properties", &self.properties)?;
        }
        map.serialize_entry("schemas", &self.schemas)?;
        map.serialize_entry("current-version-id", &self.current_version_id)?;
        map.serialize_entry("versions", &self.versions)?;
        map.serialize_entry("version-log", &self.version_log)?;
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for ViewVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version-id", &self.version_id)?;
        map.serialize_entry("timestamp-ms", &self.timestamp_ms)?;
        map.serialize_entry("schema-id", &self.schema_id)?;
        map.serialize_entry("summary", &self.summary)?;
        if let Some(catalog) = &self.default_catalog {
            map.serialize_entry("default-catalog", catalog)?;
        }
        map.serialize_entry("default-namespace", &self.default_namespace)?;
        map.serialize_entry("representations", &self.representations)?;
        map.end()
    }
}

impl Serialize for ViewRepresentation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sql { sql, dialect } => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("type", "sql")?;
                map.serialize_entry("sql", sql)?;
                map.serialize_entry("dialect", dialect)?;
                map.end()
            }
            Self::Other { json, .. } => json.serialize(serializer),
        }
    }
}

impl Serialize for ViewHistoryEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("ViewHistoryEntry", 2)?;
        entry.serialize_field("timestamp-ms", &self.timestamp_ms)?;
        entry.serialize_field("version-id", &self.version_id)?;
        entry.end()
    }
}
