//! Tests of manifest lists. The crate `apache-avro` is the independent reader and writer.

use std::os::unix::fs::MetadataExt;

use apache_avro::types::Value as Avro;
use proptest::prelude::*;

use super::parse::parse;
use super::*;
use crate::location::Location;
use crate::open::open_url;
use crate::warehouse_files::Root;
use slateberg_model::manifest_file::{FieldSummary, ManifestFile};

const SYNC: Uuid = Uuid::from_u128(0x5eed);
const BYTES_MAX: u64 = 1 << 30;

fn header(format_version: u8) -> ListHeader {
    ListHeader {
        format_version,
        snapshot_id: 7,
        parent_snapshot_id: None,
        sequence_number: 3,
        first_row_id: (format_version >= 3).then_some(100),
    }
}

fn entry(number: i64) -> ManifestFile {
    ManifestFile {
        path: format!("s3://b/t/metadata/{number}-m0.avro"),
        length: 4000 + number,
        spec_id: 1,
        content: i32::from(number.rem_euclid(5) == 4),
        sequence_number: number,
        min_sequence_number: number - 1,
        added_snapshot_id: (1 << 60) - number,
        added_files_count: Some(3),
        existing_files_count: Some(2),
        deleted_files_count: Some(1),
        added_rows_count: Some(30),
        existing_rows_count: Some(20),
        deleted_rows_count: Some(10),
        partitions: (number.rem_euclid(3) > 0).then(|| {
            vec![
                FieldSummary {
                    contains_null: number % 2 == 0,
                    contains_nan: Some(false),
                    lower_bound: Some(Bytes::from_static(b"\0a")),
                    upper_bound: None,
                };
                usize::try_from(number.rem_euclid(3) - 1).expect("positive")
            ]
        }),
        key_metadata: (number % 7 == 0).then(|| Bytes::from_static(b"key")),
        first_row_id: None,
    }
}

fn entries(numbers: impl Iterator<Item = i64>) -> Vec<ManifestFile> {
    numbers.map(entry).collect()
}

#[tokio::test]
async fn list_of_an_earlier_attempt_on_a_local_disk_is_written_again() {
    let directory = tempfile::tempdir().expect("there is room");
    let url = format!("file://{}", directory.path().display());
    let opened = open_url(&url, &Default::default()).expect("it opens");
    let location = Location::parse(&url).expect("it is a location");
    let root = Root { location, object_store: opened.object_store, vendor: None };
    let objects = Objects::new([(Uuid::nil(), vec![root])]);
    let path = format!("{url}/snap-1.avro");
    let attempt = async |content: &'static str| {
        create(&objects, Uuid::nil(), &path, &Bytes::from(content)).await?;
        let file = std::fs::metadata(directory.path().join("snap-1.avro"));
        Ok::<_, Error>(file.expect("it exists").ino())
    };
    let first = attempt("list").await.expect("the name is free");
    let again = attempt("list").await.expect("the content is the same");
    assert_ne!(first, again, "a new file");
    assert!(matches!(attempt("other").await, Err(Error::Taken(_))));
}

#[test]
fn lists_survive_a_round_trip() {
    for format_version in [2, 3] {
        let mut all = entries(0..1000);
        if format_version == 3 {
            all.iter_mut().for_each(|it| it.first_row_id = Some(it.length));
        }
        let file =
            ListBlocks::new(format_version, SYNC, all.clone()).to_file(&header(format_version));
        let parsed = parse(&file, BYTES_MAX).expect("it is parsed");
        assert_eq!(parsed.format_version, Some(i32::from(format_version)));
        assert!(parsed.entries == all);
    }
}

#[test]
fn entries_in_front_keep_the_order_and_share_blocks() {
    let mut blocks = ListBlocks::new(2, SYNC, entries(-300..0));
    let mut expected = entries(-300..0);
    for number in 0..600 {
        blocks = blocks.prepend(vec![entry(number)]);
        expected.insert(0, entry(number));
        if [0, 14, 15, 16, 254, 255, 256, 599].contains(&number) {
            let parsed = parse(&blocks.to_file(&header(2)), BYTES_MAX).expect("it is parsed");
            assert!(parsed.entries == expected, "{number}");
            assert!(blocks.entries().eq(&expected), "{number}");
        }
        assert_eq!(blocks.len(), expected.len());
        assert!(blocks.count() <= 2 + 2 * 15 + 4, "{} blocks", blocks.count());
    }
}

#[test]
fn list_without_some_manifests_shares_all_other_blocks() {
    let mut blocks = ListBlocks::new(2, SYNC, entries(-600..0));
    for number in 0..20 {
        blocks = blocks.prepend(vec![entry(number)]);
    }
    for removed in
        [vec![], vec![-600], vec![19, 3, -1], (-600..-344).collect(), (-600..20).collect()]
    {
        let paths: Vec<_> = removed.iter().map(|number| entry(*number).path).collect();
        let without = blocks.without(&paths.iter().map(String::as_str).collect());
        let expected: Vec<_> =
            blocks.entries().filter(|it| !paths.contains(&it.path)).cloned().collect();
        assert_eq!(without.len(), expected.len());
        assert!(without.entries().eq(&expected));
        let parsed = parse(&without.to_file(&header(2)), BYTES_MAX).expect("it is parsed");
        assert!(parsed.entries == expected);
        let again = without.prepend(vec![entry(99)]);
        assert_eq!((again.len(), again.count() > 0), (expected.len() + 1, true));
    }
}

