//! Manifests of engines, and malformed ones.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use apache_avro::types::Value as Avro;
use apache_avro::{Codec, DeflateSettings, Schema, Writer};
use proptest::prelude::*;

use super::*;

const INHERITED: Inherited =
    Inherited { sequence_number: 5, snapshot_id: 50, first_row_id: Some(1000) };

/// Returns the schema of an entry of format version 3, as Java writes it.
fn schema() -> String {
    let optional = |id: i32, name: &str, kind: &str| {
        format!(r#"{{"name":"{name}","type":["null",{kind}],"default":null,"field-id":{id}}}"#)
    };
    let map = |id: i32, name: &str, (key, value): (i32, i32), kind: &str| {
        let fields = format!(
            r#"[{{"name":"key","type":"int","field-id":{key}}},{{"name":"value","type":"{kind}","field-id":{value}}}]"#
        );
        let record = format!(r#"{{"type":"record","name":"k{key}_v{value}","fields":{fields}}}"#);
        let array = format!(r#"{{"type":"array","items":{record},"logicalType":"map"}}"#);
        optional(id, name, &array)
    };
    let list = |id: i32, name: &str, kind: &str| {
        optional(id, name, &format!(r#"{{"type":"array","items":"{kind}"}}"#))
    };
    let file = [
        r#"{"name":"content","type":"int","field-id":134}"#.to_owned(),
        r#"{"name":"file_path","type":"string","field-id":100}"#.to_owned(),
        r#"{"name":"file_format","type":"string","field-id":101}"#.to_owned(),
        r#"{"name":"partition","field-id":102,"type":{"type":"record","name":"r102","fields":[
            {"name":"region","type":["null","string"],"default":null,"field-id":1000},
            {"name":"_x2Fday","type":["null",{"type":"int","logicalType":"date"}],"field-id":1001},
            {"name":"flag","type":["null","boolean"],"default":null,"field-id":1002}]}}"#
            .to_owned(),
        r#"{"name":"record_count","type":"long","field-id":103}"#.to_owned(),
        r#"{"name":"file_size_in_bytes","type":"long","field-id":104}"#.to_owned(),
        map(108, "column_sizes", (117, 118), "long"),
        map(109, "value_counts", (119, 120), "long"),
        map(125, "lower_bounds", (126, 127), "bytes"),
        optional(131, "key_metadata", r#""bytes""#),
        list(132, "split_offsets", "long"),
        list(135, "equality_ids", "int"),
        optional(140, "sort_order_id", r#""int""#),
        optional(142, "first_row_id", r#""long""#),
        optional(143, "referenced_data_file", r#""string""#),
        optional(144, "content_offset", r#""long""#),
        optional(9999, "of_a_later_version", r#"{"type":"map","values":"double"}"#),
    ];
    format!(
        r#"{{"type":"record","name":"manifest_entry","fields":[
            {{"name":"status","type":"int","field-id":0}},
            {{"name":"snapshot_id","type":["null","long"],"field-id":1}},
            {{"name":"sequence_number","type":["null","long"],"field-id":3}},
            {{"name":"data_file","field-id":2,"type":
                {{"type":"record","name":"r2","fields":[{}]}}}}]}}"#,
        file.join(",")
    )
}

fn record(fields: Vec<(&str, Avro)>) -> Avro {
    Avro::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn optional(value: Option<Avro>) -> Avro {
    match value {
        None => Avro::Union(0, Box::new(Avro::Null)),
        Some(value) => Avro::Union(1, Box::new(value)),
    }
}

fn map(pairs: Vec<(i32, Avro)>) -> Avro {
    let pair = |(key, value)| record(vec![("key", Avro::Int(key)), ("value", value)]);
    optional(Some(Avro::Array(pairs.into_iter().map(pair).collect())))
}

/// A file in a test.
#[derive(Clone, Default)]
struct File {
    status: i32,
    content: i32,
    snapshot_id: Option<i64>,
    sequence_number: Option<i64>,
    first_row_id: Option<i64>,
    region: Option<&'static str>,
    day: Option<i32>,
}

fn file(status: i32) -> File {
    File { status, ..File::default() }
}

fn entry(number: i64, file: &File) -> Avro {
    let long = |value: Option<i64>| optional(value.map(Avro::Long));
    let partition = record(vec![
        ("region", optional(file.region.map(|it| Avro::String(it.to_owned())))),
        ("_x2Fday", optional(file.day.map(Avro::Date))),
        ("flag", optional(Some(Avro::Boolean(true)))),
    ]);
    let bound = |id: u8| (i32::from(id), Avro::Bytes(vec![id; usize::from(id)]));
    let nothing = optional(None);
    let data_file = record(vec![
        ("content", Avro::Int(file.content)),
        ("file_path", Avro::String(format!("s3://b/t/data/ü-{number}.parquet"))),
        ("file_format", Avro::String("PARQUET".to_owned())),
        ("partition", partition),
        ("record_count", Avro::Long(10)),
        ("file_size_in_bytes", Avro::Long(1 << 33)),
        ("column_sizes", map(vec![(1, Avro::Long(number)), (2, Avro::Long(-1))])),
        ("value_counts", map(vec![(1, Avro::Long(10)), (3, Avro::Long(11))])),
        ("lower_bounds", map(vec![bound(1), bound(2), bound(3)])),
        (
            "key_metadata",
            if number == 1 { optional(Some(Avro::Bytes(vec![9]))) } else { nothing.clone() },
        ),
        ("split_offsets", optional(Some(Avro::Array(vec![Avro::Long(4), Avro::Long(number)])))),
        ("equality_ids", nothing.clone()),
        ("sort_order_id", optional(Some(Avro::Int(0)))),
        ("first_row_id", long(file.first_row_id)),
        ("referenced_data_file", nothing.clone()),
        ("content_offset", nothing),
        (
            "of_a_later_version",
            optional(Some(Avro::Map([("a".to_owned(), Avro::Double(0.5))].into()))),
        ),
    ]);
    record(vec![
        ("status", Avro::Int(file.status)),
        ("snapshot_id", long(file.snapshot_id)),
        ("sequence_number", long(file.sequence_number)),
        ("data_file", data_file),
    ])
}

fn written(files: &[File]) -> Vec<u8> {
    let schema = Schema::parse_str(&schema()).expect("a schema");
    let codec = Codec::Deflate(DeflateSettings::default());
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
    for (number, file) in (0..).zip(files) {
        writer.append(entry(number, file)).expect("an entry");
    }
    writer.into_inner().expect("a file")
}

fn read(content: &[u8], needed: &[i32]) -> Result<Manifest, String> {
    let needed = NeededColumns::Ids(needed.iter().copied().collect());
    read::read(content, 1 << 20, INHERITED, needed)
}

#[test]
fn live_files_of_a_manifest_have_all_their_fields() {
    let files = [
        File { region: Some("eu"), day: Some(-1), ..file(1) },
        File { snapshot_id: Some(40), sequence_number: Some(4), ..file(0) },
        file(2),
        File { region: Some("eu"), day: Some(-1), ..file(1) },
    ];
    let manifest = read(&written(&files), &[1, 2]).expect("it is read");
    assert_eq!((manifest.len(), manifest.partitions().len()), (3, 2), "one is deleted");
    let fields: Vec<_> =
        manifest.partition_fields().iter().map(|it| (it.field_id, it.is_date)).collect();
    assert_eq!(fields, [(1000, false), (1001, true), (1002, false)]);
    let number = PartitionValue::Number;
    let eu = PartitionValue::Bytes((*b"eu").into());
    assert_eq!(*manifest.partitions()[0], [eu, number(-1), number(1)]);
    assert_eq!(*manifest.partitions()[1], [PartitionValue::Null, PartitionValue::Null, number(1)]);
    let all: Vec<_> = (0..3).map(|row| manifest.file(row)).collect();
    let paths = [0, 1, 3].map(|number| format!("s3://b/t/data/ü-{number}.parquet"));
    assert_eq!(all.iter().map(|file| file.path()).collect::<Vec<_>>(), paths);
    assert_eq!(all[0].path_parts().0, "s3://b/t/data/");
    assert_eq!(all.iter().map(|file| file.partition()).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(all.iter().map(|file| file.is_added()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(all.iter().map(|file| file.snapshot_id()).collect::<Vec<_>>(), [50, 40, 50]);
    assert_eq!(all.iter().map(|file| file.sequence_number()).collect::<Vec<_>>(), [5, 4, 5]);
    assert_eq!(all[0].format(), "parquet");
    assert_eq!((all[0].record_count(), all[0].size()), (10, 1 << 33));
    assert_eq!(all[1].key_metadata(), Some(&[9][..]));
    assert_eq!((all[0].key_metadata(), all[0].sort_order_id()), (None, Some(0)));
    assert_eq!(all[2].split_offsets().collect::<Vec<_>>(), [4, 3]);
    assert_eq!((all[1].column_size(1), all[1].column_size(2)), (Some(1), Some(-1)));
    assert_eq!((all[2].lower_bound(2), all[2].upper_bound(2)), (Some(&[2, 2][..]), None));
    assert_eq!((all[2].lower_bound(3), all[2].value_count(3)), (None, None), "not needed");
}

#[test]
fn row_ids_are_assigned_in_order_to_live_files_without_one() {
    let with_id = File { first_row_id: Some(7), ..file(1) };
    let files = [file(1), with_id, file(2), file(1)];
    let manifest = read(&written(&files), &[]).expect("it is read");
    let ids: Vec<_> = (0..3).map(|row| manifest.file(row).first_row_id()).collect();
    assert_eq!(ids, [Some(1000), Some(7), Some(1010)]);
}

#[test]
fn columns_are_stored_only_if_they_are_needed() {
    let content = written(&vec![file(1); 100]);
    let none = read(&content, &[]).expect("it is read");
    let some = read(&content, &[1]).expect("it is read");
    let all = read::read(&content, 1 << 20, INHERITED, NeededColumns::All).expect("it is read");
    assert!(none.bytes() < some.bytes() && some.bytes() < all.bytes());
    assert!(all.needed_columns().include(some.needed_columns()));
    assert!(!some.needed_columns().include(all.needed_columns()));
    let ids = |ids: &[i32]| NeededColumns::Ids(BTreeSet::from_iter(ids.iter().copied()));
    assert!(!ids(&[1]).include(&ids(&[1, 2])) && ids(&[1]).union(&ids(&[2])).include(&ids(&[2])));
}

#[test]
fn invalid_manifest_is_rejected() {
    let existing = File { status: 0, ..File::default() };
    for (files, reason) in [
        (vec![existing], "without a sequence number"),
        (vec![file(3)], "unknown status"),
        (vec![File { content: 3, ..file(1) }], "unknown status or content"),
    ] {
        let rejection = read(&written(&files), &[]).expect_err("it is invalid");
        assert!(rejection.contains(reason), "{rejection}");
    }
    let text =
        schema().replace(r#""type":"long","field-id":103"#, r#""type":"string","field-id":103"#);
    assert_ne!(text, schema());
    let mut content = b"Obj\x01".to_vec();
    content.extend([2, 22]);
    content.extend(b"avro.schema");
    let length = text.len() * 2;
    content.extend([
        (length & 0x7f) as u8 | 0x80,
        (length >> 7 & 0x7f) as u8 | 0x80,
        (length >> 14) as u8,
    ]);
    content.extend(text.as_bytes());
    content.push(0);
    content.extend([7; 16]);
    assert_eq!(read(&content, &[]).map(|it| it.len()), Ok(0), "a string may become a number");
    for (content, reason) in [("text", "not an Avro file"), ("PAR1", "is a Parquet file")] {
        let rejection = read(content.as_bytes(), &[]).expect_err("it is invalid");
        assert!(rejection.contains(reason), "{rejection}");
    }
}

#[test]
fn memory_of_a_manifest_is_limited() {
    let content = written(&vec![file(1); 1000]);
    let limited = read::read(&content, 200_000, INHERITED, NeededColumns::All);
    let rejection = limited.expect_err("it takes more");
    assert!(rejection.contains("memory") || rejection.contains("decompresses"), "{rejection}");
}

#[test]
fn damaged_manifest_never_panics() {
    let content = written(&vec![File { region: Some("eu"), ..file(1) }; 20]);
    for at in 0..content.len() {
        let mut damaged = content.clone();
        damaged[at] ^= 0x55;
        let _ = read(&damaged, &[1, 2]);
        let _ = read(&content[..at], &[1, 2]);
    }
}

/// A manifest without compression, whose bytes are the encoded entries.
fn plain_manifest() -> &'static [u8] {
    static MANIFEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let schema = Schema::parse_str(&schema()).expect("a schema");
        let mut writer = Writer::with_codec(&schema, Vec::new(), Codec::Null);
        for number in 0..5 {
            let file = File { region: Some("eu"), day: Some(3), ..file(1) };
            writer.append(entry(number, &file)).expect("an entry");
        }
        writer.into_inner().expect("a file")
    });
    &MANIFEST
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn altered_manifest_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut content = plain_manifest().to_vec();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let manifest = read::read(&content, 1 << 20, INHERITED, NeededColumns::All);
        if let Ok(manifest) = manifest {
            for row in 0..manifest.len() {
                let file = manifest.file(row);
                let _ = (file.path(), file.content(), file.format(), file.partition());
                let _ = (file.split_offsets().count(), file.equality_ids().count());
                let _ = (file.lower_bound(1), file.referenced_data_file(), file.record_count());
            }
        }
        let end = cut.index(content.len());
        let _rejected = read::read(&content[..end], 1 << 20, INHERITED, NeededColumns::All);
    }
}

/// Returns the entries of a manifest, and its header without the codec, read by `apache-avro`.
fn read_by_other(content: &[u8]) -> (Vec<Avro>, Vec<(String, Vec<u8>)>) {
    let reader = apache_avro::Reader::new(content).expect("an Avro file");
    let members = reader.user_metadata().iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut members: Vec<_> = members.collect();
    members.sort();
    (reader.map(|it| it.expect("an entry")).collect(), members)
}

#[test]
fn extracted_manifest_has_the_added_files_as_their_writer_encoded_them() {
    let old = File { snapshot_id: Some(40), sequence_number: Some(4), ..file(0) };
    let own = File { snapshot_id: Some(50), region: Some("eu"), ..file(1) };
    let inherited = File { day: Some(3), ..file(1) };
    let explicit = File { sequence_number: Some(2), ..own.clone() };
    let schema = Schema::parse_str(&schema()).expect("a schema");
    let codecs = [
        Codec::Null,
        Codec::Deflate(DeflateSettings::default()),
        Codec::Snappy,
        Codec::Zstandard(apache_avro::ZstandardSettings::default()),
    ];
    for codec in codecs {
        let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
        for (name, value) in [("format-version", "3"), ("partition-spec-id", "1")] {
            writer.add_user_metadata(name.to_owned(), value).expect("a member");
        }
        let mut expected = Vec::new();
        for number in 0..3000 {
            let kind = [&own, &old, &inherited, &explicit][usize::try_from(number % 4).unwrap()];
            let value = entry(number, kind);
            writer.append(value.clone()).expect("an entry");
            expected.extend((kind.status == 1).then_some(value));
        }
        let merged = writer.into_inner().expect("a file");
        let sync = uuid::Uuid::from_u128(7);
        let extracted = extract::extract(&merged, 1 << 24, 50, sync).expect("it is extracted");
        assert_eq!((extracted.files, extracted.rows), (2250, 22_500));
        assert_eq!(extracted.min_sequence_number, Some(2));
        assert!(extracted.inherits_sequence_number);
        let (values, members) = read_by_other(&extracted.content);
        assert!(values == expected);
        assert_eq!(members, read_by_other(&merged).1);
        let found = read(&extracted.content, &[1]).expect("it is read");
        assert_eq!(found.len(), 2250);
        assert!((0..found.len()).all(|row| found.file(row).is_added()));
    }
}

#[test]
fn manifest_with_files_that_are_not_of_the_append_is_not_extracted() {
    let sync = uuid::Uuid::from_u128(7);
    let own = || File { snapshot_id: Some(50), ..file(1) };
    for (files, is_extracted) in [
        (vec![own(), own()], true),
        (vec![own(), file(2)], false),
        (vec![own(), File { snapshot_id: Some(49), ..file(1) }], false),
        (vec![File { first_row_id: Some(3), ..own() }], false),
        (vec![File { content: 1, ..own() }], false),
        (vec![file(3)], false),
    ] {
        let extracted = extract::extract(&written(&files), 1 << 20, 50, sync);
        assert_eq!(extracted.is_ok(), is_extracted, "{extracted:?}");
    }
    let content = written(&vec![File { region: Some("eu"), ..file(1) }; 20]);
    for at in 0..content.len() {
        let mut damaged = content.clone();
        damaged[at] ^= 0x55;
        let _ = extract::extract(&damaged, 1 << 20, 50, sync);
        let _ = extract::extract(&content[..at], 1 << 20, 50, sync);
    }
    let limited = extract::extract(&content, 100, 50, sync).expect_err("it takes more");
    assert!(limited.contains("decompresses"), "{limited}");
}
