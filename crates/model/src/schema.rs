//! Schemas: the columns of a table or view, their ids, and the format version that they need.
//!
//! A [`Schema`] is always valid: ids and full names are unique, and identifier fields are required
//! primitives outside of lists and maps. Code that looks up fields by id or name builds a
//! `SchemaIndex` once and passes it on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::members::{Members, brief, object, parse_value};
use super::refusal::Refusal;
use super::types::{MapFields, NestedField, PrimitiveType, Type, parse_struct};

/// Maximum total length of all full names of a schema, in bytes. The full name of a nested field
/// repeats the names of its parents. So a small request could require gigabytes without this limit.
const SCHEMA_NAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of problems of one schema that a refusal lists.
const PROBLEMS_MAX: usize = 20;

/// The first format version in which a column may have an initial default.
const DEFAULT_VALUES_MIN_FORMAT_VERSION: u8 = 3;

/// The columns of a table ("Schemas" in the table specification).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    schema_id: i32,
    fields: Vec<NestedField>,
    identifier_field_ids: Vec<i32>,
    highest_field_id: i32,
}

impl Schema {
    /// Parses a schema's JSON; a missing `schema-id` is 0.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        Self::from_json(&parse_value("schema", raw)?)
    }

    /// Parses a schema from parsed JSON.
    pub fn from_json(json: &Value) -> Result<Self, Refusal> {
        let members = object("schema", json)?;
        if members.get("type").and_then(Value::as_str) != Some("struct") {
            return Err(Refusal::invalid(format!(
                "Cannot create schema, not a struct type: {}",
                brief(json)
            )));
        }
        let schema_id = members.opt_i32("schema-id")?.unwrap_or_default();
        let identifiers = match members.member("identifier-field-ids")? {
            Some(_) => members.i32_list("identifier-field-ids")?,
            None => Vec::new(),
        };
        Self::new(schema_id, parse_struct(members)?, identifiers)
    }

    /// Creates a schema. Errors if its ids, names or identifier fields are invalid.
    pub fn new(
        schema_id: i32,
        fields: Vec<NestedField>,
        identifier_field_ids: Vec<i32>,
    ) -> Result<Self, Refusal> {
        let index = SchemaIndex::build(&fields)?;
        let mut seen = HashSet::new();
        let identifier_field_ids: Vec<i32> =
            identifier_field_ids.into_iter().filter(|id| seen.insert(*id)).collect();
        for id in &identifier_field_ids {
            index.check_identifier(*id)?;
        }
        let highest_field_id = index.fields.keys().copied().max().unwrap_or_default();
        Ok(Self { schema_id, fields, identifier_field_ids, highest_field_id })
    }

    /// Returns the id within the table.
    pub fn schema_id(&self) -> i32 {
        self.schema_id
    }

    /// Returns the columns, in order.
    pub fn fields(&self) -> &[NestedField] {
        &self.fields
    }

    /// Returns the greatest id of all fields, or 0 for an empty schema.
    pub(crate) fn highest_field_id(&self) -> i32 {
        self.highest_field_id
    }

    /// Returns the type of the field with this id. `None` if there is no such field, or if its type
    /// is not primitive.
    pub(crate) fn primitive_type(&self, id: i32) -> Option<PrimitiveType> {
        find_primitive(&self.fields, id).cloned()
    }

    /// Whether both schemas have the same columns and identifier fields. Schema ids are ignored.
    pub(crate) fn same_schema(&self, other: &Self) -> bool {
        let set =
            |schema: &Self| schema.identifier_field_ids.iter().copied().collect::<HashSet<_>>();
        self.fields == other.fields && set(self) == set(other)
    }

    pub(super) fn with_schema_id(mut self, schema_id: i32) -> Self {
        self.schema_id = schema_id;
        self
    }

    /// Returns the id of the field with this full or short name, which can be nested.
    ///
    /// # Errors
    /// Never for a schema that [`Schema::new`] has accepted.
    pub fn field_id(&self, name: &str) -> Result<Option<i32>, Refusal> {
        Ok(self.index()?.id_by_name(name))
    }

    /// Returns the full names of all fields by their ids, including nested fields.
    ///
    /// # Errors
    /// Never for a schema that [`Schema::new`] has accepted.
    pub fn full_names(&self) -> Result<BTreeMap<i32, String>, Refusal> {
        let fields = self.index()?.fields;
        Ok(fields.into_iter().map(|(id, field)| (id, field.name)).collect())
    }

    /// Builds an index of all fields, including nested ones.
    pub(super) fn index(&self) -> Result<SchemaIndex<'_>, Refusal> {
        SchemaIndex::build(&self.fields)
    }

    /// Refuses types and defaults that tables of `format_version` do not support.
    pub(super) fn check_compatibility(&self, format_version: u8) -> Result<(), Refusal> {
        if format_version >= DEFAULT_VALUES_MIN_FORMAT_VERSION {
            return Ok(());
        }
        let index = self.index()?;
        let problems = index.fields.values().filter_map(|field| field.problem(format_version));
        let problems: Vec<String> = problems.take(PROBLEMS_MAX).collect();
        if problems.is_empty() {
            return Ok(());
        }
        let listed = problems.join("\n- ");
        Err(Refusal::invalid(format!("Invalid schema for v{format_version}:\n- {listed}")))
    }

    /// Returns the same columns with the ids 1, 2, 3, ..., and the map from old to new ids. The
    /// order of the ids is that of the reference implementation: all fields of a struct come before
    /// the fields nested in them.
    pub(super) fn with_fresh_ids(
        &self,
        schema_id: i32,
    ) -> Result<(Self, HashMap<i32, i32>), Refusal> {
        let mut fresh = FreshIds::default();
        let fields = fresh.fields(&self.fields);
        let identifiers = self
            .identifier_field_ids
            .iter()
            .filter_map(|id| fresh.new_by_old.get(id).copied())
            .collect();
        Ok((Self::new(schema_id, fields, identifiers)?, fresh.new_by_old))
    }
}