#[test]
fn other_reader_reads_the_lists() {
    for format_version in [2, 3] {
        let blocks = ListBlocks::new(format_version, SYNC, entries(0..20));
        let file = blocks.prepend(entries(20..22)).to_file(&header(format_version));
        let reader = apache_avro::Reader::new(&file[..]).expect("an Avro file");
        let members = reader.user_metadata().clone();
        let member =
            |name: &str| members.get(name).map(|it| String::from_utf8_lossy(it).into_owned());
        assert_eq!(member("snapshot-id").as_deref(), Some("7"));
        assert_eq!(member("parent-snapshot-id").as_deref(), Some("null"));
        assert_eq!(member("sequence-number").as_deref(), Some("3"));
        let first_row_id = (format_version == 3).then_some("100");
        assert_eq!(member("first-row-id").as_deref(), first_row_id);
        let values: Vec<_> = reader.map(|it| it.expect("an entry")).collect();
        assert_eq!(values.len(), 22);
        let Avro::Record(fields) = &values[0] else { panic!("no record: {:?}", values[0]) };
        let field = |name: &str| fields.iter().find(|it| it.0 == name).map(|it| it.1.clone());
        assert_eq!(field("manifest_path"), Some(Avro::String(entry(20).path)));
        assert_eq!(field("added_snapshot_id"), Some(Avro::Long((1 << 60) - 20)));
        let null = Avro::Union(0, Box::new(Avro::Null));
        assert_eq!(field("first_row_id"), (format_version == 3).then_some(null));
    }
}

/// Returns a list with these fields, each with its type and value, written by `apache-avro`.
fn written(fields: &[(&str, &str, Avro)], codec: apache_avro::Codec) -> Vec<u8> {
    let schema: Vec<_> = fields
        .iter()
        .map(|(name, kind, _)| format!(r#"{{"name":"{name}","type":{kind}}}"#))
        .collect();
    let schema =
        format!(r#"{{"type":"record","name":"manifest_file","fields":[{}]}}"#, schema.join(","));
    let schema = apache_avro::Schema::parse_str(&schema).expect("a schema");
    let mut writer = apache_avro::Writer::with_codec(&schema, Vec::new(), codec);
    let value = fields.iter().map(|(name, _, value)| ((*name).to_owned(), value.clone())).collect();
    writer.append(Avro::Record(value)).expect("an entry");
    writer.into_inner().expect("a file")
}

fn required() -> Vec<(&'static str, &'static str, Avro)> {
    vec![
        ("manifest_path", r#""string""#, Avro::String("m".to_owned())),
        ("extra", r#"["null","string"]"#, Avro::Union(1, Box::new(Avro::String("x".to_owned())))),
        ("manifest_length", r#""long""#, Avro::Long(5)),
        ("partition_spec_id", r#""int""#, Avro::Int(6)),
        ("added_snapshot_id", r#"["long","null"]"#, Avro::Union(0, Box::new(Avro::Long(9)))),
        ("added_data_files_count", r#""int""#, Avro::Int(2)),
    ]
}

#[test]
fn lists_of_other_writers_are_parsed() {
    use apache_avro::{Codec, DeflateSettings, ZstandardSettings};
    for codec in [
        Codec::Null,
        Codec::Deflate(DeflateSettings::default()),
        Codec::Snappy,
        Codec::Zstandard(ZstandardSettings::default()),
    ] {
        let list = parse(&written(&required(), codec), BYTES_MAX).expect("it is parsed");
        assert_eq!(list.format_version, None);
        let [entry] = &list.entries[..] else { panic!("one entry") };
        let found = (entry.path.as_str(), entry.length, entry.spec_id, entry.added_snapshot_id);
        assert_eq!(found, ("m", 5, 6, 9));
        assert_eq!((entry.added_files_count, entry.existing_files_count), (Some(2), None));
    }
}

#[test]
fn lists_with_missing_or_invalid_values_are_rejected() {
    for name in ["manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id"] {
        let fields: Vec<_> = required().into_iter().filter(|it| it.0 != name).collect();
        let rejected = parse(&written(&fields, apache_avro::Codec::Null), BYTES_MAX);
        assert_eq!(rejected, Err(format!("has an entry without {name}")));
    }
    let mut fields = required();
    fields[3] = ("partition_spec_id", r#""long""#, Avro::Long(1 << 40));
    let rejected = parse(&written(&fields, apache_avro::Codec::Null), BYTES_MAX);
    assert_eq!(rejected, Err("has a number that is too large".to_owned()));
    let file = ListBlocks::new(2, SYNC, entries(0..100)).to_file(&header(2));
    let rejected = parse(&file, 20_000);
    assert_eq!(rejected, Err("has too many entries (catalog.file_bytes_max)".to_owned()));
}

#[test]
fn truncated_list_is_rejected() {
    let blocks = ListBlocks::new(3, SYNC, entries(0..5)).prepend(entries(5..6));
    let file = blocks.to_file(&header(3));
    let mut whole = 0;
    for end in 0..file.len() {
        // A list that ends after a block is a valid Avro file.
        whole += usize::from(parse(&file[..end], BYTES_MAX).is_ok());
    }
    assert_eq!(whole, 2, "after the header, and after the first block");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn altered_list_never_panics(at in 0_usize..3000, byte in any::<u8>(), cut in 0_usize..3000) {
        let mut file = ListBlocks::new(3, SYNC, entries(0..30)).to_file(&header(3)).to_vec();
        let (len, cut) = (file.len(), cut % file.len());
        file[at % len] = byte;
        let _parsed = parse(&file, BYTES_MAX);
        let _parsed = parse(&file[cut..], BYTES_MAX);
    }
}
