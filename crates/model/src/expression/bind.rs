//! Binding of an expression to a schema: names become field ids, literals become values of their
//! columns' types.

use serde_json::{Value, json};

use super::{Comparison, Expression, Test};
use crate::defaults;
use crate::members::brief;
use crate::schema::SchemaIndex;
use crate::types::{NestedField, PrimitiveType, Type};

/// The greatest integer up to which all integers are exact as floating point numbers.
const EXACT_INTEGER_MAX: u64 = 1 << 53;

impl Expression {
    /// Returns the expression as JSON with columns by field id. Errors with a message for the
    /// author if the expression does not apply to this schema.
    pub(crate) fn bind(&self, schema: &SchemaIndex<'_>) -> Result<Value, String> {
        match self {
            Self::Constant(all) => Ok(json!(all)),
            Self::Not(inner) => Ok(json!({ "type": "not", "child": inner.bind(schema)? })),
            Self::And(left, right) => Ok(
                json!({ "type": "and", "left": left.bind(schema)?, "right": right.bind(schema)? }),
            ),
            Self::Or(left, right) => Ok(
                json!({ "type": "or", "left": left.bind(schema)?, "right": right.bind(schema)? }),
            ),
            Self::Test(test, column) => {
                let field = find(schema, column)?;
                check_test(*test, field)?;
                Ok(json!({ "type": test.word(), "child": reference(field) }))
            }
            Self::Compare(comparison, column, value) => {
                let field = find(schema, column)?;
                check_comparison(*comparison, field)?;
                let value = literal(field, value)?;
                let right = json!({ "type": "literal", "value": value });
                Ok(json!({ "type": comparison.word(), "left": reference(field), "right": right }))
            }
            Self::Among(membership, column, values) => {
                let field = find(schema, column)?;
                let values: Result<Vec<_>, _> =
                    values.iter().map(|value| literal(field, value)).collect();
                let (kind, child) = (membership.word(), reference(field));
                Ok(json!({ "type": kind, "child": child, "values": values? }))
            }
        }
    }
}

fn reference(field: &NestedField) -> Value {
    json!({ "type": "reference", "id": field.id })
}

/// Returns the field with this name. Errors if the field is inside a list or map, where one row has
/// many values.
fn find<'a>(schema: &SchemaIndex<'a>, column: &str) -> Result<&'a NestedField, String> {
    let id = schema.id_by_name(column);
    let Some(found) = id.and_then(|id| schema.field(id)) else {
        return Err(format!("there is no column {}", brief(column)));
    };
    if schema.ancestors(found.field.id).any(|parent| !parent.field.field_type.is_struct()) {
        return Err(format!("column {} has many values in a row", brief(column)));
    }
    Ok(found.field)
}

fn check_test(test: Test, field: &NestedField) -> Result<(), String> {
    let floats = [PrimitiveType::Float, PrimitiveType::Double];
    let is_float = field.field_type.as_primitive().is_some_and(|it| floats.contains(it));
    match test {
        Test::IsNull | Test::NotNull => Ok(()),
        Test::IsNan | Test::NotNan if is_float => Ok(()),
        Test::IsNan | Test::NotNan => Err(cannot(test.word(), field)),
    }
}

fn check_comparison(comparison: Comparison, field: &NestedField) -> Result<(), String> {
    let is_string = field.field_type.as_primitive() == Some(&PrimitiveType::String);
    if comparison.is_about_prefixes() && !is_string {
        Err(cannot(comparison.word(), field))
    } else {
        Ok(())
    }
}

fn cannot(word: &str, field: &NestedField) -> String {
    format!("{word} does not apply to column {} of type {}", brief(&field.name), type_of(field))
}

fn type_of(field: &NestedField) -> String {
    brief(&field.field_type)
}

/// Converts a literal to a value of a field's type, in its JSON single-value serialization.
fn literal(field: &NestedField, value: &Value) -> Result<Value, String> {
    let is_no_value = || {
        format!(
            "{} is no value of column {} of type {}",
            brief(value),
            brief(&field.name),
            type_of(field)
        )
    };
    let Type::Primitive(primitive) = &field.field_type else { return Err(is_no_value()) };
    let value = written(primitive, value).ok_or_else(is_no_value)?;
    if defaults::fits(primitive, &value) { Ok(value) } else { Err(is_no_value()) }
}

/// Normalizes the literal to the form that the serialization requires, for types with several
/// forms.
fn written(primitive: &PrimitiveType, value: &Value) -> Option<Value> {
    Some(match (primitive, value) {
        (PrimitiveType::Float | PrimitiveType::Double, Value::Number(number)) => {
            if !number.is_f64() && number.as_i64()?.unsigned_abs() > EXACT_INTEGER_MAX {
                return None;
            }
            let number = number.as_f64()?;
            if *primitive == PrimitiveType::Float && number.abs() > f64::from(f32::MAX) {
                return None;
            }
            json!(number)
        }
        (PrimitiveType::Decimal { scale, .. }, Value::String(text)) => {
            json!(padded(text, usize::try_from(*scale).ok()?))
        }
        (PrimitiveType::Timestamptz | PrimitiveType::TimestamptzNs, Value::String(text)) => {
            match text.strip_suffix('Z') {
                Some(local) => json!(format!("{local}+00:00")),
                None => value.clone(),
            }
        }
        (PrimitiveType::Uuid, Value::String(text)) => json!(text.to_ascii_lowercase()),
        _ => value.clone(),
    })
}

/// Pads a decimal to `scale` digits after the point. Does not shorten a longer one.
fn padded(text: &str, scale: usize) -> String {
    let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let missing = scale.saturating_sub(digits);
    let point = if missing > 0 && !text.contains('.') { "." } else { "" };
    format!("{text}{point}{}", "0".repeat(missing))
}
