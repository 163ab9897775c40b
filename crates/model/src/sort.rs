//! Sort orders: as a client sends them, and as a table stores them.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::members::{Members, brief, elements, object, parse_value};
use super::refusal::Refusal;
use super::schema::SchemaIndex;
use super::transform::Transform;

/// The id of the unsorted order; no other order may have it.
pub(super) const UNSORTED_ORDER_ID: i32 = 0;

/// The id of the first sort order that sorts. The unsorted order has the id 0.
pub(super) const INITIAL_SORT_ORDER_ID: i32 = 1;

/// A sort order as a client sends it. It has not been validated against a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnboundSortOrder {
    /// The id that the client proposes. A table assigns its own.
    pub order_id: i32,
    /// The fields, most significant first.
    pub fields: Vec<SortField>,
}

/// A sort order of a table ("Sorting" in the table specification).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortOrder {
    /// The id within the table. Only the unsorted order has the id 0.
    pub order_id: i32,
    /// The fields, most significant first.
    pub fields: Vec<SortField>,
}

/// The direction of a sort field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum SortDirection {
    /// Smallest values first.
    #[serde(rename = "asc")]
    Ascending,
    /// Largest values first.
    #[serde(rename = "desc")]
    Descending,
}

/// The position of nulls among the values of a sort field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum NullOrder {
    /// Before all values.
    #[serde(rename = "nulls-first")]
    First,
    /// After all values.
    #[serde(rename = "nulls-last")]
    Last,
}

/// A field of a sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortField {
    /// The transform from the column's value to the sort value.
    pub transform: Transform,
    /// The id of the column.
    pub source_id: i32,
    /// Ascending or descending.
    pub direction: SortDirection,
    /// The position of nulls.
    pub null_order: NullOrder,
}

impl UnboundSortOrder {
    /// Parses a sort order's JSON.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        Self::from_json(&parse_value("sort order", raw)?)
    }

    /// Parses a sort order from parsed JSON.
    pub fn from_json(json: &Value) -> Result<Self, Refusal> {
        let members = object("sort order", json)?;
        let order_id = members.i32("order-id")?;
        let fields = members.required("fields")?;
        if !fields.is_array() {
            return Err(Refusal::invalid(format!(
                "Cannot parse sort order fields, not an array: {}",
                brief(&*fields)
            )));
        }
        let fields: Vec<_> =
            elements(&fields).iter().map(SortField::parse).collect::<Result<_, _>>()?;
        match (fields.is_empty(), order_id == UNSORTED_ORDER_ID) {
            (true, false) => Err(Refusal::invalid("Unsorted order ID must be 0")),
            (false, true) => {
                Err(Refusal::invalid("Sort order ID 0 is reserved for unsorted order"))
            }
            _ => Ok(Self { order_id, fields }),
        }
    }

    pub(super) fn with_order_id(self, order_id: i32) -> SortOrder {
        SortOrder { order_id, fields: self.fields }
    }
}

impl SortOrder {
    /// Returns the order of a table that is not sorted.
    pub(super) fn unsorted() -> Self {
        Self { order_id: UNSORTED_ORDER_ID, fields: Vec::new() }
    }

    /// Refuses a field if its column is missing, is not a primitive, or has a type that the
    /// transform does not support.
    pub(super) fn check_compatibility(&self, schema: &SchemaIndex<'_>) -> Result<(), Refusal> {
        for field in &self.fields {
            let Some(source) = schema.field(field.source_id) else {
                return Err(Refusal::invalid(format!(
                    "Cannot find source column for sort field: {}",
                    brief(field)
                )));
            };
            let source_type = &source.field.field_type;
            if source_type.as_primitive().is_none() {
                return Err(Refusal::invalid(format!(
                    "Cannot sort by non-primitive source field: {}",
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
        }
        Ok(())
    }
}

impl SortField {
    fn parse(json: &Value) -> Result<Self, Refusal> {
        let members = object("sort field", json)?;
        let transform = Transform::parse(&members.string("transform")?)?;
        let source_id = members.i32("source-id")?;
        let direction = members.string("direction")?;
        let direction = match direction.to_ascii_lowercase().as_str() {
            "asc" => SortDirection::Ascending,
            "desc" => SortDirection::Descending,
            _ => {
                let direction = brief(direction);
                return Err(Refusal::invalid(format!("Invalid sort direction: {direction}")));
            }
        };
        let null_order = members.string("null-order")?;
        let null_order = match null_order.to_ascii_lowercase().as_str() {
            "nulls-first" => NullOrder::First,
            "nulls-last" => NullOrder::Last,
            _ => {
                let null_order = brief(null_order);
                return Err(Refusal::invalid(format!("Unexpected null order: {null_order}")));
            }
        };
        Ok(Self { transform, source_id, direction, null_order })
    }
}

impl fmt::Display for SortField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            SortDirection::Ascending => "ASC",
            SortDirection::Descending => "DESC",
        };
        let null_order = match self.null_order {
            NullOrder::First => "NULLS FIRST",
            NullOrder::Last => "NULLS LAST",
        };
        write!(f, "{}({}) {direction} {null_order}", self.transform, self.source_id)
    }
}

impl Serialize for SortOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("order-id", &self.order_id)?;
        map.serialize_entry("fields", &self.fields)?;
        map.end()
    }
}

impl Serialize for SortField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("transform", &format_args!("{}", self.transform))?;
        map.serialize_entry("source-id", &self.source_id)?;
        map.serialize_entry("direction", &self.direction)?;
        map.serialize_entry("null-order", &self.null_order)?;
        map.end()
    }
}
