//! Scans with read restrictions, on generated row filters, client filters, rows and files.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::rows::{Row, Zeros, any_filter, any_row, selects};
use super::soundness::{any_spec, expression, has_transform};
use super::writer::{Writer, any_writer, files};
use super::{COLUMNS, columns, filter};
use crate::expression::Expression;
use crate::mask::Mask;
use crate::read_restrictions::{ReadRestrictions, ReadRule, ReadRules};
use crate::scan::{BoundSpec, RestrictedSchema};

/// Resolves one rule with this filter and these masks. `None` if policies cannot contain the
/// filter, or if it does not apply to the schema.
fn restrictions(row_filter: &Value, masks: &[(&str, Mask)]) -> Option<ReadRestrictions> {
    let filter = Some(Expression::parse(&row_filter.to_string()).ok()?);
    let masks: BTreeMap<_, _> =
        masks.iter().map(|(name, mask)| ((*name).to_owned(), *mask)).collect();
    let rule = ReadRule { policy: "part".to_owned(), filter, masks };
    let resolved = ReadRules::new(vec![Arc::new(rule)]).resolve(columns()).expect("masks apply");
    resolved.inexpressible.is_empty().then_some(resolved)
}

fn check(
    restrictions: &ReadRestrictions,
    (row_filter, of_client): (&Value, &Value),
    spec: &BoundSpec,
    writer: &Writer,
    rows: &[Row],
) -> Result<(), TestCaseError> {
    let schema = columns();
    let restricted = RestrictedSchema::new(restrictions, schema, schema).expect("a schema");
    let both = restricted.restrict(&filter(of_client)).expect("a filter").expect("one schema");
    let projected = both.for_spec(spec);
    let (allowed, wanted) = (expression(row_filter), expression(of_client));
    for zeros in [Zeros::Equal, Zeros::Ordered] {
        for (partition, rows) in &files(writer, spec, rows) {
            let is_told = projected.may_match_partition(partition)
                && both.may_match(&writer.statistics(rows));
            let residual = expression(&projected.residual(partition).to_json());
            for row in rows {
                let is_read = is_told && selects(&residual, row, zeros);
                let is_wanted = selects(&allowed, row, zeros) && selects(&wanted, row, zeros);
                prop_assert_eq!(is_read, is_wanted, "row {:?}", row);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn engine_reads_exactly_the_rows_that_both_filters_select(
        row_filter in any_filter(),
        of_client in any_filter(),
        spec in any_spec(),
        writer in any_writer(),
        rows in prop::collection::vec(any_row(), 1..10),
    ) {
        let restrictions = restrictions(&row_filter, &[]);
        prop_assume!(restrictions.is_some());
        let writer = Writer { is_old: writer.is_old && !has_transform(&of_client), ..writer };
        check(&restrictions.expect("some"), (&row_filter, &of_client), &spec, &writer, &rows)?;
    }
}

#[test]
fn client_filter_on_a_masked_column_prunes_nothing() {
    let (id, name, _) = COLUMNS[0];
    let restrictions = restrictions(&json!(true), &[(name, Mask::MaskToFixedValue)]);
    let restrictions = restrictions.expect("it applies");
    let schema = columns();
    let restricted = RestrictedSchema::new(&restrictions, schema, schema).expect("a schema");
    let asked = filter(&json!({ "type": "not-null", "term": name }));
    let both = restricted.restrict(&asked).expect("a filter").expect("one schema");
    assert!(both.field_ids().is_empty(), "{both:?}");
    assert_eq!(both.to_json(), asked.to_json());
    assert_eq!(restricted.without_masked(&[id, COLUMNS[1].0, -1]), [COLUMNS[1].0]);
}
