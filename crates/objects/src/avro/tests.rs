//! Tests with files of engines, and with malformed files.

use std::io::Write;

use apache_avro::types::Value as Avro;
use apache_avro::{
    Codec as Written, DeflateSettings, Schema as Writing, Writer, ZstandardSettings,
};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;

use super::walk::{LeafValue, entries};
use super::*;

/// A record with all types that manifests use, and more.
const MUCH: &str = r#"{"type":"record","name":"entry","namespace":"n","fields":[
    {"name":"status","type":"int"},
    {"name":"snapshot","type":["null","long"],"default":null},
    {"name":"flag","type":"boolean"},
    {"name":"ratio","type":"double"},
    {"name":"day","type":{"type":"int","logicalType":"date"}},
    {"name":"file","type":{"type":"record","name":"r2","fields":[
        {"name":"path","type":"string"},
        {"name":"kind","type":{"type":"enum","name":"k","symbols":["A","B"]}},
        {"name":"mark","type":{"type":"fixed","name":"f4","size":4}},
        {"name":"sizes","type":["null",{"type":"array","items":{
            "type":"record","name":"kv","fields":[
                {"name":"key","type":"int"},{"name":"value","type":"long"}]}}]},
        {"name":"bounds","type":{"type":"map","values":"bytes"}}]}},
    {"name":"last","type":"long"}]}"#;

/// Parts of an entry that the tests read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    path: Option<Vec<u8>>,
    numbers: Vec<(String, i64)>,
}

fn read(content: &[u8], bytes_max: u64) -> Result<Vec<Seen>, String> {
    let mut all = Vec::new();
    let see = |seen: &mut Seen, path: &[&str], leaf: LeafValue<'_>| match (path, leaf) {
        (["file", "path"], LeafValue::Text(text)) => seen.path = Some(text.to_vec()),
        ([name], LeafValue::Number(number)) => seen.numbers.push(((*name).to_owned(), number)),
        _ => {}
    };
    entries(content, bytes_max, see, |seen| {
        all.push(seen);
        Ok(())
    })?;
    Ok(all)
}

