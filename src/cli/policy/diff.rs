//! Formats differences of policies and grants as text.

use crate::cli::grant::{grantee, privilege};
use slateberg_management::grants::Grant;
use slateberg_management::policies::PolicyDifferences;

/// Maximum total number of lines of two texts that are compared line by line. The comparison needs
/// quadratic memory.
const LINES_MAX: usize = 4000;

/// Summarizes changes in one line.
pub(super) fn summary(changes: &PolicyDifferences) -> String {
    let mut parts = Vec::new();
    for edit in &changes.policies {
        let sign = match (&edit.before, &edit.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        parts.push(format!("{sign}{}", edit.id));
    }
    parts.extend(changes.granted.iter().map(|grant| format!("+{}", grant_text(grant))));
    parts.extend(changes.revoked.iter().map(|grant| format!("-{}", grant_text(grant))));
    parts.join(", ")
}

/// Formats changes line by line.
pub(super) fn text_of(changes: &PolicyDifferences) -> String {
    let mut diff = String::new();
    for edit in &changes.policies {
        let what = match (&edit.before, &edit.after) {
            (None, _) => "added",
            (_, None) => "deleted",
            _ => "changed",
        };
        diff.push_str(&format!("policy {} {what}\n", edit.id));
        diff.push_str(&lines(text(&edit.before), text(&edit.after)));
    }
    for grant in &changes.granted {
        diff.push_str(&format!("+ {}\n", grant_text(grant)));
    }
    for grant in &changes.revoked {
        diff.push_str(&format!("- {}\n", grant_text(grant)));
    }
    diff
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

fn grant_text(grant: &Grant) -> String {
    format!("{} to {} on {}", privilege(grant), grantee(grant), grant.resource)
}

/// Compares two texts line by line. Returns the removed, added and unchanged lines in order.
fn lines(before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    if old.len() + new.len() > LINES_MAX {
        let removed = old.iter().map(|line| format!("- {line}\n"));
        return removed.chain(new.iter().map(|line| format!("+ {line}\n"))).collect();
    }
    // Length of the longest common subsequence of the remaining lines, for each pair of positions.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (i, one) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            common[i][j] = if one == other {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut diff) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let same = i < old.len() && j < new.len() && old[i] == new[j];
        let (sign, line) = if same {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        diff.push_str(format!("{sign} {line}").trim_end());
        diff.push('\n');
    }
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_lines_of_two_texts_appear_once() {
        assert_eq!(lines("a\nb\nc", "a\nx\nc\nd"), "  a\n- b\n+ x\n  c\n+ d\n");
        assert_eq!(lines("", "a"), "+ a\n");
        assert_eq!(lines("a", ""), "- a\n");
        assert_eq!(lines("a\n\nb", "a\n\nb"), "  a\n\n  b\n");
    }
}
