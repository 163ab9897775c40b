//! Expected read restrictions of a table. Either the whole table may be read, or the file lists the
//! restrictions of each permit policy, in the syntax of its annotations.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::invalid::{Result, invalid};
use slateberg_model::expression::Expression;
use slateberg_model::read_restrictions::{ReadRule, ReadRules, parse_masks};
use slateberg_model::refusal::Refusal;

/// Expected read restrictions of a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum ReadsEntry {
    Word(String),
    Rules(Vec<RuleEntry>),
}

/// Expected read restrictions of one permit policy.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct RuleEntry {
    row_filter: Option<String>,
    column_mask: Option<String>,
}

impl ReadsEntry {
    /// Parses the expected restrictions. `None` for the whole table.
    pub(super) fn rules(&self) -> Result<Option<ReadRules>> {
        let entries = match self {
            Self::Word(value) if value == "whole" => return Ok(None),
            Self::Word(value) => {
                return invalid(format_args!("reads: expected \"whole\" or a list, got '{value}'"));
            }
            Self::Rules(entries) => entries,
        };
        let rules = entries.iter().map(RuleEntry::rule);
        let rules = rules.collect::<std::result::Result<_, _>>();
        match rules {
            Ok(rules) => Ok(Some(ReadRules::new(rules))),
            Err(refusal) => invalid(format_args!("reads: {refusal}")),
        }
    }
}

impl RuleEntry {
    fn rule(&self) -> std::result::Result<Arc<ReadRule>, Refusal> {
        let filter = self.row_filter.as_deref().map(Expression::parse).transpose()?;
        let masks = self.column_mask.as_deref().map(parse_masks).transpose()?;
        let filter = filter.filter(|filter| *filter != Expression::Constant(true));
        Ok(Arc::new(ReadRule { policy: String::new(), filter, masks: masks.unwrap_or_default() }))
    }
}

/// Whether two sets of restrictions are equal. The ids of their policies may differ.
pub(super) fn same(one: Option<&ReadRules>, other: Option<&ReadRules>) -> bool {
    one.map(ReadRules::key) == other.map(ReadRules::key)
}

/// Formats restrictions as JSON.
pub(super) fn rules_json(rules: Option<&ReadRules>) -> Value {
    match rules {
        None => Value::Bool(true),
        Some(rules) => rules.rules().iter().map(|rule| rule.to_json()).collect(),
    }
}