fn record(fields: Vec<(&str, Avro)>) -> Avro {
    Avro::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn much(number: i64) -> Avro {
    let size = |key, value| record(vec![("key", Avro::Int(key)), ("value", Avro::Long(value))]);
    let sizes = Avro::Array(vec![size(1, i64::MAX), size(-1, i64::MIN)]);
    let bounds =
        [("a".to_owned(), Avro::Bytes(vec![0, 255])), ("b".to_owned(), Avro::Bytes(vec![]))];
    let file = record(vec![
        ("path", Avro::String(format!("s3://b/ü/{number}"))),
        ("kind", Avro::Enum(1, "B".to_owned())),
        ("mark", Avro::Fixed(4, vec![1, 2, 3, 4])),
        ("sizes", Avro::Union(1, Box::new(sizes))),
        ("bounds", Avro::Map(bounds.into())),
    ]);
    record(vec![
        ("status", Avro::Int(2)),
        ("snapshot", Avro::Union(1, Box::new(Avro::Long(number)))),
        ("flag", Avro::Boolean(true)),
        ("ratio", Avro::Double(0.5)),
        ("day", Avro::Date(-1)),
        ("file", file),
        ("last", Avro::Long(i64::MIN)),
    ])
}

/// Builds a file with this schema and blocks, each with its count of entries.
fn written(schema: &str, codec: &str, blocks: &[(i64, &[u8])]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    long(&mut file, 2);
    for (key, value) in [("avro.schema", schema), ("avro.codec", codec)] {
        for part in [key, value] {
            long(&mut file, part.len() as i64);
            file.extend(part.as_bytes());
        }
    }
    long(&mut file, 0);
    file.extend([7; SYNC_BYTES]);
    for (count, block) in blocks {
        long(&mut file, *count);
        long(&mut file, block.len() as i64);
        file.extend(*block);
        file.extend([7; SYNC_BYTES]);
    }
    file
}

fn long(file: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        file.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    file.push(rest as u8);
}

fn rejection(content: &[u8], bytes_max: u64) -> String {
    read(content, bytes_max).expect_err("it is refused")
}

#[test]
fn manifests_of_engines_are_read_with_every_compression() {
    let schema = Writing::parse_str(MUCH).expect("a schema");
    for codec in [
        Written::Null,
        Written::Deflate(DeflateSettings::default()),
        Written::Snappy,
        Written::Zstandard(ZstandardSettings::default()),
    ] {
        let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
        for number in 0..1000 {
            writer.append(much(number)).expect("an entry");
            if number % 300 == 0 {
                writer.flush().expect("a block");
            }
        }
        let file = writer.into_inner().expect("a file");
        let seen = read(&file, 1 << 20).expect("it is read");
        assert_eq!(seen.len(), 1000, "{codec:?}");
        for (number, seen) in (0..).zip(seen) {
            assert_eq!(seen.path, Some(format!("s3://b/ü/{number}").into_bytes()));
            let numbers = [("status", 2), ("snapshot", number), ("day", -1), ("last", i64::MIN)];
            assert_eq!(seen.numbers, numbers.map(|(name, it)| (name.to_owned(), it)));
        }
        assert!(
            rejection(&file, 1000).contains("decompresses to more than 1000 bytes"),
            "{codec:?}"
        );
        for end in (0..file.len()).step_by(997) {
            // The file ends after a block, or within one.
            let _ = read(&file[..end], 1 << 20);
        }
        for at in (0..file.len()).step_by(101) {
            let mut broken = file.clone();
            broken[at] ^= 0x55;
            let _ = read(&broken, 1 << 20);
        }
    }
}

#[test]
fn block_decompresses_within_its_limit() {
    let zeros = vec![0; 1 << 20];
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&zeros).expect("it is written");
    let deflated = encoder.finish().expect("it is written");
    let zstandard = zstd::encode_all(zeros.as_slice(), 1).expect("it is written");
    // The stated length is 4 GiB, without content.
    let snappy = [255, 255, 255, 255, 15, 0, 0, 0, 0];
    for (codec, block) in
        [("deflate", &deflated[..]), ("zstandard", &zstandard), ("snappy", &snappy)]
    {
        assert!(block.len() < 100_000, "{codec} is short");
        let file = written(r#""int""#, codec, &[(1, block)]);
        assert!(rejection(&file, 1 << 16).contains("decompresses to more than"), "{codec}");
        let several = written(r#""int""#, codec, &[(1 << 20, block), (1 << 20, block)]);
        assert!(read(&several, 3 << 19).is_err(), "{codec}: together they are too long");
    }
    let file = written(r#""int""#, "deflate", &[(1 << 20, &deflated)]);
    assert_eq!(read(&file, 1 << 20).map(|seen| seen.len()), Ok(1 << 20), "this length is allowed");
    assert!(read(&written(r#""int""#, "snappy", &[(1, &[1, 2, 3])]), 100).is_err());
    assert!(rejection(&written(r#""int""#, "lzma", &[]), 100).contains("unknown compression"));
}

#[test]
fn counts_and_lengths_are_not_trusted() {
    let max = i64::MAX;
    let huge = |numbers: &[i64]| {
        let mut block = Vec::new();
        numbers.iter().for_each(|number| long(&mut block, *number));
        block
    };
    let array = |items: &str| format!(r#"{{"type":"array","items":{items}}}"#);
    let nulls_in_nulls = array(&array(r#""null""#));
    for (schema, block) in [
        (r#""string""#, huge(&[max])),
        (r#""string""#, huge(&[-1])),
        (r#"{"type":"fixed","name":"f","size":9223372036854775807}"#, vec![0]),
        (&array(r#""int""#), huge(&[max])),
        (&array(r#""null""#), huge(&[max, 0])),
        (&array(r#""null""#), huge(&[i64::MIN, 0, 0])),
        (&nulls_in_nulls, huge(&[2, 1 << 40, 0, 1 << 40, 0, 0])),
        (r#"{"type":"map","values":"null"}"#, huge(&[max])),
        (r#"["null"]"#, huge(&[1])),
        (r#"["null"]"#, huge(&[-1])),
        (r#""int""#, vec![0xff; 20]),
        (r#""int""#, huge(&[1, 2])),
    ] {
        let file = written(schema, "null", &[(1, &block)]);
        assert!(read(&file, 1 << 10).is_err(), "{schema}: {block:?}");
    }
    for count in [max, -1] {
        assert!(read(&written(r#""null""#, "null", &[(count, &[])]), 1 << 10).is_err(), "{count}");
    }
    let nothing = written(r#""null""#, "null", &vec![(0, &[][..]); 10_000]);
    assert!(read(&nothing, 1 << 10).is_err(), "blocks count, too");
}

#[test]
fn recursive_and_empty_records_end() {
    let itself = r#"{"type":"record","name":"r","fields":[{"name":"r","type":["null","r"]}]}"#;
    let deep = written(itself, "null", &[(1, &[2; 1 << 20])]);
    assert!(rejection(&deep, 1 << 20).contains("deep"));
    let bare = r#"{"type":"record","name":"r","fields":[{"name":"r","type":"r"}]}"#;
    assert!(rejection(&written(bare, "null", &[(1, &[])]), 1 << 20).contains("deep"));
    // Each record contains the previous one twice: 2 to the power of 40 values without bytes.
    let mut doubled = r#""null""#.to_owned();
    for level in 0..40 {
        doubled = format!(
            r#"{{"type":"record","name":"r{level}","fields":[
                {{"name":"a","type":{doubled}}},{{"name":"b","type":"{}"}}]}}"#,
            if level == 0 { "null".to_owned() } else { format!("r{}", level - 1) }
        );
    }
    let rejection = rejection(&written(&doubled, "null", &[(1, &[])]), 1 << 20);
    assert_eq!(rejection, TOO_MANY);
}

#[test]
fn invalid_avro_file_is_rejected() {
    let good = written(r#""int""#, "null", &[(1, &[0])]);
    assert_eq!(read(&good, 1 << 10).map(|seen| seen.len()), Ok(1));
    let mut unmarked = good.clone();
    *unmarked.last_mut().expect("it is long") = 0;
    assert!(rejection(&unmarked, 1 << 10).contains("mark"));
    for bad in [&b""[..], b"PAR1", MAGIC, &good[..20], &good[..good.len() - 1]] {
        assert!(read(bad, 1 << 10).is_err(), "{bad:?}");
    }
    let long_schema = format!(r#"{{"type":"int","doc":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
    assert!(rejection(&written(&long_schema, "null", &[]), 1 << 10).contains("a schema of"));
}

/// An entry with a value of the type `fixed` between two numbers.
const WITH_FIXED: &str = r#"{"type":"record","name":"entry","fields":[
    {"name":"first","type":"long","field-id":1},
    {"name":"mark","type":["null",{"type":"fixed","name":"f","size":3}],"field-id":2},
    {"name":"last","type":"long","field-id":3}]}"#;

/// Encodes entries of [`WITH_FIXED`], each with the bytes of its mark.
fn marked(marks: &[Option<&[u8]>]) -> Vec<u8> {
    let mut block = Vec::new();
    for (number, mark) in (7..).zip(marks) {
        long(&mut block, number);
        long(&mut block, i64::from(mark.is_some()));
        block.extend(mark.unwrap_or_default());
        long(&mut block, -number);
    }
    block
}

/// Collects the numbers and marks of entries.
#[derive(Default)]
struct Marks(Vec<(i64, Vec<u8>)>);

impl program::Sink for Marks {
    fn number(&mut self, slot: program::Slot, value: i64) -> Result<(), String> {
        self.0.push((i64::from(slot), value.to_string().into_bytes()));
        Ok(())
    }

    fn text(&mut self, slot: program::Slot, value: &[u8]) -> Result<(), String> {
        self.0.push((i64::from(slot), value.to_vec()));
        Ok(())
    }

    fn end_entry(&mut self, _encoded: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn fixed_values_are_read_with_and_without_their_length() {
    let plain = marked(&[Some(b"abc"), None, Some(b"xyz")]);
    let with_length = marked(&[Some(b"\x06abc"), None, Some(b"\x06xyz")]);
    let nulls = marked(&[None, None]);
    let wanted = |path: &[program::FieldInfo]| {
        program::Wanted::Value(program::Slot::try_from(path[0].id).expect("a small id"))
    };
    for block in [&plain, &with_length] {
        let file = written(WITH_FIXED, "null", &[(2, &nulls), (3, block)]);
        let mut found = Marks::default();
        program::read(&file, 1 << 10, wanted, &mut found).expect("a valid file");
        let texts = found.0.iter().filter(|(slot, _)| *slot == 2).map(|(_, text)| &text[..]);
        assert_eq!(texts.collect::<Vec<_>>(), [b"abc", b"xyz"]);
        let last = found.0.iter().filter(|(slot, _)| *slot == 3).map(|(_, text)| &text[..]);
        assert_eq!(last.collect::<Vec<_>>(), [&b"-7"[..], b"-8", b"-7", b"-8", b"-9"]);
        let seen = read(&file, 1 << 10).expect("a valid file");
        assert_eq!(seen[4].numbers, [("first".to_owned(), 9), ("last".to_owned(), -9)]);
        let entries = split::SplitEntries::of(&file, 1 << 10, 0).expect("a valid file");
        assert!(entries.has_ambiguous_encoding());
        let mut pieces = Vec::new();
        let each = entries.each(|entry| {
            pieces.push(entry.concat());
            Ok(())
        });
        assert_eq!(each, Ok(()));
        assert_eq!(pieces.concat(), [&nulls[..], block].concat());
    }
}

#[test]
fn fixed_value_with_another_length_is_rejected() {
    let other_length = marked(&[Some(b"\x06abc"), Some(b"\x04xyz")]);
    let mixed = marked(&[Some(b"\x06abc"), Some(b"xyz")]);
    for block in [other_length, mixed] {
        let file = written(WITH_FIXED, "null", &[(2, &block)]);
        assert!(read(&file, 1 << 10).is_err(), "{block:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn altered_file_with_fixed_values_never_panics(
        has_length in any::<bool>(),
        count in 0_i64..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mark: &[u8] = if has_length { b"\x06abc" } else { b"abc" };
        let mut content = written(WITH_FIXED, "null", &[(count, &marked(&[Some(mark), None, Some(mark)]))]);
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let _ = read(&content, 1 << 10);
    }
}
