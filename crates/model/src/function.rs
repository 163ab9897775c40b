//! Metadata of SQL functions, as in the UDF specification of Iceberg. A function has one
//! *definition* for each signature. A definition has *versions*, which contain its SQL.
//!
//! Clients send a [`FunctionDraft`]. The functions of this module assign the ids of definitions and
//! versions, and extend the history.

mod data_type;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::members::brief;
use super::refusal::Refusal;
pub use data_type::FunctionType;
use data_type::check_name;

/// Maximum size of the metadata of a function as JSON, in bytes.
pub const FUNCTION_BYTES_MAX: usize = 256 << 10;
/// Maximum number of entries in the history of a function.
const LOG_ENTRIES_MAX: usize = 20;
/// Newest format version of the metadata.
const FORMAT_VERSION: u8 = 1;

/// Metadata of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FunctionMetadata {
    /// UUID of the function.
    pub function_uuid: Uuid,
    /// Version of the format.
    pub format_version: u8,
    /// The definitions, one for each signature.
    pub definitions: Vec<Definition>,
    /// The current versions at earlier times, oldest first.
    pub definition_log: Vec<LogEntry>,
    /// Properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Whether engines should hide the SQL from users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secure: bool,
    /// Documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// A signature of a function, and its SQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Definition {
    /// The types of the parameters, separated by commas.
    pub definition_id: String,
    /// Another name of the definition, unique within the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specific_name: Option<String>,
    /// The signature.
    #[serde(flatten)]
    pub signature: Signature,
    /// The current version and earlier versions, oldest first.
    pub versions: Vec<DefinitionVersion>,
    /// Id of the current version.
    pub current_version_id: i64,
    /// Documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// The part of a definition that all of its versions have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Signature {
    /// The parameters, in the order of a call.
    pub parameters: Vec<Parameter>,
    /// Type of the result. The row type for a table function.
    pub return_type: FunctionType,
    /// Whether the result can be null.
    #[serde(default = "yes")]
    pub return_nullable: bool,
    /// Whether the function returns a value or a table.
    pub function_type: FunctionKind,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Type.
    #[serde(rename = "type")]
    pub data_type: FunctionType,
    /// Name.
    pub name: String,
    /// Documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// Kind of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionKind {
    /// Returns a value.
    #[default]
    Udf,
    /// Returns a table.
    Udtf,
}

/// A version of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DefinitionVersion {
    /// Id, which increases with each version of the definition.
    pub version_id: i64,
    /// The implementation.
    #[serde(flatten)]
    pub implementation: Implementation,
    /// Time of creation.
    pub timestamp_ms: i64,
}

/// The implementation of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Implementation {
    /// The SQL, once for each dialect.
    pub representations: Vec<Representation>,
    /// Whether equal arguments always have equal results.
    #[serde(default)]
    pub deterministic: bool,
    /// Result for null arguments.
    #[serde(default)]
    pub on_null_input: OnNullInput,
}

/// Result of a function for null arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNullInput {
    /// The engine calls the function.
    #[default]
    Call,
    /// Null. The engine does not need to call the function.
    ReturnNull,
}

/// The SQL of a function in one dialect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Representation {
    /// Kind.
    #[serde(rename = "type")]
    pub kind: RepresentationKind,
    /// Dialect, such as `spark`.
    pub dialect: String,
    /// Source of the function.
    pub sql: String,
}

/// Kind of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepresentationKind {
    /// SQL.
    Sql,
}

/// The current versions of all definitions at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LogEntry {
    /// Time since which these versions were current.
    pub timestamp_ms: i64,
    /// The versions.
    pub definition_versions: Vec<VersionReference>,
}

/// A version of a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VersionReference {
    /// Id of the definition.
    pub definition_id: String,
    /// Id of the version.
    pub version_id: i64,
}

/// The desired state of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDraft {
    /// The definitions.
    pub definitions: Vec<DefinitionDraft>,
    /// Properties.
    pub properties: BTreeMap<String, String>,
    /// Whether engines should hide the SQL from users.
    pub secure: bool,
    /// Documentation.
    pub doc: Option<String>,
}

/// The desired state of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionDraft {
    /// Another name of the definition.
    pub specific_name: Option<String>,
    /// The signature.
    pub signature: Signature,
    /// The implementation.
    pub implementation: Implementation,
    /// Documentation.
    pub doc: Option<String>,
}

fn yes() -> bool {
    true
}

fn wrong(reason: impl std::fmt::Display) -> Refusal {
    Refusal::invalid(format!("Invalid function: {reason}"))
}

impl FunctionMetadata {
    /// Creates the metadata of a new function.
    pub fn create(uuid: Uuid, draft: FunctionDraft, now_ms: i64) -> Result<Self, Refusal> {
        let empty = Self {
            function_uuid: uuid,
            format_version: FORMAT_VERSION,
            definitions: Vec::new(),
            definition_log: Vec::new(),
            properties: BTreeMap::new(),
            secure: false,
            doc: None,
        };
        empty.replace(draft, now_ms)
    }

