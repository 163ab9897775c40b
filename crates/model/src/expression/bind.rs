//! Binds an expression to a schema: replaces names by field ids, and literals by values of the
//! columns' types.

use serde_json::{Value, json};

use super::{Comparison, Expression, Term, Test};
use crate::defaults;
use crate::members::brief;
use crate::schema::SchemaIndex;
use crate::types::{NestedField, PrimitiveType, Type};

/// All integers up to this one can be represented exactly as floating point numbers.
const EXACT_INTEGER_MAX: u64 = 1 << 53;

impl Expression {
    /// Returns the expression as JSON that identifies columns by field id. If the expression does
    /// not apply to this schema, errors with a message for its author.
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
            Self::Test(test, term) => {
                let field = find(schema, column_of(term)?)?;
                check_test(*test, field)?;
                Ok(json!({ "type": test.name(), "child": reference(field) }))
            }
            Self::Compare(comparison, term, value) => {
                let field = find(schema, column_of(term)?)?;
                check_comparison(*comparison, field)?;
                let value = literal(field, value)?;
                let right = json!({ "type": "literal", "value": value });
                Ok(json!({ "type": comparison.name(), "left": reference(field), "right": right }))
            }
            Self::Among(membership, term, values) => {
                let field = find(schema, column_of(term)?)?;
                let values: Result<Vec<_>, _> =
                    values.iter().map(|value| literal(field, value)).collect();
                let (kind, child) = (membership.name(), reference(field));
                Ok(json!({ "type": kind, "child": child, "values": values? }))
            }
            Self::Opaque(source) => Err(format!("{} is not supported", brief(source))),
        }
    }
}

fn column_of(term: &Term) -> Result<&str, String> {
    match term {
        Term::Column(name) => Ok(name),
        other => Err(format!("{} is not supported", brief(other.to_json()))),
    }
}

fn reference(field: &NestedField) -> Value {
    json!({ "type": "reference", "id": field.id })
}

/// Returns the field with this name. Rejects fields inside a list or map, because they have many
/// values in one row.
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
        Test::IsNan | Test::NotNan => Err(cannot(test.name(), field)),
    }
}

fn check_comparison(comparison: Comparison, field: &NestedField) -> Result<(), String> {
    let is_string = field.field_type.as_primitive() == Some(&PrimitiveType::String);
    if comparison.is_for_strings() && !is_string {
        Err(cannot(comparison.name(), field))
    } else {
        Ok(())
    }
}

fn cannot(type_name: &str, field: &NestedField) -> String {
    format!(
        "{type_name} does not apply to column {} of type {}",
        brief(&field.name),
        type_of(field)
    )
}

fn type_of(field: &NestedField) -> String {
    brief(&field.field_type)
}

/// Converts a literal to a value of a field's type, in its JSON single-value serialization.
fn literal(field: &NestedField, value: &Value) -> Result<Value, String> {
    let is_no_value = || {
        format!(
            "{} is not a value of column {} of type {}",
            brief(value),
            brief(&field.name),
            type_of(field)
        )
    };
    let Type::Primitive(primitive) = &field.field_type else { return Err(is_no_value()) };
    let value = to_bound_json(primitive, value).ok_or_else(is_no_value)?;
    if defaults::fits(primitive, &value) { Ok(value) } else { Err(is_no_value()) }
}

/// Converts a literal to the form that the JSON single-value serialization requires. Literals of
/// some types may be written in other forms.
fn to_bound_json(primitive: &PrimitiveType, value: &Value) -> Option<Value> {
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

/// Appends zeros to a decimal until it has `scale` digits after the point. Does not shorten it.
fn padded(text: &str, scale: usize) -> String {
    let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let missing = scale.saturating_sub(digits);
    let point = if missing > 0 && !text.contains('.') { "." } else { "" };
    format!("{text}{point}{}", "0".repeat(missing))
}
