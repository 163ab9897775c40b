//! Determines what to compact and what to expire, with the statements that do so.

use super::report::{Advice, AdviceAction, TableHealth};
use slateberg_base::numbers::{self, grouped};
use slateberg_model::ident::TabularIdent;

/// Number of small data manifests from which a rewrite is advised.
const SMALL_MANIFESTS_MIN: u64 = 20;
/// Number of delete files by position from which Spark compacts them.
const POSITION_FILES_MIN: u64 = 5;
/// Share of deleted rows from which a rewrite of the data files is advised, in percent.
const DELETED_PERCENT_MIN: u64 = 10;
/// Size of the metadata from which a shorter retention of snapshots is advised, in bytes.
const LONG_METADATA_BYTES: u64 = 8 << 20;

/// The names of a table in statements and commands.
pub(crate) struct Names {
    /// The argument of a command.
    argument: String,
    /// The warehouse, as the name of Spark's catalog.
    catalog: String,
    /// The table in this catalog.
    table: String,
}

impl Names {
    pub(crate) fn new(resource: &str, warehouse: &str, ident: &TabularIdent) -> Self {
        let levels = ident.namespace.0.iter().chain([&ident.name]);
        let levels: Vec<_> = levels.map(|level| identifier(level)).collect();
        Self {
            argument: argument(resource),
            catalog: identifier(warehouse),
            table: levels.join("."),
        }
    }

    /// Returns a call of a procedure of Iceberg's Spark extensions.
    fn call(&self, procedure: &str, options: &[(&str, &str)]) -> String {
        let Self { catalog, table, .. } = self;
        let table = literal(table);
        let options: Vec<_> =
            options.iter().flat_map(|(name, value)| [literal(name), literal(value)]).collect();
        let options = match options.join(", ") {
            none if none.is_empty() => none,
            pairs => format!(", options => map({pairs})"),
        };
        format!("CALL {catalog}.system.{procedure}(table => {table}{options})")
    }
}

/// Returns the advice for a table.
pub(crate) fn advice_for(health: &TableHealth, names: &Names) -> Vec<Advice> {
    let all = [
        data_files(health, names),
        position_deletes(health, names),
        manifests(health, names),
        snapshots(health, names),
        old_metadata(health, names),
    ];
    all.into_iter().flatten().collect()
}

fn data_files(health: &TableHealth, names: &Names) -> Option<Advice> {
    let (data, mut reasons) = (&health.data_files, Vec::new());
    if data.compactable_files > 0 {
        reasons.push(format!(
            "{} of {} data files are small: about {} could replace them",
            grouped(data.compactable_files),
            grouped(data.files),
            count(data.compacted_files, "file", "files")
        ));
    }
    let equality = health.delete_files.equality_files;
    if equality > 0 {
        reasons.push(format!("readers have to apply {} equality delete files", grouped(equality)));
    }
    if has_many_deleted_rows(health) {
        reasons.push(format!(
            "{} of {} rows are deleted",
            grouped(health.delete_files.deleted_rows),
            grouped(data.rows)
        ));
    }
    let applies_deletes = equality > 0 || has_many_deleted_rows(health);
    let options: &[_] = if applies_deletes {
        &[("delete-file-threshold", "1"), ("remove-dangling-deletes", "true")]
    } else {
        &[]
    };
    (!reasons.is_empty()).then(|| Advice {
        action: AdviceAction::RewriteDataFiles,
        reason: reasons.join("; "),
        statement: names.call("rewrite_data_files", options),
    })
}

fn has_many_deleted_rows(health: &TableHealth) -> bool {
    let deleted = health.delete_files.deleted_rows;
    let limit = health.data_files.rows.saturating_mul(DELETED_PERCENT_MIN);
    deleted > 0 && deleted.saturating_mul(100) >= limit
}

