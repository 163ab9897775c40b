//! Files, partitions and manifests of generated rows, as different writers write them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::rows::{Row, type_of};
use super::{COLUMNS, TestFile};
use crate::manifest_file::FieldSummary;
use crate::scan::{BoundField, BoundSpec};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

/// The statistics that a writer writes, and their precision.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) missing: Vec<u8>,
    pub(super) truncates: bool,
    /// Whether the writer rounds times before 1970 up, as old versions of the reference
    /// implementation did.
    pub(super) is_old: bool,
}

pub(super) fn any_writer() -> impl Strategy<Value = Writer> {
    let bits = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    let missing = prop::collection::vec(bits, COLUMNS.len());
    (missing, any::<bool>(), prop::bool::weighted(0.3))
        .prop_map(|(missing, truncates, is_old)| Writer { missing, truncates, is_old })
}

impl Writer {
    /// Returns the partition of a row.
    pub(super) fn partition(&self, spec: &BoundSpec, row: &Row) -> Vec<Option<Datum>> {
        let value = |field: &BoundField| {
            let column = COLUMNS.iter().position(|(id, ..)| *id == field.source_id)?;
            let source = type_of(column);
            let value = row[column].as_ref()?;
            let result = field.transform.apply(&source, value)?;
            let is_day = source == PrimitiveType::Date && field.transform == Transform::Day;
            let is_time = matches!(
                field.transform,
                Transform::Year | Transform::Month | Transform::Day | Transform::Hour
            );
            match (result, value) {
                (Datum::Integer(result), Datum::Integer(value))
                    if self.is_old && is_time && !is_day && result < 0 =>
                {
                    let before = field.transform.apply(&source, &Datum::Integer(value - 1));
                    let is_exact = before != Some(Datum::Integer(result));
                    Some(Datum::Integer(if is_exact { result } else { result + 1 }))
                }
                (result, _) => Some(result),
            }
        };
        spec.fields.iter().map(value).collect()
    }

    /// Returns the statistics of a file with these rows.
    pub(super) fn statistics(&self, rows: &[Row]) -> TestFile {
        let count = |number: usize| i64::try_from(number).expect("few rows");
        let mut file = TestFile { records: count(rows.len()), ..TestFile::default() };
        for (column, (id, ..)) in COLUMNS.iter().enumerate() {
            let present = |bit: u8| self.missing[column] & (1 << bit) == 0;
            let values: Vec<_> = rows.iter().filter_map(|row| row[column].as_ref()).collect();
            let nans = values.iter().filter(|value| value.is_nan()).count();
            let is_float = matches!(values.first(), Some(Datum::Float(_)));
            if present(0) {
                file.values.insert(*id, count(rows.len()));
            }
            if present(1) {
                file.nulls.insert(*id, count(rows.len() - values.len()));
            }
            if present(2) && is_float {
                file.nans.insert(*id, count(nans));
            }
            let mut values: Vec<_> = values.into_iter().filter(|value| !value.is_nan()).collect();
            values.sort_by(|one, other| one.total_cmp(other));
            let (Some(lower), Some(upper)) = (values.first(), values.last()) else { continue };
            let primitive = type_of(column);
            let (lower, upper) = (lower.to_bytes(&primitive), upper.to_bytes(&primitive));
            let is_text = matches!(primitive, PrimitiveType::String | PrimitiveType::Binary);
            let truncates = self.truncates && is_text;
            let lower = if truncates { truncated(&lower, &primitive) } else { lower };
            let upper = if truncates { rounded_up(&upper, &primitive) } else { Some(upper) };
            if present(3) {
                file.lower.insert(*id, lower);
            }
            if let Some(upper) = upper.filter(|_| present(4)) {
                file.upper.insert(*id, upper);
            }
            // Some writers write NaN as a bound.
            if !present(5) && nans > 0 {
                file.upper.insert(*id, Datum::Float(f64::NAN).to_bytes(&primitive));
            }
        }
        file
    }
}

/// Cuts a lower bound to two characters or bytes.
fn truncated(bytes: &[u8], primitive: &PrimitiveType) -> Vec<u8> {
    let datum = Datum::from_bytes(primitive, bytes).expect("a value");
    Transform::Truncate(2).apply(primitive, &datum).expect("a prefix").to_bytes(primitive)
}

/// Cuts an upper bound, and makes the result greater than all values that begin with the cut bound.
fn rounded_up(bytes: &[u8], primitive: &PrimitiveType) -> Option<Vec<u8>> {
    let cut = truncated(bytes, primitive);
    if cut == bytes {
        return Some(cut);
    }
    match Datum::from_bytes(primitive, &cut)? {
        Datum::String(text) => {
            let mut chars: Vec<_> = text.chars().collect();
            while let Some(last) = chars.pop() {
                if let Some(next) = char::from_u32(u32::from(last) + 1) {
                    chars.push(next);
                    return Some(chars.into_iter().collect::<String>().into_bytes());
                }
            }
            None
        }
        _ => {
            let mut cut = cut;
            while let Some(last) = cut.pop() {
                if let Some(next) = last.checked_add(1) {
                    cut.push(next);
                    return Some(cut);
                }
            }
            None
        }
    }
}

/// Returns the summaries of partitions, as a manifest list has them.
pub(super) fn summaries(spec: &BoundSpec, partitions: &[Vec<Option<Datum>>]) -> Vec<FieldSummary> {
    let summary = |(position, field): (usize, &BoundField)| {
        let values: Vec<_> = partitions.iter().map(|tuple| tuple[position].as_ref()).collect();
        let primitive = field.result_type.as_ref().expect("a type");
        let mut others: Vec<_> =
            values.iter().flatten().filter(|value| !value.is_nan()).copied().collect();
        others.sort_by(|one, other| one.total_cmp(other));
        let bound = |value: Option<&&Datum>| value.map(|value| value.to_bytes(primitive).into());
        FieldSummary {
            contains_null: values.iter().any(Option::is_none),
            contains_nan: Some(values.iter().flatten().any(|value| value.is_nan())),
            lower_bound: bound(others.first()),
            upper_bound: bound(others.last()),
        }
    };
    spec.fields.iter().enumerate().map(summary).collect()
}

/// Groups rows by partition. Each group contains the rows of one file.
pub(super) fn files(
    writer: &Writer,
    spec: &BoundSpec,
    rows: &[Row],
) -> Vec<(Vec<Option<Datum>>, Vec<Row>)> {
    let mut files: BTreeMap<String, (Vec<Option<Datum>>, Vec<Row>)> = BTreeMap::new();
    for row in rows {
        let partition = writer.partition(spec, row);
        let key = format!("{partition:?}");
        files.entry(key).or_insert_with(|| (partition, Vec::new())).1.push(row.clone());
    }
    files.into_values().collect()
}
