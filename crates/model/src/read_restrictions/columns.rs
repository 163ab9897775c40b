//! Masked columns: parses the syntax of masks, and finds the fields to which they apply.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::mask::Mask;
use crate::members::brief;
use crate::refusal::Refusal;
use crate::schema::SchemaIndex;
use crate::types::Type;

/// Parses the masks of columns, such as `email: sha-256-global, phone: show-last-4`. This notation
/// cannot express a name that contains a comma, or begins or ends with a blank. A JSON object can
/// express such a name.
pub fn parse_masks(text: &str) -> Result<BTreeMap<String, Mask>, Refusal> {
    let pairs = match text.trim_start().starts_with('{') {
        true => pairs_of_object(text)?,
        false => text.split(',').map(pair_of_text).collect::<Result<_, _>>()?,
    };
    let mut masks = BTreeMap::new();
    for (name, mask_name) in pairs {
        let Some(mask) = Mask::parse(&mask_name) else {
            let known = Mask::ALL.map(Mask::name).join(", ");
            return refuse(format!(
                "there is no mask {}: expected one of {known}",
                brief(mask_name)
            ));
        };
        if name.is_empty() {
            return refuse(format!("the name of a column is empty before {mask}"));
        }
        if masks.insert(name.clone(), mask).is_some() {
            return refuse(format!("column {} occurs twice", brief(name)));
        }
    }
    if masks.is_empty() { refuse("there is no column".to_owned()) } else { Ok(masks) }
}

fn pair_of_text(item: &str) -> Result<(String, String), Refusal> {
    match item.rsplit_once(':') {
        Some((name, mask_name)) => Ok((name.trim().to_owned(), mask_name.trim().to_owned())),
        None => refuse(format!("expected 'column: mask', got '{}'", brief(item.trim()))),
    }
}

fn pairs_of_object(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let members: Result<serde_json::Map<String, Value>, _> = serde_json::from_str(text);
    let members =
        members.map_err(|error| Refusal::invalid(format!("Cannot parse masks: {error}")))?;
    let pair = |(name, mask_name): (String, Value)| match mask_name {
        Value::String(mask_name) => Ok((name, mask_name)),
        other => refuse(format!("expected the name of a mask, got {}", brief(other))),
    };
    members.into_iter().map(pair).collect()
}

fn refuse<T>(what: String) -> Result<T, Refusal> {
    Err(Refusal::invalid(format!("Cannot parse masks: {what}")))
}

/// Returns the id of the field with this name. If the mask does not apply to the field, returns the
/// reason.
pub(super) fn resolve_column(
    schema: &SchemaIndex<'_>,
    name: &str,
    mask: Mask,
) -> Result<i32, String> {
    let id = schema.id_by_name(name);
    let Some(found) = id.and_then(|id| schema.field(id)) else {
        return Err(format!("there is no column {} to mask", brief(name)));
    };
    if is_in_map_key(schema, found.field.id) {
        return Err(format!("column {} is in the key of a map", brief(name)));
    }
    if mask.applies_to(found.field) {
        Ok(found.field.id)
    } else {
        let required = if found.field.required { "required " } else { "" };
        let of = brief(&found.field.field_type);
        Err(format!("{mask} does not apply to column {} of type {required}{of}", brief(name)))
    }
}

/// Whether a field is the key of a map, or in it. The specification permits no masks there.
fn is_in_map_key(schema: &SchemaIndex<'_>, id: i32) -> bool {
    let mut inner = id;
    schema.ancestors(id).any(|around| {
        let key = match &around.field.field_type {
            Type::Map(map) => Some(map.key.id),
            _ => None,
        };
        key == Some(std::mem::replace(&mut inner, around.field.id))
    })
}
