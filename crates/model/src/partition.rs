//! Partition specs: as a client sends them, and as a table stores them, bound to a schema.

use std::collections::HashSet;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::members::{Members, brief, elements, object, parse_value};
use super::refusal::Refusal;
use super::schema::SchemaIndex;
use super::transform::Transform;

/// Partition field ids begin here; 999 is the last assigned id of an unpartitioned table.
pub(super) const PARTITION_FIELD_ID_START: i32 = 1000;

/// A partition spec as a client sends it. Ids may be missing, and it has not been validated against
/// a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnboundPartitionSpec {
    /// The id that the client proposes. A table assigns its own.
    pub spec_id: Option<i32>,
    /// The fields, in order. Either all fields have an id or no field has one.
    pub fields: Vec<UnboundPartitionField>,
}

/// A field of a client's partition spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnboundPartitionField {
    /// The id of the column.
    pub source_id: i32,
    /// The id of the partition field, if the client sends one.
    pub field_id: Option<i32>,
    /// The name of the partition field.
    pub name: String,
    /// The transform from the column's value to the partition value.
    pub transform: Transform,
}

/// A partition spec of a table ("Partitioning" in the table specification).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSpec {
    /// The id within the table.
    pub spec_id: i32,
    /// The fields, in order.
    pub fields: Vec<PartitionField>,
}

/// A field of a partition spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionField {
    /// The id of the column.
    pub source_id: i32,
    /// The id of the partition field, 1000 or greater.
    pub field_id: i32,
    /// The name of the partition field.
    pub name: String,
    /// The transform from the column's value to the partition value.
    pub transform: Transform,
}

impl UnboundPartitionSpec {
    /// Parses a partition spec's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        Self::from_json(&parse_value("spec", raw)?)
    }

    /// Parses a partition spec from parsed JSON.
    pub fn from_json(json: &Value) -> Result<Self, Refusal> {
        let members = object("spec", json)?;
        let spec_id = members.opt_i32("spec-id")?;
        Ok(Self { spec_id, fields: parse_fields(&*members.required("fields")?)? })
    }

    /// Parses a list of fields without an enclosing spec. Version 1 stores such a list as
    /// `partition-spec`.
    pub(super) fn from_fields_json(spec_id: i32, json: &Value) -> Result<Self, Refusal> {
        Ok(Self { spec_id: Some(spec_id), fields: parse_fields(json)? })
    }

    /// Builds a spec with id `spec_id`. For every field without an id, calls `next_field_id` with
    /// the field and its position.
    pub(super) fn with_ids(
        self,
        spec_id: i32,
        mut next_field_id: impl FnMut(&UnboundPartitionField, usize) -> Result<i32, Refusal>,
    ) -> Result<PartitionSpec, Refusal> {
        let mut fields = Vec::with_capacity(self.fields.len());
        for (position, field) in self.fields.into_iter().enumerate() {
            let field_id = match field.field_id {
                Some(id) => id,
                None => next_field_id(&field, position)?,
            };
            let UnboundPartitionField { source_id, name, transform, .. } = field;
            fields.push(PartitionField { source_id, field_id, name, transform });
        }
        Ok(PartitionSpec { spec_id, fields })
    }

    /// Builds a spec with the ids 1000, 1001, ... for fields without an id.
    pub(super) fn with_sequential_ids(self, spec_id: i32) -> Result<PartitionSpec, Refusal> {
        self.with_ids(spec_id, |_, position| sequential_id(position))
    }
}

/// Returns the id of the field at `position` in a spec with the ids 1000, 1001, ...
pub(super) fn sequential_id(position: usize) -> Result<i32, Refusal> {
    i32::try_from(position)
        .ok()
        .and_then(|position| PARTITION_FIELD_ID_START.checked_add(position))
        .ok_or_else(|| Refusal::invalid("Cannot assign partition field ids: too many fields"))
}

fn parse_fields(json: &Value) -> Result<Vec<UnboundPartitionField>, Refusal> {
    if !json.is_array() {
        return Err(Refusal::invalid(format!(
            "Cannot parse partition spec fields, not an array: {}",
            brief(json)
        )));
    }
    let fields: Vec<_> = elements(json).iter().map(parse_field).collect::<Result<_, _>>()?;
    let missing = fields.iter().filter(|field| field.field_id.is_none()).count();
    if missing > 0 && missing < fields.len() {
        return Err(Refusal::invalid(format!(
            "Cannot parse spec with missing field IDs: {missing} missing of {} fields.",
            fields.len()
        )));
    }
    Ok(fields)
}

