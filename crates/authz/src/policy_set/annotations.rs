//! Annotations of policies: `@id` and `@description`. Permit policies may also have the read
//! restrictions `@row_filter` and `@column_mask`.
//!
//! Other annotations are rejected: a misspelled `@row_filter` would have no effect, so the
//! principal could read every row.

use std::collections::BTreeMap;

use cedar_policy::{
    ActionConstraint, Effect, EntityTypeName, EntityUid, Policy, ResourceConstraint, Template,
    TemplateResourceConstraint,
};

use crate::action::{Action, Load};
use crate::rules::covers;
use crate::schema::Schema;
use slateberg_model::expression::Expression;
use slateberg_model::mask::Mask;
use slateberg_model::read_restrictions::{ReadRule, parse_masks};
use slateberg_model::refusal::Refusal;

/// Annotation with the id of a policy.
pub(super) const ID: &str = "id";
/// Annotation with a description for people.
const DESCRIPTION: &str = "description";
/// Annotation with a filter that selects the rows that may be read.
const ROW_FILTER: &str = "row_filter";
/// Annotation with the masks of columns.
const COLUMN_MASK: &str = "column_mask";

/// The parts of a policy or template that determine which annotations are valid.
pub(super) struct Annotated<'a> {
    annotations: Vec<(&'a str, &'a str)>,
    effect: Effect,
    action: ActionConstraint,
    /// Type of the resources in its scope, if there is only one.
    resource: Option<EntityTypeName>,
}

impl<'a> Annotated<'a> {
    pub(super) fn policy(policy: &'a Policy) -> Self {
        let resource = match policy.resource_constraint() {
            ResourceConstraint::Any => None,
            ResourceConstraint::Eq(one) => Some(one.type_name().clone()),
            ResourceConstraint::In(one) => type_within(&one),
            ResourceConstraint::Is(name) | ResourceConstraint::IsIn(name, _) => Some(name),
        };
        Self {
            annotations: policy.annotations().collect(),
            effect: policy.effect(),
            action: policy.action_constraint(),
            resource,
        }
    }

    pub(super) fn template(template: &'a Template) -> Self {
        let resource = match template.resource_constraint() {
            TemplateResourceConstraint::Any => None,
            TemplateResourceConstraint::Eq(one) => one.map(|one| one.type_name().clone()),
            TemplateResourceConstraint::In(one) => one.and_then(|one| type_within(&one)),
            TemplateResourceConstraint::Is(name) | TemplateResourceConstraint::IsIn(name, _) => {
                Some(name)
            }
        };
        Self {
            annotations: template.annotations().collect(),
            effect: template.effect(),
            action: template.action_constraint(),
            resource,
        }
    }

    /// Returns the names of invalid annotations, with the reasons.
    pub(super) fn problems(&self, schema: &Schema) -> Vec<(&'a str, String)> {
        let problem = |(name, value): &(&'a str, &'a str)| {
            let message = match *name {
                ID | DESCRIPTION => return None,
                ROW_FILTER => {
                    self.ineffective_reason(schema).or_else(|| error(Expression::parse(value)))
                }
                COLUMN_MASK => {
                    self.ineffective_reason(schema).or_else(|| error(parse_masks(value)))
                }
                _ => Some(format!(
                    "expected @{ID} or @{DESCRIPTION}, or on a permit @{ROW_FILTER} or @{COLUMN_MASK}"
                )),
            };
            Some((*name, format!("@{name}: {}", message?)))
        };
        self.annotations.iter().filter_map(problem).collect()
    }

    /// Returns the reason why read restrictions in this policy would have no effect. `None` if they
    /// have an effect.
    fn ineffective_reason(&self, schema: &Schema) -> Option<String> {
        if self.effect == Effect::Forbid {
            return Some(
                "a forbid cannot restrict what a permit shows: put this annotation on a permit"
                    .to_owned(),
            );
        }
        let loads = schema
            .action(Load::NAME)
            .zip(schema.groups_of(Load::NAME))
            .is_some_and(|(load, groups)| covers(&self.action, load, groups));
        let tables = self.resource.as_ref().is_none_or(|name| *name == schema.types.table);
        if loads && tables {
            None
        } else {
            Some(
                "this permit does not include Load on a table, so there is no read to restrict"
                    .to_owned(),
            )
        }
    }
}

/// Returns the type of the entities that are `in` this entity (in the sense of Cedar), if they all
/// have the same type. Only tables, views and functions return a type, because no other entity is
/// `in` one of them.
fn type_within(one: &EntityUid) -> Option<EntityTypeName> {
    let name = one.type_name();
    matches!(name.basename(), "Table" | "View" | "Function").then(|| name.clone())
}

fn error<T>(parsed: Result<T, Refusal>) -> Option<String> {
    parsed.err().map(|refusal| refusal.to_string())
}

/// Parses the read restrictions of a policy. `None` for a policy without any.
pub(super) fn read_rule(policy: &Policy) -> Result<Option<ReadRule>, Refusal> {
    let filter = policy.annotation(ROW_FILTER).map(Expression::parse).transpose()?;
    let filter = filter.filter(|filter| *filter != Expression::Constant(true));
    let masks: Option<BTreeMap<String, Mask>> =
        policy.annotation(COLUMN_MASK).map(parse_masks).transpose()?;
    if filter.is_none() && masks.is_none() {
        return Ok(None);
    }
    let id: &str = policy.id().as_ref();
    Ok(Some(ReadRule { policy: id.to_owned(), filter, masks: masks.unwrap_or_default() }))
}
