//! Manifests and manifest lists with the relevant fields, as engines write them.

use apache_avro::types::Value as Avro;
use apache_avro::{Codec, DeflateSettings, Schema, Writer};

/// Returns a manifest list with these manifests.
pub fn manifest_list(manifests: &[&str]) -> Vec<u8> {
    let schema = Schema::parse_str(
        r#"{"type":"record","name":"manifest_file","fields":[
            {"name":"manifest_path","type":"string"},
            {"name":"manifest_length","type":"long"}]}"#,
    )
    .expect("a schema");
    let mut writer = Writer::new(&schema, Vec::new());
    for manifest in manifests {
        let entry = Avro::Record(vec![
            ("manifest_path".into(), Avro::String((*manifest).to_owned())),
            ("manifest_length".into(), Avro::Long(1)),
        ]);
        writer.append(entry).expect("an entry");
    }
    writer.into_inner().expect("a file")
}

/// Returns a manifest with these data files.
pub fn manifest(files: &[&str]) -> Vec<u8> {
    manifest_as(files, Codec::Null)
}

/// Returns a manifest with these entries: the status and the location of a data file.
pub fn entries(entries: &[(i32, &str)]) -> Vec<u8> {
    manifest_of(entries, Codec::Null)
}

/// Returns a short manifest that decompresses to more than `bytes` bytes: it has one long name with
/// this prefix.
pub fn decompressing_manifest(beginning: &str, bytes: usize) -> Vec<u8> {
    let name = format!("{beginning}{}", "x".repeat(bytes));
    manifest_as(&[&name], Codec::Deflate(DeflateSettings::default()))
}

fn manifest_as(files: &[&str], codec: Codec) -> Vec<u8> {
    let entries: Vec<_> = files.iter().map(|file| (1, *file)).collect();
    manifest_of(&entries, codec)
}

fn manifest_of(entries: &[(i32, &str)], codec: Codec) -> Vec<u8> {
    let schema = Schema::parse_str(
        r#"{"type":"record","name":"manifest_entry","fields":[
            {"name":"status","type":"int"},
            {"name":"data_file","type":{"type":"record","name":"r2","fields":[
                {"name":"file_path","type":"string"}]}}]}"#,
    )
    .expect("a schema");
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
    for (status, file) in entries {
        let data_file = Avro::Record(vec![("file_path".into(), Avro::String((*file).to_owned()))]);
        let entry = Avro::Record(vec![
            ("status".into(), Avro::Int(*status)),
            ("data_file".into(), data_file),
        ]);
        writer.append(entry).expect("an entry");
    }
    writer.into_inner().expect("a file")
}

/// A manifest of appended files.
#[derive(Debug, Clone)]
pub struct AppendedManifest {
    /// Location of the manifest.
    pub path: String,
    /// The snapshot that added it, and the sequence number of that snapshot.
    pub snapshot: (i64, i64),
    /// Number of rows in its only file.
    pub rows: i64,
    /// First row id, in format version 3.
    pub first_row_id: Option<i64>,
}

/// Returns the manifest list of an append, as clients of this format version write it.
pub fn append_list(format_version: u8, manifests: &[AppendedManifest]) -> Vec<u8> {
    let (string, int, long) = (r#""string""#, r#""int""#, r#""long""#);
    let mut fields = vec![
        ("manifest_path", 500, string),
        ("manifest_length", 501, long),
        ("partition_spec_id", 502, int),
        ("content", 517, int),
        ("sequence_number", 515, long),
        ("min_sequence_number", 516, long),
        ("added_snapshot_id", 503, long),
        ("added_files_count", 504, int),
        ("existing_files_count", 505, int),
        ("deleted_files_count", 506, int),
        ("added_rows_count", 512, long),
        ("existing_rows_count", 513, long),
        ("deleted_rows_count", 514, long),
    ];
    if format_version >= 3 {
        fields.push(("first_row_id", 520, r#"["null","long"]"#));
    }
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, id, kind)| format!(r#"{{"name":"{name}","type":{kind},"field-id":{id}}}"#))
        .collect();
    let schema =
        format!(r#"{{"type":"record","name":"manifest_file","fields":[{}]}}"#, fields.join(","));
    let schema = Schema::parse_str(&schema).expect("a schema");
    let mut writer =
        Writer::with_codec(&schema, Vec::new(), Codec::Deflate(DeflateSettings::default()));
    let version = format_version.to_string();
    writer.add_user_metadata("format-version".to_owned(), version).expect("a member");
    for manifest in manifests {
        let (snapshot_id, sequence_number) = manifest.snapshot;
        let mut entry = vec![
            ("manifest_path", Avro::String(manifest.path.clone())),
            ("manifest_length", Avro::Long(1000)),
            ("partition_spec_id", Avro::Int(0)),
            ("content", Avro::Int(0)),
            ("sequence_number", Avro::Long(sequence_number)),
            ("min_sequence_number", Avro::Long(sequence_number)),
            ("added_snapshot_id", Avro::Long(snapshot_id)),
            ("added_files_count", Avro::Int(1)),
            ("existing_files_count", Avro::Int(0)),
            ("deleted_files_count", Avro::Int(0)),
            ("added_rows_count", Avro::Long(manifest.rows)),
            ("existing_rows_count", Avro::Long(0)),
            ("deleted_rows_count", Avro::Long(0)),
        ];
        if format_version >= 3 {
            let id = match manifest.first_row_id {
                Some(id) => Avro::Union(1, Box::new(Avro::Long(id))),
                None => Avro::Union(0, Box::new(Avro::Null)),
            };
            entry.push(("first_row_id", id));
        }
        let entry = entry.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        writer.append(Avro::Record(entry)).expect("an entry");
    }
    writer.into_inner().expect("a file")
}
