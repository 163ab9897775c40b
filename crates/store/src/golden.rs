//! Golden tests of the stored format: records that were stored earlier can be decoded, and encoding
//! the result does not change their content.
//!
//! Never adapt these bytes to the code. If the encoding of a record changes, keep the old bytes
//! here beside the new ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value as Json;
use slateberg_model::segmented_json::Segment;

use super::codec::{ChunkBytes, DocumentHead, Value};
use super::key_space::KeySpace;
use super::key_visitor::{KeyVisitor, visit};
use super::keys::{ChunkKey, Key, MetadataKey};
use super::records::{IdempotencyRecord, MutationOutcome};

/// Keys in hexadecimal, and the JSON of their records. In the store, the version byte 1 precedes
/// the JSON.
const RECORDS: &[(&str, &str)] = &[
    (
        "01",
        r#"{"format_version":5,"catalog_id":"0197a000-0000-7000-8000-000000000001","created_ms":1700000000000}"#,
    ),
    (
        "01",
        r#"{"format_version":6,"catalog_id":"0197a000-0000-7000-8000-000000000001","created_ms":1700000000000,"clone_of":{"parent_url":"s3://bucket/state","parent_catalog":"0197a000-0000-7000-8000-000000000002","pin":"0197a000-0000-7000-8000-000000000003","pin_name":"clone","checkpoint":"nightly","as_of_ms":1700000000001,"cloned_ms":1700000000002},"timeline":"0197a000-0000-7000-8000-000000000004"}"#,
    ),
    // The warehouse "prod", first as defined by the configuration, then as created at run time.
    (
        "1070726f64",
        r#"{"id":"0197a000-0000-7000-8000-000000000010","location":"file:///data","created_ms":1700000000000}"#,
    ),
    (
        "1070726f64",
        r#"{"id":"0197a000-0000-7000-8000-000000000010","location":"s3://bucket/data","created_ms":1700000000000,"definition":{"version":2,"created_by":"admin","changed_ms":1700000000001,"changed_by":"ops","allowed_locations":["s3://other/data"],"options":{"region":"eu-central-1"},"credentials":"main","client_defaults":{"a":"b"},"client_overrides":{"c":"d"},"access":{"delegation":["vended-credentials","remote-signing"],"role_arn":"arn:aws:iam::1:role/r","external_id":"e","sts_endpoint":"https://sts","credentials_seconds":900}}}"#,
    ),
    (
        "1070726f64",
        r#"{"id":"0197a000-0000-7000-8000-000000000010","location":"s3://bucket/data","created_ms":1700000000000,"definition":{"version":2,"created_by":"admin","changed_ms":1700000000001,"changed_by":"ops","allowed_locations":["s3://other/data"],"options":{"region":"eu-central-1"},"credentials":"main","client_defaults":{"a":"b"},"client_overrides":{"c":"d"},"dropped_kept_seconds":86400,"access":{"delegation":["vended-credentials","remote-signing"],"role_arn":"arn:aws:iam::1:role/r","external_id":"e","sts_endpoint":"https://sts","credentials_seconds":900}}}"#,
    ),
    (
        "1070726f64",
        r#"{"id":"0197a000-0000-7000-8000-000000000010","location":"s3://bucket/data","created_ms":1700000000000,"definition":{"version":2,"created_by":"admin","changed_ms":1700000000001,"changed_by":"ops","allowed_locations":["s3://other/data"],"options":{"region":"eu-central-1"},"credentials":"main","client_defaults":{"a":"b"},"client_overrides":{"c":"d"},"dropped_kept_seconds":86400,"maintenance":{"slateberg.maintenance.expire-snapshots":"true"},"access":{"delegation":["vended-credentials","remote-signing"],"role_arn":"arn:aws:iam::1:role/r","external_id":"e","sts_endpoint":"https://sts","credentials_seconds":900}}}"#,
    ),
    // The namespace "ns" and its contents.
    (
        "200197a000000070008000000000000010\
         6e73",
        r#"{"id":"0197a000-0000-7000-8000-000000000020"}"#,
    ),
    (
        "210197a000000070008000000000000020",
        r#"{"id":"0197a000-0000-7000-8000-000000000020","warehouse":"0197a000-0000-7000-8000-000000000010","parent":"0197a000-0000-7000-8000-000000000010","name":"ns","properties":{"owner":"etl"},"version":3,"created_ms":1700000000000,"owner":"admin"}"#,
    ),
    (
        "210197a000000070008000000000000020",
        r#"{"id":"0197a000-0000-7000-8000-000000000020","warehouse":"0197a000-0000-7000-8000-000000000010","parent":"0197a000-0000-7000-8000-000000000010","name":"ns","properties":{},"version":1,"created_ms":1700000000000}"#,
    ),
    ("300197a00000007000800000000000002074", r#"{"id":"0197a000-0000-7000-8000-000000000030"}"#),
    ("310197a00000007000800000000000002076", r#"{"id":"0197a000-0000-7000-8000-000000000031"}"#),
    (
        "320197a000000070008000000000000030",
        r#"{"id":"0197a000-0000-7000-8000-000000000030","kind":"table","warehouse":"0197a000-0000-7000-8000-000000000010","namespace":"0197a000-0000-7000-8000-000000000020","name":"t","uuid":"0197a000-0000-7000-8000-000000000040","location":"file:///data/ns/t","further_paths":["file:///data/elsewhere"],"metadata_location":"file:///data/ns/t/metadata/00001.metadata.json","version":7,"created_ms":1700000000000,"updated_ms":1700000000001,"owner":"admin"}"#,
    ),
    (
        "320197a000000070008000000000000031",
        r#"{"id":"0197a000-0000-7000-8000-000000000031","kind":"view","warehouse":"0197a000-0000-7000-8000-000000000010","namespace":"0197a000-0000-7000-8000-000000000020","name":"v","uuid":"0197a000-0000-7000-8000-000000000041","location":"file:///data/ns/v","metadata_location":"file:///data/ns/v/metadata/00000.metadata.json","version":1,"created_ms":1700000000000,"updated_ms":1700000000000}"#,
    ),
    // The location file:///data/t, whose parts are "file", "data" and "t", and a table UUID.
    (
        "3566696c65006461746100740001\
         0197a000000070008000000000000030",
        r#"{"id":"0197a000-0000-7000-8000-000000000030"}"#,
    ),
    (
        "360197a0000000700080000000000000400197a000000070008000000000000030",
        r#"{"id":"0197a000-0000-7000-8000-000000000030"}"#,
    ),
    (
        "360197a0000000700080000000000000420197a000000070008000000000000032",
        r#"{"id":"0197a000-0000-7000-8000-000000000032","dropped":true}"#,
    ),
    (
        "370197a000000070008000000000000032",
        r#"{"record":{"id":"0197a000-0000-7000-8000-000000000032","kind":"table","warehouse":"0197a000-0000-7000-8000-000000000010","namespace":"0197a000-0000-7000-8000-000000000020","name":"d","uuid":"0197a000-0000-7000-8000-000000000042","location":"file:///data/ns/d","metadata_location":"file:///data/ns/d/metadata/00002.metadata.json","version":3,"created_ms":1700000000000,"updated_ms":1700000000001},"namespace":["ns"],"dropped_ms":1700000000002,"dropped_by":"admin","purge":true}"#,
    ),
    (
        "370197a000000070008000000000000032",
        r#"{"record":{"id":"0197a000-0000-7000-8000-000000000032","kind":"table","warehouse":"0197a000-0000-7000-8000-000000000010","namespace":"0197a000-0000-7000-8000-000000000020","name":"d","uuid":"0197a000-0000-7000-8000-000000000042","location":"file:///data/ns/d","metadata_location":"file:///data/ns/d/metadata/00002.metadata.json","version":3,"created_ms":1700000000000,"updated_ms":1700000000001},"namespace":["ns"],"dropped_ms":1700000000002,"dropped_by":"admin","dropped_with":"0197a000-0000-7000-8000-000000000050"}"#,
    ),
    (
        "380197a000000070008000000000000030",
        r#"{"resource":"table:prod/ns/t","protected_ms":1700000000000,"protected_by":"admin"}"#,
    ),
    (
        "380197a000000070008000000000000030",
        r#"{"resource":"table:prod/ns/t","protected_ms":1700000000000,"protected_by":"admin","comment":"why"}"#,
    ),
    (
        "390197a00000007000800000000000002066",
        r#"{"id":"0197a000-0000-7000-8000-000000000033","warehouse":"0197a000-0000-7000-8000-000000000010","namespace":"0197a000-0000-7000-8000-000000000020","name":"f","version":2,"metadata":{"function-uuid":"0197a000-0000-7000-8000-000000000043","format-version":1,"definitions":[{"definition-id":"int,list<string>","specific-name":"f_int","parameters":[{"type":"int","name":"x","doc":"d"},{"type":{"type":"list","element":"string"},"name":"y"}],"return-type":{"type":"struct","fields":[{"name":"a","type":"decimal(9,2)"}]},"return-nullable":false,"function-type":"udtf","versions":[{"version-id":1,"representations":[{"type":"sql","dialect":"spark","sql":"select 1"}],"deterministic":true,"on-null-input":"return-null","timestamp-ms":1700000000000}],"current-version-id":1,"doc":"d"}],"definition-log":[{"timestamp-ms":1700000000000,"definition-versions":[{"definition-id":"int,list<string>","version-id":1}]}],"properties":{"a":"b"},"secure":true,"doc":"d"},"created_ms":1700000000000,"updated_ms":1700000000001,"owner":"admin"}"#,
    ),
    (
        "3a0197a000000070008000000000000021",
        r#"{"record":{"id":"0197a000-0000-7000-8000-000000000021","warehouse":"0197a000-0000-7000-8000-000000000010","parent":"0197a000-0000-7000-8000-000000000020","name":"inner","properties":{"owner":"etl"},"version":3,"created_ms":1700000000000,"owner":"admin"},"namespace":["ns","inner"],"dropped_ms":1700000000002,"dropped_by":"admin","dropped_with":"0197a000-0000-7000-8000-000000000050"}"#,
    ),
    (
        "3b0197a00000007000800000000000002066",
        r#"{"id":"0197a000-0000-7000-8000-000000000033","warehouse":"0197a000-0000-7000-8000-000000000010","namespace":"0197a000-0000-7000-8000-000000000020","name":"f","version":2,"metadata":{"function-uuid":"0197a000-0000-7000-8000-000000000043","format-version":1,"definitions":[{"definition-id":"int,list<string>","specific-name":"f_int","parameters":[{"type":"int","name":"x","doc":"d"},{"type":{"type":"list","element":"string"},"name":"y"}],"return-type":{"type":"struct","fields":[{"name":"a","type":"decimal(9,2)"}]},"return-nullable":false,"function-type":"udtf","versions":[{"version-id":1,"representations":[{"type":"sql","dialect":"spark","sql":"select 1"}],"deterministic":true,"on-null-input":"return-null","timestamp-ms":1700000000000}],"current-version-id":1,"doc":"d"}],"definition-log":[{"timestamp-ms":1700000000000,"definition-versions":[{"definition-id":"int,list<string>","version-id":1}]}],"properties":{"a":"b"},"secure":true,"doc":"d"},"created_ms":1700000000000,"updated_ms":1700000000001,"owner":"admin"}"#,
    ),
    (
        "400197a0000000700080000000000000300000000000000007",
        r#"{"metadata_location":"file:///data/ns/t/metadata/00001.metadata.json"}"#,
    ),
    (
        "400197a0000000700080000000000000300000000000000007",
        r#"{"metadata_location":"m","lists":[{"location":"l","format_version":3,"snapshot_id":5,"parent_snapshot_id":4,"sequence_number":6,"first_row_id":7,"own":[{"path":"p","length":8,"spec-id":0,"content":0,"sequence-number":6,"min-sequence-number":6,"added-snapshot-id":5,"added-files-count":1,"existing-files-count":0,"deleted-files-count":0,"added-rows-count":9,"existing-rows-count":0,"deleted-rows-count":0,"partitions":[{"contains-null":false,"contains-nan":null,"lower-bound":[0,97],"upper-bound":null}],"key-metadata":null,"first-row-id":7}],"onto":"k","removed":["q"]}]}"#,
    ),
    (
        "410197a000000070008000000000000050",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","files":{"listed":["a","b"]},"created_ms":1700000000000,"progress":{"started_ms":null,"done":0,"total":null,"kept":0,"bytes":0,"position":null,"cutoff_ms":null,"found":[]},"failures":0,"next_try_ms":0}"#,
    ),
    (
        "410197a000000070008000000000000051",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","files":{"reachable-from":{"id":"0197a000-0000-7000-8000-000000000030","metadata_location":"m"}},"created_ms":1700000000000,"created_by":"admin","table":{"id":"0197a000-0000-7000-8000-000000000030","uuid":"0197a000-0000-7000-8000-000000000040","resource":"table:prod/ns/t","places":["file:///data/ns/t"]},"progress":{"started_ms":1700000000001,"done":1,"total":9,"kept":2,"bytes":3,"position":{"phase":"manifest-lists","after":"x"},"cutoff_ms":null,"found":[]},"failures":2,"last_error":"no route","next_try_ms":1700000000002}"#,
    ),
    (
        "410197a000000070008000000000000052",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","files":{"reachable-from":{"id":"0197a000-0000-7000-8000-000000000030","metadata_location":"m"}},"created_ms":1700000000000,"progress":{"started_ms":null,"done":1,"total":9,"kept":2,"bytes":0,"position":null,"cutoff_ms":null,"found":[],"warning":"files remain"},"failures":0,"next_try_ms":0}"#,
    ),
    (
        "420197a000000070008000000000000052",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","files":{"orphans":{"dry_run":true,"age_seconds":86400}},"created_ms":1700000000000,"progress":{"started_ms":1700000000001,"done":1,"total":1,"kept":0,"bytes":3,"position":null,"cutoff_ms":1699000000000,"found":["f"]},"failures":0,"next_try_ms":0,"ended":{"how":"cancelled","at_ms":1700000000009}}"#,
    ),
    (
        "410197a000000070008000000000000053",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","files":{"abandoned":{"manifest_lists":["l"],"manifests":["m"]}},"created_ms":1700000000000,"table":{"id":"0197a000-0000-7000-8000-000000000030","uuid":"0197a000-0000-7000-8000-000000000040","places":["file:///data/ns/t"]},"progress":{"started_ms":null,"done":0,"total":null,"kept":0,"bytes":0,"position":null,"cutoff_ms":null,"found":[]},"failures":0,"next_try_ms":0}"#,
    ),
    (
        "430197a000000070008000000000000054",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","table":{"id":"0197a000-0000-7000-8000-000000000030","uuid":"0197a000-0000-7000-8000-000000000040","places":["file:///data/ns/t"]},"manifest_lists":["l"],"manifests":["m"],"since_ms":1700000000000}"#,
    ),
    (
        "460197a000000070008000000000000030",
        r#"{"since_ms":1700000000000,"loads":3,"scans":2,"commits":1,"last_read":{"at_ms":1700000000002,"principal":"key:1","name":"etl"},"last_commit":{"at_ms":1700000000001,"principal":"anonymous"}}"#,
    ),
    ("470197a000000070008000000000000030", r#"{"at_ms":1700000000000}"#),
    ("470197a000000070008000000000000030", r#"{"at_ms":1700000000000,"reported":true}"#),
    (
        "480197a000000070008000000000000030",
        r#"{"revision":"0197a000-0000-7000-8000-000000000031","object":{"domain":"sales"},"fields":{"2":{"pii":"email"}}}"#,
    ),
    (
        "490197a000000070008000000000000030",
        r#"{"reports":[{"at_ms":1700000000000,"principal":"corp/ann","report":{"metrics":{},"report-type":"commit-report"}}]}"#,
    ),
    (
        "410197a000000070008000000000000054",
        r#"{"warehouse":"0197a000-0000-7000-8000-000000000010","files":{"orphans":{"dry_run":false,"age_seconds":86400,"scheduled":true}},"created_ms":1700000000000,"progress":{"started_ms":null,"done":0,"total":null,"kept":0,"bytes":0,"position":null,"cutoff_ms":null,"found":[]},"failures":0,"next_try_ms":0}"#,
    ),
    // Outcomes of requests by the principal "etl".
    (
        "500197a00000007000800000000000006065746c",
        r#"{"fingerprint":"00ff","outcome":"done","expires_ms":1700000000000}"#,
    ),
    (
        "500197a00000007000800000000000006065746c",
        r#"{"fingerprint":"00ff","outcome":{"body":{"namespace":["ns"],"properties":{}}},"expires_ms":1700000000000}"#,
    ),
    (
        "500197a00000007000800000000000006065746c",
        r#"{"fingerprint":"00ff","outcome":{"tabular":{"id":"0197a000-0000-7000-8000-000000000030","metadata_location":"m"}},"publications":[{"id":"0197a000-0000-7000-8000-000000000030","version":7}],"expires_ms":1700000000000}"#,
    ),
    (
        "500197a00000007000800000000000006065746c",
        r#"{"fingerprint":"00ff","outcome":{"refused":{"kind":"NoSuchTable","message":"ns.t"}},"expires_ms":1700000000000}"#,
    ),
    (
        "600000000000000009",
        r#"{"at_ms":1700000000000,"action":"drop_table","principal":"key:1","warehouse":"0197a000-0000-7000-8000-000000000010","subject":"0197a000-0000-7000-8000-000000000030","name":"ns.t","version_before":7,"version_after":null,"allowed":{"revision":"r1","policies":["default/writer"]},"origin":{"principal-name":"etl","method":"api-key","source-address":"10.0.0.1","request-id":"q"}}"#,
    ),
    (
        "600000000000000008",
        r#"{"at_ms":1700000000000,"action":"create_namespace","principal":"admin","warehouse":"0197a000-0000-7000-8000-000000000010","subject":"0197a000-0000-7000-8000-000000000020","name":"ns","version_before":null,"version_after":1}"#,
    ),
    (
        "60000000000000000a",
        r#"{"at_ms":1700000000000,"action":"rename_table","principal":"admin","warehouse":"0197a000-0000-7000-8000-000000000010","subject":"0197a000-0000-7000-8000-000000000030","name":"ns.u","version_before":7,"version_after":8,"resource":{"kind":"table","namespace":["ns"],"name":"u","renamed-from":{"namespace":["ns"],"name":"t"},"uuid":"0197a000-0000-7000-8000-000000000040","metadata-before":"m","metadata-after":"m"},"group":{"index":0,"count":2}}"#,
    ),
    (
        "60000000000000000b",
        r#"{"at_ms":1700000000000,"action":"commit_transaction","principal":"admin","warehouse":"0197a000-0000-7000-8000-000000000010","subject":"0197a000-0000-7000-8000-000000000030","name":"ns.u","version_before":8,"version_after":9,"resource":{"kind":"table","namespace":["ns"],"name":"u","uuid":"0197a000-0000-7000-8000-000000000040","metadata-before":"m","metadata-after":"n","snapshots":{"main":5},"operations":["add-snapshot","set-snapshot-ref"]},"group":{"index":1,"count":2}}"#,
    ),
    // A newer version of slateberg wrote this entry.
    (
        "60000000000000000c",
        r#"{"at_ms":1700000000000,"action":"fold_table","principal":"admin","warehouse":"0197a000-0000-7000-8000-000000000010","subject":"0197a000-0000-7000-8000-000000000030","name":"ns.u","version_before":9,"version_after":10,"resource":{"kind":"table","namespace":["ns"],"name":"u"}}"#,
    ),
    ("70", r#"{"number":2}"#),
    (
        "710000000000000002",
        r#"{"number":2,"at_ms":1700000000000,"by":"admin","action":"put_policy","comment":"why","in_force":"r1","rolled_back_to":1,"changes":{"policies":{"p":{"before":null,"after":{"id":"p","text":"permit (principal, action, resource);","changed_ms":1700000000000,"changed_by":"admin"}}},"granted":[{"id":"0197a000-0000-7000-8000-000000000070","template":"reader","grantee":"role:analysts","resource":"table:prod/ns/t","created_ms":1700000000000,"created_by":"admin"}],"revoked":[]}}"#,
    ),
    (
        "7270",
        r#"{"id":"p","text":"permit (principal, action, resource);","changed_ms":1700000000000,"changed_by":"admin"}"#,
    ),
    (
        "730197a000000070008000000000000070",
        r#"{"id":"0197a000-0000-7000-8000-000000000070","template":"reader","grantee":"role:analysts","resource":"table:prod/ns/t","created_ms":1700000000000,"created_by":"admin"}"#,
    ),
    (
        "800197a000000070008000000000000080",
        r#"{"id":"0197a000-0000-7000-8000-000000000080","name":"etl","hash":"00ff","roles":["writer"],"warehouses":["prod"],"created_ms":1700000000000,"created_by":"admin","expires_ms":1800000000000}"#,
    ),
    (
        "800197a000000070008000000000000081",
        r#"{"id":"0197a000-0000-7000-8000-000000000081","name":"first","hash":"00ff","roles":["admin"],"warehouses":null,"created_ms":1700000000000,"created_by":"slateberg","expires_ms":null}"#,
    ),
    (
        "810197a000000070008000000000000090",
        r#"{"id":"0197a000-0000-7000-8000-000000000090","seed":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","created_ms":1700000000000}"#,
    ),
    (
        "820197a000000070008000000000000080",
        r#"{"key":{"id":"0197a000-0000-7000-8000-000000000080","name":"etl","hash":"00ff","roles":[],"warehouses":null,"created_ms":1700000000000,"created_by":"admin","expires_ms":null},"revoked_ms":1700000000005,"revoked_by":"admin"}"#,
    ),
    (
        "900197a0000000700080000000000000a0",
        r#"{"id":"0197a000-0000-7000-8000-0000000000a0","name":"airflow","url":"https://airflow.example.com/hook","resource":"namespace:prod/sales","types":["table.committed","view"],"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","previous_secret":{"secret":"HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","expires_ms":1700000000003},"owner":{"kind":"service-account","id":"0197a000-0000-7000-8000-000000000080","name":"etl","groups":["g"],"roles":["reader"],"method":"api-key","warehouses":["prod"]},"created_ms":1700000000000,"created_by":"0197a000-0000-7000-8000-000000000080","suspended":{"at_ms":1700000000002,"reason":"the receiver responded 410 Gone","by":"admin"},"version":3}"#,
    ),
    (
        "900197a0000000700080000000000000a1",
        r#"{"id":"0197a000-0000-7000-8000-0000000000a1","name":"all","url":"https://example.com/","secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","created_ms":1700000000000,"created_by":"anonymous","version":1}"#,
    ),
    (
        "910197a0000000700080000000000000a0",
        r#"{"position":"AWz2bTgMxR","failing_since_ms":1700000000001}"#,
    ),
    ("910197a0000000700080000000000000a1", r#"{"position":"AWz2bTgMxR"}"#),
    (
        "926c616b652d6576656e7473",
        r#"{"position":"AWz2bTgMxR","consumer":"0197a000-0000-7000-8000-0000000000a2","created_ms":1700000000000,"stored_ms":1700000000001,"stored_by":"key:0197a000-0000-7000-8000-000000000001"}"#,
    ),
];

/// Head of a document of version 7. The document consists of `{"a":[`, the chunk `1,`, and `2]}`.
const HEAD: &str = "0200000000000000070000000300000000060100000002e9586b616536950f82cad86972b68f4f000000000328b52ffd20094900007b2261223a5b325d7d";
const CHUNK_KEY: &str = "340197a000000070008000000000000030e9586b616536950f82cad86972b68f4f";
const CHUNK: &str = "0128b52ffd2002110000312c";
/// Document `{"a":[1,2]}` of version 7, as written with store format 1.
const WHOLE: &str = "01000000000000000728b52ffd200b5900007b2261223a5b312c325d7d";
const TABLE: &str = "330197a000000070008000000000000030";

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("digits are ASCII");
        u8::from_str_radix(pair, 16).expect("two hexadecimal digits")
    });
    digits.collect()
}

fn key<K: Key>(key: &[u8]) -> K {
    let decoded = K::decode(key).expect("a key of its space");
    assert_eq!(decoded.encode(), key);
    decoded
}

/// Returns one stored record of each kind.
pub(super) fn examples() -> BTreeMap<KeySpace, (Vec<u8>, Vec<u8>)> {
    let json = RECORDS.iter().map(|(key, json)| (bytes(key), [b"\x01", json.as_bytes()].concat()));
    let metadata =
        [(TABLE, HEAD), (CHUNK_KEY, CHUNK)].map(|(key, value)| (bytes(key), bytes(value)));
    let mut examples = BTreeMap::new();
    for (key, value) in json.chain(metadata) {
        let space = KeySpace::of(&key).expect("its space is known");
        examples.entry(space).or_insert((key, value));
    }
    examples
}

/// A stored key with the JSON of its record.
struct StoredRecord<'a> {
    at: &'a [u8],
    json: &'a str,
}

impl KeyVisitor for StoredRecord<'_> {
    type Output = ();

    fn visit<K: Key>(self) {
        let Self { at, json } = self;
        let _ = key::<K>(at);
        let stored = [b"\x01", json.as_bytes()].concat();
        let record = K::Value::decode(&stored).unwrap_or_else(|error| panic!("{json}: {error}"));
        let written = record.encode();
        assert_eq!(written[0], 1);
        let parsed = |text: &[u8]| serde_json::from_slice::<Json>(text).expect("it is JSON");
        assert_eq!(parsed(&written[1..]), parsed(json.as_bytes()));
    }
}

#[test]
fn stored_records_decode_and_encode_unchanged() {
    for (key, json) in RECORDS {
        let at = bytes(key);
        visit(KeySpace::of(&at).expect("its space is known"), StoredRecord { at: &at, json });
    }
}

#[test]
fn every_key_space_has_an_example() {
    let found: BTreeSet<KeySpace> = examples().into_keys().collect();
    assert_eq!(found, KeySpace::ALL.iter().copied().collect());
}

/// Decodes and encodes a stored entry.
struct RoundTrip {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl KeyVisitor for RoundTrip {
    type Output = ();

    fn visit<K: Key>(self) {
        let _ = key::<K>(&self.key);
        let record = K::Value::decode(&self.value).expect("it is a record of its space");
        let again = K::Value::decode(&record.encode()).expect("it can be read again");
        assert_eq!(again.encode(), record.encode());
    }
}

#[test]
fn keys_and_records_round_trip_in_every_key_space() {
    for (space, (key, value)) in examples() {
        visit(space, RoundTrip { key, value });
    }
}

#[test]
fn stored_rejection_decodes_with_its_code() {
    let json = RECORDS.iter().find(|(_, json)| json.contains("refused")).expect("it is there").1;
    let record = IdempotencyRecord::decode(&[b"\x01", json.as_bytes()].concat());
    let error =
        MutationOutcome::Refused { kind: "NoSuchTable".to_owned(), message: "ns.t".to_owned() };
    assert_eq!(record.expect("it is read").outcome, error);
}

#[test]
fn stored_metadata_decodes_unchanged() {
    let _ = key::<MetadataKey>(&bytes(TABLE));
    let chunk_key: ChunkKey = key(&bytes(CHUNK_KEY));
    let ChunkBytes(chunk) = ChunkBytes::decode(&bytes(CHUNK)).expect("a chunk");
    assert_eq!(&*chunk, b"1,");
    let head = DocumentHead::decode(&bytes(HEAD)).expect("a head");
    assert_eq!(head.chunks().collect::<Vec<_>>(), [chunk_key.hash]);
    for (head, chunks) in [
        (head, HashMap::from([(chunk_key.hash, chunk)])),
        (DocumentHead::decode(&bytes(WHOLE)).expect("a head"), HashMap::new()),
    ] {
        let document = head.complete(&chunks).expect("all chunks exist");
        assert_eq!(document.version, 7);
        let text: Vec<u8> = document.text.segments().iter().flat_map(segment).collect();
        assert_eq!(text, br#"{"a":[1,2]}"#);
    }
}

fn segment(segment: &Segment) -> Vec<u8> {
    match segment {
        Segment::Inline(bytes) => bytes.to_vec(),
        Segment::Chunk(chunk) => chunk.text().to_vec(),
    }
}
