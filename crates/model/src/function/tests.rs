//! Tests of the metadata of functions.

use serde_json::json;

use super::*;

fn data_type(json: serde_json::Value) -> FunctionType {
    FunctionType::parse(&json).expect("a type")
}

fn definition(parameter: serde_json::Value, sql: &str) -> DefinitionDraft {
    let data_type = data_type(parameter);
    DefinitionDraft {
        specific_name: None,
        signature: Signature {
            parameters: vec![Parameter { data_type, name: "x".to_owned(), doc: None }],
            return_type: FunctionType::Simple("int".to_owned()),
            return_nullable: true,
            function_type: FunctionKind::Udf,
        },
        implementation: Implementation {
            representations: vec![Representation {
                kind: RepresentationKind::Sql,
                dialect: "spark".to_owned(),
                sql: sql.to_owned(),
            }],
            deterministic: true,
            on_null_input: OnNullInput::Call,
        },
        doc: None,
    }
}

fn draft(definitions: Vec<DefinitionDraft>) -> FunctionDraft {
    FunctionDraft { definitions, properties: BTreeMap::new(), secure: false, doc: None }
}

fn created(definitions: Vec<DefinitionDraft>) -> Result<FunctionMetadata, Refusal> {
    FunctionMetadata::create(Uuid::nil(), draft(definitions), 1)
}

#[test]
fn new_function_has_the_metadata_of_the_specification() {
    let function = created(vec![definition(json!("int"), "x + 1")]).expect("it is valid");
    let json = serde_json::to_value(&function).expect("JSON");
    assert_eq!(
        json,
        json!({
            "function-uuid": "00000000-0000-0000-0000-000000000000",
            "format-version": 1,
            "definitions": [{
                "definition-id": "int",
                "parameters": [{ "type": "int", "name": "x" }],
                "return-type": "int",
                "return-nullable": true,
                "function-type": "udf",
                "versions": [{
                    "version-id": 1,
                    "representations": [{ "type": "sql", "dialect": "spark", "sql": "x + 1" }],
                    "deterministic": true,
                    "on-null-input": "call",
                    "timestamp-ms": 1,
                }],
                "current-version-id": 1,
            }],
            "definition-log": [
                { "timestamp-ms": 1, "definition-versions": [{ "definition-id": "int", "version-id": 1 }] },
            ],
        })
    );
    let read: FunctionMetadata = serde_json::from_value(json).expect("it is read");
    assert_eq!(read, function);
}

#[test]
fn ids_of_definitions_are_canonical() {
    let field = |name: &str, it: &str| json!({ "id": 7, "name": name, "type": it });
    for (json, id) in [
        (json!("decimal(9, 2)"), "decimal(9,2)"),
        (json!("Variant"), "variant"),
        (json!({ "type": "list", "element": "string" }), "list<string>"),
        (json!({ "type": "map", "key": "int", "value": "date" }), "map<int,date>"),
        (
            json!({ "type": "struct", "fields": [field("a", "int"), field("b", "uuid")] }),
            "struct<a:int,b:uuid>",
        ),
    ] {
        assert_eq!(data_type(json).to_string(), id);
    }
}

#[test]
fn invalid_types_are_rejected() {
    for json in [
        json!("bigint"),
        json!(1),
        json!({ "type": "list" }),
        json!({ "type": "map", "key": "int" }),
        json!({ "type": "struct", "fields": {} }),
        json!({ "type": "struct", "fields": [{ "name": "a" }] }),
        json!({ "type": "struct", "fields": [{ "name": "", "type": "int" }] }),
        json!({ "type": "int" }),
    ] {
        assert!(FunctionType::parse(&json).is_err(), "{json}");
    }
}

#[test]
fn replacement_adds_a_version_only_where_the_implementation_changes() {
    let int = definition(json!("int"), "x + 1");
    let text = definition(json!("string"), "length(x)");
    let first = created(vec![int.clone(), text.clone()]).expect("it is valid");
    let same = first.replace(draft(vec![int.clone(), text]), 2).expect("it is valid");
    assert_eq!(same, first);

    let text = definition(json!("string"), "char_length(x)");
    let second = first.replace(draft(vec![int, text]), 3).expect("it is valid");
    let versions = |at: usize| -> Vec<_> {
        second.definitions[at].versions.iter().map(|it| it.version_id).collect()
    };
    assert_eq!((versions(0), versions(1)), (vec![1], vec![1, 2]));
    assert_eq!(second.definitions[1].current_version_id, 2);
    let log: Vec<_> = second.definition_log.iter().map(|it| it.timestamp_ms).collect();
    assert_eq!(log, [1, 3]);
}

#[test]
fn changed_signature_discards_earlier_versions() {
    let first = created(vec![definition(json!("int"), "x + 1")]).expect("it is valid");
    let mut other = definition(json!("int"), "x + 1");
    other.signature.return_type = FunctionType::Simple("long".to_owned());
    let second = first.replace(draft(vec![other]), 2).expect("it is valid");
    let versions: Vec<_> = second.definitions[0].versions.iter().map(|it| it.version_id).collect();
    assert_eq!(versions, [2], "ids are never used again");
    assert_eq!(second.definition_log.len(), 1, "the earlier version no longer exists");
}

#[test]
fn history_is_bounded_in_entries_and_bytes() {
    let sql = |number: i64, bytes: usize| format!("x + {number} /* {} */", "y".repeat(bytes));
    for (bytes, versions) in [(10, LOG_ENTRIES_MAX), (60_000, 4)] {
        let mut function = created(vec![definition(json!("int"), "x")]).expect("it is valid");
        for number in 0..50 {
            let next = definition(json!("int"), &sql(number, bytes));
            function = function.replace(draft(vec![next]), number).expect("it is valid");
        }
        assert_eq!(function.definitions[0].versions.len(), versions);
        assert_eq!(function.definition_log.len(), versions);
        assert_eq!(function.definitions[0].current_version_id, 51);
    }
    let refused = created(vec![definition(json!("int"), &sql(1, FUNCTION_BYTES_MAX))]);
    assert!(refused.is_err());
}

#[test]
fn contradictory_definitions_are_rejected() {
    let one = || definition(json!("int"), "x");
    let with = |change: fn(&mut DefinitionDraft)| {
        let mut changed = one();
        change(&mut changed);
        vec![changed]
    };
    let mut named = [one(), definition(json!("string"), "x")];
    named.iter_mut().for_each(|it| it.specific_name = Some("same".to_owned()));
    for definitions in [
        vec![],
        vec![one(), one()],
        named.to_vec(),
        with(|it| it.implementation.representations.clear()),
        with(|it| it.implementation.representations[0].sql = " ".to_owned()),
        with(|it| it.implementation.representations[0].dialect = String::new()),
        with(|it| {
            let mut other = it.implementation.representations[0].clone();
            other.dialect = "SPARK".to_owned();
            it.implementation.representations.push(other);
        }),
        with(|it| it.signature.parameters[0].name = "\u{1}".to_owned()),
        with(|it| it.signature.parameters.push(it.signature.parameters[0].clone())),
        with(|it| it.signature.function_type = FunctionKind::Udtf),
        with(|it| it.specific_name = Some(String::new())),
    ] {
        assert!(created(definitions.clone()).is_err(), "{definitions:?}");
    }
}