fn position_deletes(health: &TableHealth, names: &Names) -> Option<Advice> {
    let files = health.delete_files.position_files;
    // A rewrite of the data files also removes these delete files.
    let is_advised = files >= POSITION_FILES_MIN && !has_many_deleted_rows(health);
    is_advised.then(|| Advice {
        action: AdviceAction::RewritePositionDeleteFiles,
        reason: format!("readers have to apply {} position delete files", grouped(files)),
        statement: names.call("rewrite_position_delete_files", &[]),
    })
}

fn manifests(health: &TableHealth, names: &Names) -> Option<Advice> {
    let manifests = &health.manifests;
    let compacted = manifests.bytes.div_ceil(manifests.target_bytes).max(1);
    let is_advised = manifests.small >= SMALL_MANIFESTS_MIN.max(compacted * 2);
    is_advised.then(|| Advice {
        action: AdviceAction::RewriteManifests,
        reason: format!(
            "{} of {} data manifests are small",
            grouped(manifests.small),
            grouped(manifests.data)
        ),
        statement: format!("slateberg job rewrite-manifests {} --rewrite", names.argument),
    })
}

fn snapshots(health: &TableHealth, names: &Names) -> Option<Advice> {
    let (counts, argument) = (&health.snapshots, &names.argument);
    let (reason, options) = match (counts.expired, counts.older_than_a_day) {
        (Some(expired @ 1..), _) => {
            let all = grouped(counts.snapshots);
            (format!("{} of {all} snapshots have expired", grouped(expired)), "")
        }
        (Some(0), Some(1..)) if health.metadata.bytes >= LONG_METADATA_BYTES => {
            let size = grouped(health.metadata.bytes);
            let reason = format!(
                "the metadata has {size} bytes, which each load transfers, but no snapshot has \
                 expired: choose a shorter retention"
            );
            (reason, " --older-than 1d")
        }
        _ => return None,
    };
    let statement = format!("slateberg job expire-snapshots {argument}{options} --delete");
    Some(Advice { action: AdviceAction::ExpireSnapshots, reason, statement })
}

fn old_metadata(health: &TableHealth, names: &Names) -> Option<Advice> {
    let metadata = &health.metadata;
    let is_advised =
        !metadata.deletes_previous_files && metadata.previous_files >= metadata.previous_files_max;
    let Names { catalog, table, .. } = names;
    is_advised.then(|| Advice {
        action: AdviceAction::DeleteOldMetadata,
        reason: format!(
            "each commit leaves a metadata file in the warehouse that the table no longer \
             references (write.metadata.previous-versions-max = {})",
            metadata.previous_files_max
        ),
        statement: format!(
            "ALTER TABLE {catalog}.{table} SET TBLPROPERTIES \
             ('write.metadata.delete-after-commit.enabled' = 'true')"
        ),
    })
}

fn count(number: u64, one: &str, many: &str) -> String {
    numbers::count(usize::try_from(number).unwrap_or(usize::MAX), one, many)
}

/// Returns a name as an identifier in Spark's SQL.
fn identifier(name: &str) -> String {
    let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
        && name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    if is_plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

/// Returns a string literal in Spark's SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Returns an argument in the syntax of a shell.
fn argument(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "_-./:%".contains(it);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_model::ident::NamespaceIdent;

    #[test]
    fn unusual_names_are_quoted_for_spark_and_for_the_shell() {
        let ident = TabularIdent {
            namespace: NamespaceIdent(vec!["a.b".to_owned(), "it's".to_owned()]),
            name: "1`x".to_owned(),
        };
        let names = Names::new("table:my wh/a.b/it's/1`x", "my wh", &ident);
        assert_eq!(
            names.call("rewrite_data_files", &[]),
            r"CALL `my wh`.system.rewrite_data_files(table => '`a.b`.`it\'s`.`1``x`')"
        );
        assert_eq!(names.argument, r"'table:my wh/a.b/it'\''s/1`x'");
    }
}
