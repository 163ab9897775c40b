//! Tests of combined rules: examples, and property tests that apply them to rows.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::testing::schema;
use super::*;

/// The columns `a` and `b` (strings), and `s` with the field `s.c` (a string).
fn columns() -> Schema {
    let text = |id: i32, name: &str| json!({ "id": id, "name": name, "required": false, "type": "string" });
    let inner = json!({ "type": "struct", "fields": [text(4, "c")] });
    schema(&json!({ "type": "struct", "fields": [
        text(1, "a"), text(2, "b"), { "id": 3, "name": "s", "required": false, "type": inner },
    ] }))
}

fn rule(policy: &str, filter: Option<&Value>, masks: &[(&str, Mask)]) -> Arc<ReadRule> {
    let filter = filter.map(|json| Expression::parse(&json.to_string()).expect("an expression"));
    let masks = masks.iter().map(|(name, mask)| ((*name).to_owned(), *mask)).collect();
    Arc::new(ReadRule { policy: policy.to_owned(), filter, masks })
}

fn is(value: &str) -> Value {
    json!({ "type": "eq", "term": "a", "value": value })
}

#[test]
fn masks_parse_as_a_list_or_an_object() {
    let expected = BTreeMap::from([
        ("a".to_owned(), Mask::ShowFirst4),
        ("s.c".to_owned(), Mask::Sha256Global),
    ]);
    for text in [
        "a: show-first-4, s.c: sha-256-global",
        " s.c :sha-256-global,a:show-first-4 ",
        r#"{"a": "show-first-4", "s.c": "sha-256-global"}"#,
    ] {
        assert_eq!(parse_masks(text), Ok(expected.clone()), "{text}");
    }
    let odd = parse_masks(r#"{"a, b: c ": "replace-with-null"}"#).expect("any name is possible");
    assert_eq!(odd.keys().collect::<Vec<_>>(), ["a, b: c "]);
    assert_eq!(parse_masks("x:y: replace-with-null").expect("masks").len(), 1);
    for (text, why) in [
        ("", "expected 'column: mask', got ''"),
        ("{}", "there is no column"),
        ("{", "EOF"),
        ("a", "expected 'column: mask', got 'a'"),
        ("a: show-first-4,", "got ''"),
        ("a: mask-to-default", "there is no mask mask-to-default: expected one of mask-alphanum"),
        (": show-first-4", "empty"),
        ("a: show-first-4, a: show-last-4", "column a occurs twice"),
        (r#"{"a": 7}"#, "expected the name of a mask, got 7"),
    ] {
        let refusal = parse_masks(text).expect_err("it is wrong").to_string();
        assert!(refusal.contains(why), "{text}: {refusal}");
    }
}

#[test]
fn key_of_rules_depends_only_on_filters_and_masks() {
    let key = |rules: Vec<Arc<ReadRule>>| ReadRules::new(rules).key();
    let [eu, us] = ["EU", "US"].map(is);
    let one = key(vec![rule("x", Some(&eu), &[]), rule("y", Some(&us), &[])]);
    assert_eq!(
        one,
        key(vec![rule("v", Some(&us), &[]), rule("w", Some(&eu), &[]), rule("u", Some(&us), &[])])
    );
    for other in [
        vec![],
        vec![rule("x", Some(&eu), &[])],
        vec![rule("x", Some(&eu), &[("a", Mask::ShowLast4)]), rule("y", Some(&us), &[])],
        vec![rule("x", None, &[("a", Mask::ShowLast4)])],
        vec![rule("x", None, &[("a", Mask::ShowFirst4)])],
        vec![rule("x", None, &[("b", Mask::ShowFirst4)])],
    ] {
        assert_ne!(one, key(other));
    }
}

#[test]
fn filters_combine_into_a_balanced_tree() {
    let rules = (0..1_000).map(|n| rule("p", Some(&is(&n.to_string())), &[])).collect();
    let resolved = ReadRules::new(rules).resolve(&columns()).expect("it fits").to_json();
    fn depth(json: &Value) -> usize {
        let parts = json.as_object().into_iter().flat_map(serde_json::Map::values);
        1 + parts.map(depth).max().unwrap_or_default()
    }
    assert!(depth(&resolved) < 20, "{}", depth(&resolved));
}

#[test]
fn columns_that_the_specification_excludes_cannot_be_masked() {
    let field = |id: i32, name: &str, kind: Value| json!({ "id": id, "name": name, "required": false, "type": kind });
    let key = json!({ "type": "struct", "fields": [field(11, "k", json!("string"))] });
    let value = json!({ "type": "struct", "fields": [field(12, "v", json!("string"))] });
    let map = json!({ "type": "map", "key-id": 9, "key": key, "value-id": 10, "value": value,
        "value-required": false });
    let places = json!({ "type": "list", "element-id": 14, "element": "geometry",
        "element-required": false });
    let schema = schema(&json!({ "type": "struct", "fields": [
        field(1, "m", map), field(2, "place", json!("geometry")),
        field(3, "inside", json!({ "type": "struct", "fields": [field(13, "places", places)] })),
        field(4, "variant", json!("variant")) ] }));
    let problem = |name: &str, mask| {
        let rules = ReadRules::new(vec![rule("p", None, &[(name, mask)])]);
        rules.resolve(&schema).map(|_| ()).map_err(|problem| problem.reason)
    };
    for (name, why) in [
        ("m.key", "in the key of a map"),
        ("m.key.k", "in the key of a map"),
        ("place", "does not apply"),
        ("inside", "does not apply"),
    ] {
        let reason = problem(name, Mask::MaskToFixedValue).expect_err(name);
        assert!(reason.contains(why), "{name}: {reason}");
    }
    for name in ["m", "m.value.v", "variant"] {
        assert_eq!(problem(name, Mask::MaskToFixedValue), Ok(()), "{name}");
    }
    assert_eq!(problem("place", Mask::ReplaceWithNull), Ok(()), "null hides everything");
}

#[test]
fn no_rules_restrict_to_no_rows() {
    let resolved =
        ReadRules::new(Vec::new()).resolve(&columns()).expect("no rules always apply").to_json();
    assert_eq!(resolved, json!({ "required-row-filter": false }));
}

/// The values of a row by field id.
type Row = BTreeMap<i32, &'static str>;

/// Whether a filter with columns by field id selects a row.
fn selects(filter: &Value, row: &Row) -> bool {
    match filter["type"].as_str() {
        None => filter.as_bool().expect("it is a constant"),
        Some("or") => selects(&filter["left"], row) || selects(&filter["right"], row),
        Some("not") => !selects(&filter["child"], row),
        Some("eq") => {
            let id = filter["left"]["id"].as_i64().expect("an id");
            let id = i32::try_from(id).expect("an id");
            row[&id] == filter["right"]["value"].as_str().expect("a text")
        }
        other => panic!("no such filter in this test: {other:?}"),
    }
}

/// Returns the mask of a column. `None` if the column is shown unchanged. A mask on an enclosing
/// field also hides the column.
fn effective_mask(restrictions: &ReadRestrictions, id: i32) -> Option<Mask> {
    let round = if id == 4 { restrictions.masks.get(&3) } else { None };
    round.or_else(|| restrictions.masks.get(&id)).copied()
}

fn any_rule() -> impl Strategy<Value = Arc<ReadRule>> {
    let constant = prop_oneof![Just(json!(true)), Just(json!(false))];
    let value = prop_oneof![Just("x"), Just("y"), Just("z")];
    let equals = (prop_oneof![Just("a"), Just("b"), Just("s.c"), Just("gone")], value)
        .prop_map(|(term, value)| json!({ "type": "eq", "term": term, "value": value }));
    let filter = prop_oneof![
        1 => constant,
        4 => equals.clone(),
        1 => equals.prop_map(|child| json!({ "type": "not", "child": child })),
    ];
    let text = prop_oneof![Just("a"), Just("b"), Just("s.c")]
        .prop_flat_map(|name| (Just(name.to_owned()), any_text_mask()));
    let whole = (
        Just("s".to_owned()),
        prop_oneof![Just(Mask::MaskToFixedValue), Just(Mask::ReplaceWithNull)],
    );
    let masks = vec(prop_oneof![4 => text, 1 => whole], 0..3);
    (proptest::option::of(filter), masks).prop_map(|(filter, masks)| {
        let filter = filter.map(|it| Expression::parse(&it.to_string()).expect("an expression"));
        let masks = masks.into_iter().collect();
        Arc::new(ReadRule { policy: "p".to_owned(), filter, masks })
    })
}

fn any_text_mask() -> impl Strategy<Value = Mask> {
    let texts = Mask::ALL
        .into_iter()
        .filter(|mask| !matches!(mask, Mask::TruncateToYear | Mask::TruncateToMonth));
    proptest::sample::select(texts.collect::<Vec<_>>())
}

fn all_rows() -> Vec<Row> {
    let values = ["x", "y", "z"];
    let mut rows = Vec::new();
    for a in values {
        for b in values {
            rows.extend(values.map(|c| BTreeMap::from([(1, a), (2, b), (4, c)])));
        }
    }
    rows
}

proptest! {
    #[test]
    fn combined_rules_show_each_row_like_a_single_rule(
        rules in vec(any_rule(), 1..5)
    ) {
        let schema = columns();
        let resolve = |rules| ReadRules::new(rules).resolve(&schema).expect("every mask fits");
        let together = resolve(rules.clone());
        let alone: Vec<_> = rules.into_iter().map(|rule| resolve(vec![rule])).collect();
        let admits = |one: &ReadRestrictions, row: &Row| {
            one.filter.as_ref().is_none_or(|filter| selects(filter, row))
        };
        for row in all_rows() {
            // The union of the permissions shows every row that one of them shows.
            prop_assert_eq!(admits(&together, &row), alone.iter().any(|one| admits(one, &row)));
            if !admits(&together, &row) {
                continue;
            }
            let is_as_strict = |one: &ReadRestrictions| [1, 2, 4].into_iter().all(|id| {
                match (effective_mask(&together, id), effective_mask(one, id)) {
                    (_, None) => true,
                    (Some(mask), Some(theirs)) => mask.is_as_strict_as(theirs)
                        || (id == 4 && together.masks.contains_key(&3)),
                    (None, Some(_)) => false,
                }
            });
            prop_assert!(alone.iter().any(|one| admits(one, &row) && is_as_strict(one)), "{:?}", row);
        }
        for id in together.masks.keys() {
            prop_assert!(*id != 4 || !together.masks.contains_key(&3), "a field and one inside it");
        }
    }

    #[test]
    fn order_and_duplicates_of_rules_are_irrelevant(rules in vec(any_rule(), 1..5)) {
        let schema = columns();
        let visible = |rules: Vec<_>| {
            let resolved = ReadRules::new(rules).resolve(&schema).expect("every mask fits");
            let admitted = all_rows().into_iter();
            let admits = |row: &Row| resolved.filter.as_ref().is_none_or(|filter| selects(filter, row));
            (admitted.filter(admits).collect::<Vec<_>>(), resolved.masks.clone())
        };
        let backwards: Vec<_> = rules.iter().rev().cloned().collect();
        let twice: Vec<_> = rules.iter().chain(&rules).cloned().collect();
        prop_assert_eq!(visible(rules.clone()), visible(backwards));
        prop_assert_eq!(visible(rules.clone()), visible(twice));
    }

    #[test]
    fn unrestricted_rule_removes_all_restrictions(
        rules in vec(any_rule(), 1..4)
    ) {
        let everything = rule("all", None, &[]);
        let rules = rules.into_iter().chain([everything]).collect();
        let resolved = ReadRules::new(rules).resolve(&columns()).expect("every mask fits");
        prop_assert_eq!(resolved.to_json(), json!({}));
    }
}
