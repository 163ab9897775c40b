//! Partition tuples of a manifest.

use std::collections::HashMap;

use super::columns::Budget;

/// A field of the partition tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionFieldInfo {
    /// Its id.
    pub field_id: i32,
    /// Whether its values were written as dates.
    pub is_date: bool,
}

/// A partition value, as Avro encodes it. Its type results from the partition spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PartitionValue {
    /// Null.
    Null,
    /// A number, or a boolean as 0 or 1.
    Number(i64),
    /// Any other value, as the bytes of Iceberg's binary single-value serialization.
    Bytes(Box<[u8]>),
}

/// Distinct tuples.
#[derive(Debug, Default)]
pub(super) struct Tuples {
    positions: HashMap<Box<[PartitionValue]>, i64>,
    all: Vec<Box<[PartitionValue]>>,
}

impl Tuples {
    /// Returns the position of a tuple among the distinct ones.
    pub(super) fn position(
        &mut self,
        tuple: &[PartitionValue],
        budget: &mut Budget,
    ) -> Result<i64, String> {
        if let Some(position) = self.positions.get(tuple) {
            return Ok(*position);
        }
        // Counts the tuple twice, because the map and the list each have a copy.
        budget.take(2 * tuple_bytes(tuple))?;
        let position = i64::try_from(self.all.len()).unwrap_or(i64::MAX);
        self.all.push(tuple.into());
        self.positions.insert(tuple.into(), position);
        Ok(position)
    }

    pub(super) fn finish(self) -> Box<[Box<[PartitionValue]>]> {
        self.all.into()
    }
}

/// Returns the memory of a tuple, in bytes.
pub(super) fn tuple_bytes(tuple: &[PartitionValue]) -> usize {
    let texts = tuple.iter().map(|value| match value {
        PartitionValue::Bytes(bytes) => bytes.len(),
        PartitionValue::Null | PartitionValue::Number(_) => 0,
    });
    size_of_val(tuple) + size_of::<Box<[PartitionValue]>>() + texts.sum::<usize>()
}