fn find_primitive(fields: &[NestedField], id: i32) -> Option<&PrimitiveType> {
    fields.iter().find_map(|field| match &field.field_type {
        Type::Primitive(primitive) => (field.id == id).then_some(primitive),
        Type::Struct(fields) => find_primitive(fields, id),
        Type::List(element) => find_primitive(std::slice::from_ref(element), id),
        Type::Map(fields) => find_primitive(std::slice::from_ref(&fields.key), id)
            .or_else(|| find_primitive(std::slice::from_ref(&fields.value), id)),
        Type::Variant => None,
    })
}

/// Assigns field ids in the order of `AssignFreshIds` in the reference implementation.
#[derive(Default)]
struct FreshIds {
    last: i32,
    new_by_old: HashMap<i32, i32>,
}

impl FreshIds {
    fn next(&mut self, old: i32) -> i32 {
        // No request is long enough for a schema with i32::MAX fields.
        self.last = self.last.saturating_add(1);
        self.new_by_old.insert(old, self.last);
        self.last
    }

    fn fields(&mut self, fields: &[NestedField]) -> Vec<NestedField> {
        let ids: Vec<i32> = fields.iter().map(|field| self.next(field.id)).collect();
        fields.iter().zip(ids).map(|(field, id)| self.field(field, id)).collect()
    }

    fn field(&mut self, field: &NestedField, id: i32) -> NestedField {
        let field_type = match &field.field_type {
            Type::Primitive(_) | Type::Variant => field.field_type.clone(),
            Type::Struct(fields) => Type::Struct(self.fields(fields)),
            Type::List(element) => {
                let id = self.next(element.id);
                Type::List(Box::new(self.field(element, id)))
            }
            Type::Map(fields) => {
                let key_id = self.next(fields.key.id);
                let value_id = self.next(fields.value.id);
                let key = self.field(&fields.key, key_id);
                let value = self.field(&fields.value, value_id);
                Type::Map(Box::new(MapFields { key, value }))
            }
        };
        NestedField {
            id,
            name: field.name.clone(),
            required: field.required,
            field_type,
            doc: field.doc.clone(),
            initial_default: field.initial_default.clone(),
            write_default: field.write_default.clone(),
        }
    }
}

/// The fields of a schema by id and by name.
pub(super) struct SchemaIndex<'a> {
    /// Ordered by id, so that the order of reported problems is deterministic.
    fields: BTreeMap<i32, IndexedField<'a>>,
    ids_by_name: HashMap<String, i32>,
    ids_by_short_name: HashMap<String, i32>,
    name_bytes: usize,
}

/// A field with its parent and full name.
pub(super) struct IndexedField<'a> {
    pub(super) field: &'a NestedField,
    pub(super) parent: Option<i32>,
    pub(super) name: String,
}

impl<'a> SchemaIndex<'a> {
    fn build(fields: &'a [NestedField]) -> Result<Self, Refusal> {
        let mut index = Self {
            fields: BTreeMap::new(),
            ids_by_name: HashMap::new(),
            ids_by_short_name: HashMap::new(),
            name_bytes: 0,
        };
        for field in fields {
            index.add(field, &FieldPosition::default(), false)?;
        }
        Ok(index)
    }

