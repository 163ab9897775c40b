//! [`BoundSpec`]: a partition spec with the types of its values.

use std::collections::BTreeMap;

use crate::partition::{PartitionField, PartitionSpec};
use crate::schema::Schema;
use crate::table::TableMetadata;
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// The partition values of a file, one for each field of its spec.
pub type PartitionTuple = [Option<Datum>];

/// A partition spec, bound to the schema of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundSpec {
    /// The id within the table.
    pub spec_id: i32,
    /// The fields, in order.
    pub fields: Vec<BoundField>,
}

/// A field of a [`BoundSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundField {
    /// The id of the partition field.
    pub field_id: i32,
    /// The id of the column.
    pub source_id: i32,
    /// The name of the partition field.
    pub name: String,
    /// The transform from the column's value to the partition value.
    pub transform: Transform,
    /// The type of the column. `None` if no schema of the table has it.
    pub source_type: Option<PrimitiveType>,
    /// The type of the values. `None` if they are always null, or unknown.
    pub result_type: Option<PrimitiveType>,
}

impl BoundSpec {
    /// Binds a spec. Looks for dropped columns in the table's other schemas, newest first.
    pub fn new(spec: &PartitionSpec, schema: &Schema, table: &TableMetadata) -> Self {
        let bind = |field: &PartitionField| {
            let others = table.schemas.iter().rev().map(AsRef::as_ref);
            let mut schemas = std::iter::once(schema).chain(others);
            let source_type = schemas.find_map(|schema| schema.primitive_type(field.source_id));
            let result_type =
                source_type.as_ref().and_then(|source| field.transform.result_type(source));
            BoundField {
                field_id: field.field_id,
                source_id: field.source_id,
                name: field.name.clone(),
                transform: field.transform.clone(),
                source_type,
                result_type,
            }
        };
        Self { spec_id: spec.spec_id, fields: spec.fields.iter().map(bind).collect() }
    }

    /// Binds all specs of a table. Returns them by id.
    pub fn all(table: &TableMetadata, schema: &Schema) -> BTreeMap<i32, Self> {
        let specs = table.partition_specs.iter();
        specs.map(|spec| (spec.spec_id, Self::new(spec, schema, table))).collect()
    }

    /// Whether all files are in one partition.
    pub fn is_unpartitioned(&self) -> bool {
        self.fields.iter().all(|field| field.transform == Transform::Void)
    }

    /// Appends the member `partition` of a content file: a JSON array with one value per field.
    pub fn write_json(&self, partition: &PartitionTuple, out: &mut Vec<u8>) {
        out.push(b'[');
        for (position, field) in self.fields.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            match (partition.get(position), &field.result_type) {
                (Some(Some(value)), Some(result_type)) => value.write_json(result_type, out),
                _ => out.extend_from_slice(b"null"),
            }
        }
        out.push(b']');
    }
}
