//! [`PlannedManifest`]: a manifest with typed partition values.

use std::sync::Arc;

use uuid::Uuid;

use crate::{Error, Result};
use slateberg_model::scan::{BoundSpec, PartitionTuple, ScanError};
use slateberg_model::types::PrimitiveType;
use slateberg_model::value::Datum;
use slateberg_objects::manifest::{Manifest, ManifestEntry, PartitionValue};

/// A manifest with the types of its partition values.
#[derive(Debug)]
pub struct PlannedManifest {
    manifest: Arc<Manifest>,
    spec: Arc<BoundSpec>,
    /// The distinct tuples of the manifest.
    tuples: Vec<Box<PartitionTuple>>,
}

impl PlannedManifest {
    /// Converts the partition values of a manifest.
    pub(super) fn new(manifest: Arc<Manifest>, spec: Arc<BoundSpec>) -> Result<Self> {
        let tuples = tuples(&manifest, &spec).ok_or_else(|| {
            let message = format!(
                "The table is damaged: a partition value does not have the type of partition spec {}",
                spec.spec_id
            );
            Error::Scan(ScanError::Validation(message))
        })?;
        Ok(Self { manifest, spec, tuples })
    }

    pub(super) fn len(&self) -> usize {
        self.manifest.len()
    }

    pub(super) fn tuples(&self) -> &[Box<PartitionTuple>] {
        &self.tuples
    }

    pub(super) fn bytes(&self) -> usize {
        let tuples = self.tuples.iter().map(|tuple| size_of_val(&**tuple) + size_of::<usize>());
        size_of::<Self>() + self.manifest.bytes() + tuples.sum::<usize>()
    }

    /// Returns the file with this position.
    pub fn file(&self, row: u32) -> ManifestEntry<'_> {
        self.manifest.file(row as usize)
    }

    /// Returns the partition spec.
    pub fn spec(&self) -> &BoundSpec {
        &self.spec
    }

    /// Returns the partition of one of its files.
    pub fn partition(&self, file: ManifestEntry<'_>) -> &PartitionTuple {
        self.tuples.get(file.partition()).map_or(&[], |tuple| tuple)
    }
}

/// Returns the distinct tuples of a manifest in the order of the spec's fields. `None` if a value
/// does not have the type of its field.
fn tuples(manifest: &Manifest, spec: &BoundSpec) -> Option<Vec<Box<PartitionTuple>>> {
    let written = manifest.partition_fields();
    let fields: Vec<_> = spec
        .fields
        .iter()
        .map(|field| {
            let position = written.iter().position(|other| other.field_id == field.field_id)?;
            Some((position, written.get(position)?.is_date, field.result_type.as_ref()?))
        })
        .collect();
    let tuple = |values: &[PartitionValue]| {
        let value = |field: &Option<(usize, bool, &PrimitiveType)>| {
            let Some((position, is_date, result_type)) = *field else { return Some(None) };
            match values.get(position) {
                None | Some(PartitionValue::Null) => Some(None),
                Some(value) => datum(value, is_date, result_type).map(Some),
            }
        };
        fields.iter().map(value).collect::<Option<Box<PartitionTuple>>>()
    };
    manifest.partitions().iter().map(|values| tuple(values)).collect()
}

/// Converts a partition value to the current type of its field.
fn datum(value: &PartitionValue, is_date: bool, result_type: &PrimitiveType) -> Option<Datum> {
    use PrimitiveType as P;
    match (value, result_type) {
        (PartitionValue::Number(number), P::Boolean) => Some(Datum::Boolean(*number != 0)),
        (PartitionValue::Number(number), P::Timestamp | P::TimestampNs) if is_date => {
            Datum::Integer(*number).promote(&P::Date, result_type)
        }
        (
            PartitionValue::Number(number),
            P::Int
            | P::Long
            | P::Date
            | P::Time
            | P::Timestamp
            | P::Timestamptz
            | P::TimestampNs
            | P::TimestamptzNs,
        ) => Some(Datum::Integer(*number)),
        (PartitionValue::Bytes(text), P::Uuid) if text.len() > size_of::<Uuid>() => {
            let text = std::str::from_utf8(text).ok()?;
            Uuid::try_parse(text).ok().map(|uuid| Datum::Uuid(uuid.into_bytes()))
        }
        (PartitionValue::Bytes(bytes), _) => Datum::from_bytes(result_type, bytes),
        (PartitionValue::Null | PartitionValue::Number(_), _) => None,
    }
}