    /// Adds a field and all fields inside it. The short name of a field omits `element` and `value`
    /// if they are structs. For example, the short name of `points.element.x` is `points.x`.
    fn add(
        &mut self,
        field: &'a NestedField,
        position: &FieldPosition,
        is_element_or_value: bool,
    ) -> Result<(), Refusal> {
        let name = join(&position.prefix, &field.name);
        let short = join(&position.short_prefix, &field.name);
        self.name_bytes = self.name_bytes.saturating_add(name.len() * 2 + short.len());
        if self.name_bytes > SCHEMA_NAME_BYTES_MAX {
            return Err(Refusal::invalid(format!(
                "Invalid schema: full names of fields exceed {SCHEMA_NAME_BYTES_MAX} bytes"
            )));
        }
        if let Some(other) = self.ids_by_name.insert(name.clone(), field.id) {
            return Err(Refusal::invalid(format!(
                "Invalid schema: multiple fields for name {}: {other} and {}",
                brief(name),
                field.id
            )));
        }
        let short_prefix = if is_element_or_value && field.field_type.is_struct() {
            position.short_prefix.clone()
        } else {
            short.clone()
        };
        self.ids_by_short_name.entry(short).or_insert(field.id);
        let below = FieldPosition { parent: Some(field.id), prefix: name.clone(), short_prefix };
        let indexed = IndexedField { field, parent: position.parent, name };
        if let Some(other) = self.fields.insert(field.id, indexed) {
            return Err(Refusal::invalid(format!(
                "Invalid schema: multiple fields for id {}: {} and {}",
                field.id,
                brief(other.name),
                brief(below.prefix)
            )));
        }
        match &field.field_type {
            Type::Primitive(_) | Type::Variant => Ok(()),
            Type::Struct(fields) => fields.iter().try_for_each(|f| self.add(f, &below, false)),
            Type::List(element) => self.add(element, &below, true),
            Type::Map(fields) => {
                self.add(&fields.key, &below, false)?;
                self.add(&fields.value, &below, true)
            }
        }
    }

    /// Returns the field with this id.
    pub(super) fn field(&self, id: i32) -> Option<&IndexedField<'a>> {
        self.fields.get(&id)
    }

    /// Returns the id of the field with this full or short name.
    pub(super) fn id_by_name(&self, name: &str) -> Option<i32> {
        self.ids_by_name.get(name).or_else(|| self.ids_by_short_name.get(name)).copied()
    }

    /// Returns the ids of the fields whose full or short name equals `name`, ignoring case.
    pub(super) fn ids_by_name_ignoring_case(&self, name: &str) -> BTreeSet<i32> {
        let name = name.to_lowercase();
        let names = self.ids_by_name.iter().chain(&self.ids_by_short_name);
        names.filter(|(other, _)| other.to_lowercase() == name).map(|(_, id)| *id).collect()
    }

    /// Returns the fields that contain the field `id`, innermost first.
    pub(super) fn ancestors(&self, id: i32) -> impl Iterator<Item = &IndexedField<'a>> {
        let parent = |field: &IndexedField<'_>| field.parent.and_then(|id| self.fields.get(&id));
        std::iter::successors(self.fields.get(&id).and_then(parent), move |field| parent(field))
    }

    fn check_identifier(&self, id: i32) -> Result<(), Refusal> {
        let Some(IndexedField { field, .. }) = self.field(id) else {
            return Err(Refusal::invalid(format!(
                "Cannot add fieldId {id} as an identifier field: field does not exist"
            )));
        };
        let refuse = |why: String| {
            let name = brief(&field.name);
            Err(Refusal::invalid(format!("Cannot add field {name} as an identifier field: {why}")))
        };
        let Some(primitive) = field.field_type.as_primitive() else {
            return refuse("not a primitive type field".to_owned());
        };
        if !field.required {
            return refuse("not a required field".to_owned());
        }
        if matches!(primitive, PrimitiveType::Float | PrimitiveType::Double) {
            return refuse("must not be float or double field".to_owned());
        }
        for parent in self.ancestors(id) {
            if !parent.field.field_type.is_struct() {
                return refuse(format!("must not be nested in {}", brief(parent.field)));
            }
            if !parent.field.required {
                let parent = brief(parent.field);
                return refuse(format!("must not be nested in an optional field {parent}"));
            }
        }
        Ok(())
    }
}

/// The current position while the fields of a schema are visited.
#[derive(Default)]
struct FieldPosition {
    parent: Option<i32>,
    prefix: String,
    short_prefix: String,
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

impl IndexedField<'_> {
    fn problem(&self, format_version: u8) -> Option<String> {
        let name = brief(&self.name);
        let needed = self.field.field_type.min_format_version();
        if let Some(value) = &self.field.initial_default {
            return Some(format!(
                "Invalid initial default for {name}: non-null default ({}) is not supported until \
                 v{DEFAULT_VALUES_MIN_FORMAT_VERSION}",
                brief(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            ));
        }
        (format_version < needed).then(|| {
            let field_type = brief(&self.field.field_type);
            format!("Invalid type for {name}: {field_type} is not supported until v{needed}")
        })
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "struct")?;
        map.serialize_entry("schema-id", &self.schema_id)?;
        if !self.identifier_field_ids.is_empty() {
            map.serialize_entry("identifier-field-ids", &self.identifier_field_ids)?;
        }
        map.serialize_entry("fields", &self.fields)?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
