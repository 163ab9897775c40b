//! Renders the files of a scan. A response can contain more than ten thousand files, so their JSON
//! is written directly, without a tree of values.
//!
//! Clients require more than the specification: bounds are the hexadecimal form of the binary
//! values, each file has a residual filter, delete files are present only if a data file
//! references them, and optional members are absent instead of empty.

use std::collections::HashMap;

use serde::Serialize;

use slateberg_base::background::give_way;
use slateberg_catalog::planning::{PlannedFiles, PlannedManifest};
use slateberg_model::scan::FileStatistics;
use slateberg_objects::manifest::{FileContent, ManifestEntry};

/// Number of files after which the size of a response is estimated.
const SAMPLE_FILES: usize = 16;

/// Number of files that are rendered before other threads may run.
const FILES_AT_ONCE: usize = 500;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// A JSON object to which members are added one after the other.
pub struct Members {
    json: Vec<u8>,
    is_empty: bool,
}

impl Members {
    /// Begins an object.
    pub fn begin() -> Self {
        Self { json: b"{".to_vec(), is_empty: true }
    }

    /// Adds a member.
    pub fn add(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        let json = self.name(name);
        serde_json::to_writer(json, value).expect("text is JSON");
    }

    /// Adds a member whose value is this JSON.
    pub fn add_json(&mut self, name: &str, value: &[u8]) {
        self.name(name).extend_from_slice(value);
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.json.push(b',');
        }
        self.is_empty = false;
        self.json.push(b'"');
        self.json.extend_from_slice(name.as_bytes());
        self.json.extend_from_slice(b"\":");
        &mut self.json
    }

    /// Ends the object.
    pub fn finish(mut self) -> Vec<u8> {
        self.json.push(b'}');
        self.json
    }
}

/// Adds the members with the files of a plan or plan task.
pub fn add_files(members: &mut Members, files: &PlannedFiles) {
    let mut deletes = References::default();
    let mut head = Head::default();
    let out = members.name("file-scan-tasks");
    out.push(b'[');
    let start = out.len();
    for (number, (task, manifest, file)) in files.tasks().enumerate() {
        if number == SAMPLE_FILES {
            let rest = files.len() - number;
            // A response that grows piece by piece would be copied several times.
            out.reserve((out.len() - start) / number * rest * 9 / 8);
        }
        if number % FILES_AT_ONCE == 0 {
            give_way();
        }
        if number > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"data-file\":");
        write_file(out, &mut head, (manifest, file), &files.statistics);
        if !task.deletes.is_empty() {
            out.extend_from_slice(b",\"delete-file-references\":");
            write_list(out, task.deletes.iter().map(|delete| deletes.reference(*delete)));
        }
        out.extend_from_slice(b",\"residual-filter\":");
        out.extend_from_slice(task.residual.as_bytes());
        out.push(b'}');
    }
    out.push(b']');
    if deletes.all.is_empty() {
        return;
    }
    let mut head = Head::default();
    let out = members.name("delete-files");
    out.push(b'[');
    let start = out.len();
    for found in deletes.all.iter().filter_map(|delete| files.deletes.file(*delete)) {
        if out.len() > start {
            out.push(b',');
        }
        write_file(out, &mut head, found, &[]);
    }
    out.push(b']');
}

/// The first members of a file, which are often those of the file before it.
#[derive(Default)]
struct Head<'a> {
    of: Option<(&'a PlannedManifest, usize, FileContent)>,
    json: Vec<u8>,
}

impl<'a> Head<'a> {
    /// Writes the first members of a file, and the prefix of its path.
    fn write(&mut self, out: &mut Vec<u8>, manifest: &'a PlannedManifest, file: ManifestEntry<'a>) {
        let is_of = |(of, partition, content): (&PlannedManifest, usize, FileContent)| {
            std::ptr::eq(of, manifest) && (partition, content) == (file.partition(), file.content())
        };
        if !self.of.is_some_and(is_of) {
            self.of = Some((manifest, file.partition(), file.content()));
            self.json.clear();
            write_head(&mut self.json, manifest, file);
        }
        out.extend_from_slice(&self.json);
    }
}

fn write_head(out: &mut Vec<u8>, manifest: &PlannedManifest, file: ManifestEntry<'_>) {
    let content = match file.content() {
        FileContent::Data => "data",
        FileContent::PositionDeletes => "position-deletes",
        FileContent::EqualityDeletes => "equality-deletes",
    };
    out.extend_from_slice(b"{\"spec-id\":");
    write_number(out, manifest.spec().spec_id.into());
    out.extend_from_slice(b",\"partition\":");
    manifest.spec().write_json(manifest.partition(file), out);
    out.extend_from_slice(b",\"content\":\"");
    out.extend_from_slice(content.as_bytes());
    out.extend_from_slice(b"\",\"file-path\":\"");
    write_escaped(out, file.path_parts().0);
}

