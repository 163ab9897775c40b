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

/// Returns a short manifest that decompresses to more than `bytes` bytes: it has one long name with
/// this prefix.
pub fn decompressing_manifest(beginning: &str, bytes: usize) -> Vec<u8> {
    let name = format!("{beginning}{}", "x".repeat(bytes));
    manifest_as(&[&name], Codec::Deflate(DeflateSettings::default()))
}

fn manifest_as(files: &[&str], codec: Codec) -> Vec<u8> {
    let schema = Schema::parse_str(
        r#"{"type":"record","name":"manifest_entry","fields":[
            {"name":"status","type":"int"},
            {"name":"data_file","type":{"type":"record","name":"r2","fields":[
                {"name":"file_path","type":"string"}]}}]}"#,
    )
    .expect("a schema");
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
    for file in files {
        let data_file = Avro::Record(vec![("file_path".into(), Avro::String((*file).to_owned()))]);
        let entry =
            Avro::Record(vec![("status".into(), Avro::Int(1)), ("data_file".into(), data_file)]);
        writer.append(entry).expect("an entry");
    }
    writer.into_inner().expect("a file")
}