fn parse_field(json: &Value) -> Result<UnboundPartitionField, Refusal> {
    let members = object("partition field", json)?;
    Ok(UnboundPartitionField {
        name: members.string("name")?,
        transform: Transform::parse(&members.string("transform")?)?,
        source_id: members.i32("source-id")?,
        field_id: members.opt_i32("field-id")?,
    })
}

impl PartitionSpec {
    /// Returns the spec of an unpartitioned table.
    pub(super) fn unpartitioned() -> Self {
        Self { spec_id: 0, fields: Vec::new() }
    }

    /// Returns the greatest field id, or 999 if there is no field.
    pub(crate) fn last_assigned_field_id(&self) -> i32 {
        let ids = self.fields.iter().map(|field| field.field_id);
        ids.fold(PARTITION_FIELD_ID_START - 1, i32::max)
    }

    /// Whether both specs have the same columns, transforms and names in the same order.
    pub(super) fn compatible_with(&self, other: &Self) -> bool {
        let alike = |(a, b): (&PartitionField, &PartitionField)| {
            a.source_id == b.source_id && a.transform == b.transform && a.name == b.name
        };
        self.fields.len() == other.fields.len() && self.fields.iter().zip(&other.fields).all(alike)
    }

    /// Whether the field ids are 1000, 1001, ... Version 1 requires this because data files store
    /// no ids.
    pub(super) fn has_sequential_ids(&self) -> bool {
        let mut fields = self.fields.iter().enumerate();
        fields.all(|(position, field)| sequential_id(position).is_ok_and(|id| id == field.field_id))
    }

    /// Refuses names that are empty, duplicate, or the name of another column.
    pub(super) fn check_names(&self, schema: &SchemaIndex<'_>) -> Result<(), Refusal> {
        let mut names = HashSet::new();
        for field in &self.fields {
            let name = &field.name;
            let column = schema.id_by_name(name).filter(|_| !name.is_empty());
            let source_exists = schema.field(field.source_id).is_some();
            if source_exists && column.is_some_and(|id| id != field.source_id) {
                return Err(Refusal::invalid(format!(
                    "Cannot create identity partition sourced from different field in schema: {}",
                    brief(name)
                )));
            }
            if name.is_empty() {
                return Err(Refusal::invalid("Cannot use empty partition name: "));
            }
            if !names.insert(name) {
                return Err(Refusal::invalid(format!(
                    "Cannot use partition name more than once: {}",
                    brief(name)
                )));
            }
        }
        Ok(())
    }

    /// Refuses duplicate field ids.
    pub(super) fn check_field_ids(&self) -> Result<(), Refusal> {
        let mut ids = HashSet::new();
        match self.fields.iter().find(|field| !ids.insert(field.field_id)) {
            None => Ok(()),
            Some(field) => Err(Refusal::invalid(format!(
                "Cannot use partition field id more than once: {}",
                field.field_id
            ))),
        }
    }

    /// Refuses a field if its column is missing, is not a primitive, is inside a list or map, or
    /// has a type that the transform does not support. A void field needs no column.
    pub(super) fn check_compatibility(&self, schema: &SchemaIndex<'_>) -> Result<(), Refusal> {
        for field in self.fields.iter().filter(|field| field.transform != Transform::Void) {
            let Some(source) = schema.field(field.source_id) else {
                return Err(Refusal::invalid(format!(
                    "Cannot find source column for partition field: {}",
                    brief(field)
                )));
            };
            let source_type = &source.field.field_type;
            if source_type.as_primitive().is_none() {
                return Err(Refusal::invalid(format!(
                    "Cannot partition by non-primitive source field: {}",
                    brief(source_type)
                )));
            }
            if !field.transform.can_transform(source_type) {
                return Err(Refusal::invalid(format!(
                    "Invalid source type {} for transform: {}",
                    brief(source_type),
                    brief(&field.transform)
                )));
            }
            let mut ancestors = schema.ancestors(field.source_id);
            if let Some(parent) = ancestors.find(|parent| !parent.field.field_type.is_struct()) {
                return Err(Refusal::invalid(format!(
                    "Invalid partition field parent: {}",
                    brief(&parent.field.field_type)
                )));
            }
        }
        Ok(())
    }
}

impl fmt::Display for PartitionField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}({})", self.field_id, self.name, self.transform, self.source_id)
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for field in &self.fields {
            write!(f, "\n  {field}")?;
        }
        f.write_str(if self.fields.is_empty() { "]" } else { "\n]" })
    }
}

impl Serialize for PartitionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("spec-id", &self.spec_id)?;
        map.serialize_entry("fields", &self.fields)?;
        map.end()
    }
}

impl Serialize for PartitionField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("transform", &format_args!("{}", self.transform))?;
        map.serialize_entry("source-id", &self.source_id)?;
        map.serialize_entry("field-id", &self.field_id)?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
