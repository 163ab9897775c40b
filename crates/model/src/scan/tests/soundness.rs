//! Properties of pruning and residuals, on generated rows, files and filters.

use proptest::prelude::*;
use serde_json::Value;

use super::rows::{Row, Zeros, any_filter, any_row, selects, transforms_of, without_negations};
use super::writer::{Writer, any_writer, files, summaries};
use super::{COLUMNS, columns, filter, manifest, spec};
use crate::expression::{Expression, FilterLimits};
use crate::scan::{BoundSpec, FileResidual, ScanFilter};

pub(super) fn any_spec() -> impl Strategy<Value = BoundSpec> {
    let field = (0..COLUMNS.len()).prop_flat_map(|column| {
        let id = COLUMNS[column].0;
        prop::sample::select(transforms_of(column)).prop_map(move |transform| (id, transform))
    });
    prop::collection::vec(field, 0..3).prop_map(|fields| spec(0, &fields))
}

pub(super) fn expression(json: &Value) -> Expression {
    let parsed = Expression::parse_filter(&json.to_string(), &FilterLimits::default());
    without_negations(&parsed.expect("a filter"), false)
}

/// Asserts that a residual and the filter select the same rows of a file.
fn assert_equivalent(
    residual: &ScanFilter,
    original: &Expression,
    rows: &[Row],
    zeros: Zeros,
) -> Result<(), TestCaseError> {
    let json = residual.to_json();
    let parsed = expression(&json);
    for row in rows {
        let (one, other) = (selects(&parsed, row, zeros), selects(original, row, zeros));
        prop_assert_eq!(one, other, "residual {} of row {:?}", json, row);
    }
    Ok(())
}

fn check(
    json: &Value,
    spec: &BoundSpec,
    writer: &Writer,
    rows: &[Row],
) -> Result<(), TestCaseError> {
    let (bound, original) = (filter(json), expression(json));
    let projected = bound.for_spec(spec);
    let files = files(writer, spec, rows);
    let partitions: Vec<_> = files.iter().map(|(partition, _)| partition.clone()).collect();
    let manifest = manifest(0, Some(summaries(spec, &partitions)));
    let manifest_may_match = projected.may_match_manifest(&manifest);
    for zeros in [Zeros::Equal, Zeros::Ordered] {
        for (partition, rows) in &files {
            let statistics = writer.statistics(rows);
            let any = rows.iter().any(|row| selects(&original, row, zeros));
            let all = rows.iter().all(|row| selects(&original, row, zeros));
            if any {
                prop_assert!(manifest_may_match, "manifest of {rows:?}");
                prop_assert!(projected.may_match_partition(partition), "{partition:?}: {rows:?}");
                prop_assert!(bound.may_match(&statistics), "{statistics:?}: {rows:?}");
                prop_assert_eq!(bound.narrow(&statistics, 0..1), [0], "{:?}", statistics);
            }
            if !all {
                prop_assert!(!projected.all_match_partition(partition), "{partition:?}: {rows:?}");
                prop_assert!(!bound.all_match(&statistics), "{statistics:?}: {rows:?}");
            }
            let residual = projected.residual(partition);
            prop_assert!(all || !residual.all_match(&statistics), "{partition:?}: {statistics:?}");
            assert_equivalent(&residual, &original, rows, zeros)?;
            let of_file = FileResidual::new(residual);
            match of_file.unproven(&statistics) {
                Some(unproven) => {
                    assert_equivalent(&of_file.filter(unproven), &original, rows, zeros)?;
                    if let Some(narrowed) = of_file.narrowed(unproven, &statistics) {
                        assert_equivalent(&narrowed, &original, rows, zeros)?;
                    }
                }
                None => prop_assert!(!any, "{partition:?}: {statistics:?}"),
            }
        }
    }
    Ok(())
}

/// Changes single characters of a text.
fn altered(text: &str, changes: &[(prop::sample::Index, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, char) in changes {
        let at = at.index(chars.len());
        chars[at] = *char;
    }
    chars.into_iter().collect()
}

/// Whether a filter contains transforms. The reference implementation does not widen tests of
/// transforms for old writers.
pub(super) fn has_transform(json: &Value) -> bool {
    json.to_string().contains("\"transform\"")
}

proptest! {
    #[test]
    fn altered_filter_never_panics(
        json in any_filter(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 0..4),
        marks in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(vec!['{', '}', '"', ',', '9', '-'])),
            0..3,
        ),
        spec in any_spec(),
        writer in any_writer(),
        rows in prop::collection::vec(any_row(), 1..3),
    ) {
        let text = altered(&altered(&json.to_string(), &changes), &marks);
        let parsed = ScanFilter::parse(&text, &FilterLimits::default(), columns(), true);
        if let Ok(bound) = parsed {
            let projected = bound.for_spec(&spec);
            for (partition, rows) in &files(&writer, &spec, &rows) {
                let statistics = writer.statistics(rows);
                let _ = (bound.may_match(&statistics), bound.all_match(&statistics));
                let _ = bound.narrow(&statistics, 0..1);
                let residual = FileResidual::new(projected.residual(partition));
                let unproven = residual.unproven(&statistics);
                let _ = unproven.map(|unproven| {
                    let narrowed = residual.narrowed(unproven, &statistics);
                    (residual.filter(unproven).to_json(), narrowed.map(|it| it.to_json()))
                });
            }
        }
    }

    #[test]
    fn pruned_files_have_no_matching_row_and_residuals_select_the_same_rows(
        json in any_filter(),
        spec in any_spec(),
        writer in any_writer(),
        rows in prop::collection::vec(any_row(), 1..10),
    ) {
        let writer = Writer { is_old: writer.is_old && !has_transform(&json), ..writer };
        check(&json, &spec, &writer, &rows)?;
    }
}