/// The delete files of a response, in the order of their first references.
#[derive(Default)]
struct References {
    positions: HashMap<u32, usize>,
    all: Vec<u32>,
}

impl References {
    /// Returns the position of a delete file in the response.
    fn reference(&mut self, delete: u32) -> usize {
        *self.positions.entry(delete).or_insert_with(|| {
            self.all.push(delete);
            self.all.len() - 1
        })
    }
}

/// Writes a data or delete file.
fn write_file<'a>(
    out: &mut Vec<u8>,
    head: &mut Head<'a>,
    (manifest, file): (&'a PlannedManifest, ManifestEntry<'a>),
    statistics: &[i32],
) {
    head.write(out, manifest, file);
    write_escaped(out, file.path_parts().1);
    out.push(b'"');
    out.extend_from_slice(b",\"file-format\":");
    write_string(out, file.format());
    out.extend_from_slice(b",\"file-size-in-bytes\":");
    write_number(out, file.size());
    out.extend_from_slice(b",\"record-count\":");
    write_number(out, file.record_count());
    write_optional_parts(out, file);
    if !statistics.is_empty() {
        write_statistics(out, file, statistics);
    }
    out.push(b'}');
}

/// Writes the optional members of a file, without statistics.
fn write_optional_parts(out: &mut Vec<u8>, file: ManifestEntry<'_>) {
    if let Some(key) = file.key_metadata() {
        out.extend_from_slice(b",\"key-metadata\":");
        write_hex(out, key);
    }
    write_items(out, b",\"split-offsets\":", file.split_offsets());
    write_items(out, b",\"equality-ids\":", file.equality_ids().map(i64::from));
    let numbers: [(&[u8], Option<i64>); 4] = [
        (b",\"sort-order-id\":", file.sort_order_id()),
        (b",\"first-row-id\":", file.first_row_id()),
        (b",\"content-offset\":", file.content_offset()),
        (b",\"content-size-in-bytes\":", file.content_size()),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            out.extend_from_slice(name);
            write_number(out, number);
        }
    }
    if let Some(data_file) = file.referenced_data_file() {
        out.extend_from_slice(b",\"referenced-data-file\":");
        write_string(out, data_file);
    }
}

/// Writes the statistics of these columns, if there are any.
fn write_statistics(out: &mut Vec<u8>, file: ManifestEntry<'_>, columns: &[i32]) {
    type Count = fn(&ManifestEntry<'_>, i32) -> Option<i64>;
    let counts: [(&str, Count); 4] = [
        ("column-sizes", |file, id| file.column_size(id)),
        ("value-counts", |file, id| file.value_count(id)),
        ("null-value-counts", |file, id| file.null_count(id)),
        ("nan-value-counts", |file, id| file.nan_count(id)),
    ];
    for (name, count) in counts {
        let found = columns.iter().filter_map(|id| Some((*id, count(&file, *id)?)));
        write_map(out, name, found.collect(), write_number);
    }
    let lower = columns.iter().filter_map(|id| Some((*id, file.lower_bound(*id)?)));
    write_map(out, "lower-bounds", lower.collect(), write_hex);
    let upper = columns.iter().filter_map(|id| Some((*id, file.upper_bound(*id)?)));
    write_map(out, "upper-bounds", upper.collect(), write_hex);
}

/// Writes a map from column ids to values as two lists. Writes nothing if the map is empty.
fn write_map<T: Copy>(
    out: &mut Vec<u8>,
    name: &str,
    pairs: Vec<(i32, T)>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    if pairs.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":{\"keys\":");
    write_list(out, pairs.iter().map(|(id, _)| *id));
    out.extend_from_slice(b",\"values\":[");
    for (position, (_, value)) in pairs.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(out, value);
    }
    out.extend_from_slice(b"]}");
}

fn write_number(out: &mut Vec<u8>, number: i64) {
    serde_json::to_writer(out, &number).expect("a number is JSON");
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Writes a part of a string.
fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let start = out.len();
    serde_json::to_writer(&mut *out, text).expect("text is JSON");
    out.pop();
    out.remove(start);
}

/// Writes a member with these items, if there are any.
fn write_items(out: &mut Vec<u8>, name: &[u8], items: impl Iterator<Item = i64>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        out.extend_from_slice(name);
        write_list(out, items);
    }
}

fn write_list<T: Serialize>(out: &mut Vec<u8>, items: impl Iterator<Item = T>) {
    out.push(b'[');
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, &item).expect("a number is JSON");
    }
    out.push(b']');
}

fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
    out.push(b'"');
}