    /// Returns the metadata after a replacement. A definition whose implementation changes gets a
    /// new version, and keeps its earlier versions if its signature stays the same. The result
    /// equals `self` if the draft changes nothing.
    pub fn replace(&self, draft: FunctionDraft, now_ms: i64) -> Result<Self, Refusal> {
        draft.validate()?;
        let FunctionDraft { definitions, properties, secure, doc } = draft;
        let definitions: Vec<_> =
            definitions.into_iter().map(|it| self.definition(it, now_ms)).collect();
        let mut after = Self { definitions, properties, secure, doc, ..self.clone() };
        let current = after.current_versions();
        let last = self.definition_log.last().map(|entry| &entry.definition_versions);
        if last != Some(&current) {
            let entry = LogEntry { timestamp_ms: now_ms, definition_versions: current };
            after.definition_log.push(entry);
        }
        after.forget_unneeded_history();
        while after.bytes() > FUNCTION_BYTES_MAX {
            if after.definition_log.len() <= 1 {
                let bytes = after.bytes();
                return Err(wrong(format_args!(
                    "its metadata has {bytes} bytes, at most {FUNCTION_BYTES_MAX} are allowed"
                )));
            }
            after.definition_log.remove(0);
            after.forget_unneeded_history();
        }
        Ok(after)
    }

    fn definition(&self, draft: DefinitionDraft, now_ms: i64) -> Definition {
        let DefinitionDraft { specific_name, signature, implementation, doc } = draft;
        let definition_id = signature.definition_id();
        let before = self.definitions.iter().find(|it| it.definition_id == definition_id);
        let newest = before.and_then(|before| before.versions.last());
        let mut versions = match before {
            Some(before) if before.signature.is_same(&signature) => before.versions.clone(),
            _ => Vec::new(),
        };
        let is_current = |version: &DefinitionVersion| version.implementation == implementation;
        if !versions.last().is_some_and(is_current) {
            let version_id = newest.map_or(1, |newest| newest.version_id + 1);
            versions.push(DefinitionVersion { version_id, implementation, timestamp_ms: now_ms });
        }
        let current_version_id = versions.last().map_or(1, |version| version.version_id);
        Definition { definition_id, specific_name, signature, versions, current_version_id, doc }
    }

    fn current_versions(&self) -> Vec<VersionReference> {
        let current = |it: &Definition| VersionReference {
            definition_id: it.definition_id.clone(),
            version_id: it.current_version_id,
        };
        self.definitions.iter().map(current).collect()
    }

    /// Removes log entries that are too old or that refer to versions that no longer exist. Then
    /// removes the versions that neither an entry nor a definition refers to.
    fn forget_unneeded_history(&mut self) {
        let existing: HashSet<(&str, i64)> = self
            .definitions
            .iter()
            .flat_map(|it| {
                it.versions.iter().map(|version| (&*it.definition_id, version.version_id))
            })
            .collect();
        let exists =
            |it: &VersionReference| existing.contains(&(&*it.definition_id, it.version_id));
        self.definition_log.retain(|entry| entry.definition_versions.iter().all(exists));
        let surplus = self.definition_log.len().saturating_sub(LOG_ENTRIES_MAX);
        self.definition_log.drain(..surplus);
        let needed: BTreeSet<VersionReference> =
            self.definition_log.iter().flat_map(|it| it.definition_versions.clone()).collect();
        for definition in &mut self.definitions {
            let (id, current) = (definition.definition_id.clone(), definition.current_version_id);
            definition.versions.retain(|version| {
                let version_id = version.version_id;
                let reference = VersionReference { definition_id: id.clone(), version_id };
                version_id == current || needed.contains(&reference)
            });
        }
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |json| json.len())
    }
}

impl Signature {
    /// Returns the id of a definition with this signature.
    pub fn definition_id(&self) -> String {
        let types = self.parameters.iter().map(|parameter| parameter.data_type.to_string());
        types.collect::<Vec<_>>().join(",")
    }

    /// Whether both signatures are equal except for the documentation.
    fn is_same(&self, other: &Self) -> bool {
        let names = |it: &Self| -> Vec<_> {
            it.parameters.iter().map(|it| (it.name.clone(), it.data_type.clone())).collect()
        };
        names(self) == names(other)
            && self.return_type == other.return_type
            && self.return_nullable == other.return_nullable
            && self.function_type == other.function_type
    }
}

impl FunctionDraft {
    fn validate(&self) -> Result<(), Refusal> {
        if self.definitions.is_empty() {
            return Err(wrong("expected at least one definition"));
        }
        let mut ids = HashSet::new();
        let mut specific_names = HashSet::new();
        for definition in &self.definitions {
            let id = definition.signature.definition_id();
            definition
                .validate()
                .map_err(|reason| wrong(format_args!("definition ({}): {reason}", brief(&id))))?;
            if let Some(name) = &definition.specific_name
                && !specific_names.insert(name)
            {
                let name = brief(name);
                return Err(wrong(format_args!("specific-name '{name}' occurs twice")));
            }
            if !ids.insert(id.clone()) {
                let id = brief(&id);
                return Err(wrong(format_args!("two definitions have the parameters ({id})")));
            }
        }
        Ok(())
    }
}

impl DefinitionDraft {
    fn validate(&self) -> Result<(), String> {
        if let Some(name) = &self.specific_name {
            check_name("specific-name", name)?;
        }
        let Signature { parameters, return_type, function_type, .. } = &self.signature;
        let mut names = HashSet::new();
        for parameter in parameters {
            check_name("name of a parameter", &parameter.name)?;
            if !names.insert(&parameter.name) {
                return Err(format!("parameter '{}' occurs twice", brief(&parameter.name)));
            }
        }
        if *function_type == FunctionKind::Udtf && !return_type.is_struct() {
            return Err("a function of type udtf returns a struct".to_owned());
        }
        let mut dialects = HashSet::new();
        for Representation { dialect, sql, .. } in &self.implementation.representations {
            check_name("dialect", dialect)?;
            if sql.trim().is_empty() {
                return Err("the SQL is empty".to_owned());
            }
            if !dialects.insert(dialect.to_lowercase()) {
                return Err(format!("dialect {} occurs twice", brief(dialect)));
            }
        }
        match dialects.is_empty() {
            true => Err("expected at least one representation".to_owned()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
