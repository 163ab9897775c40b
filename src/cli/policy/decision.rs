//! Formats decisions, and defines the exit code of a denial.

use crate::cli::output::table;
use slateberg_management::decisions::ReadRule;

/// The exit code of a denial.
pub(super) const DENIED_EXIT_CODE: u8 = 3;

/// Formats the rows and columns that each policy lets the principal read. Returns an empty string
/// if the principal may read everything.
pub(super) fn rules_text(rules: Option<&[ReadRule]>) -> String {
    let Some(rules) = rules else { return String::new() };
    let row = |rule: &ReadRule| {
        let masks = rule.column_masks.iter();
        let masks: Vec<_> = masks.map(|(name, mask)| format!("{name}: {mask}")).collect();
        [rule.policy.clone(), rule.row_filter.to_string(), masks.join(", ")]
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    format!("\nreadable rows and columns:\n{}", table(["POLICY", "ROWS", "MASKED COLUMNS"], &rows))
}

/// Removes the prefix `user:` or `service-account:` from a grantee. Other grantees keep their
/// prefix.
pub(super) fn principal_id(notation: &str) -> &str {
    let id = notation.strip_prefix("user:").or_else(|| notation.strip_prefix("service-account:"));
    id.unwrap_or(notation)
}
