//! Extraction: writes the files that one snapshot added to a manifest of their own.
//!
//! A client that merges manifests writes its added files into the same manifest as older files. If
//! the older manifests were replaced by another commit, only the added files are still needed.

use bytes::Bytes;
use uuid::Uuid;

use super::super::avro::program::{self, FieldInfo, Sink, Slot, Wanted, unexpected};
use super::super::avro::{self, encode};
use super::super::content::Content;
use super::super::error::Error;
use super::field_ids as id;

/// Size of a block before compression, in bytes. It is that of Java's writer.
const BLOCK_BYTES: usize = 64_000;

const EXISTING: i64 = 0;
const ADDED: i64 = 1;

/// A new manifest with the files that a snapshot added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedManifest {
    /// The content of the new file.
    pub content: Bytes,
    /// Number of its files.
    pub files: i32,
    /// Number of rows in these files.
    pub rows: i64,
    /// Smallest explicit data sequence number of its files, if any file has one. All other files
    /// inherit the sequence number of the manifest.
    pub min_sequence_number: Option<i64>,
    /// Whether any of its files inherits the sequence number.
    pub inherits_sequence_number: bool,
}

impl ExtractedManifest {
    /// Returns a manifest with those files of `file` that the snapshot `snapshot_id` added. The
    /// entries, the schema and all other members of the header remain as their writer encoded them.
    /// `sync` is the marker between the blocks of the new file.
    ///
    /// # Errors
    /// Fails if the file is not a manifest, if it contains entries other than added files of this
    /// snapshot and existing files, or if an added file already has row ids, because these ids would
    /// be wrong after a rebase.
    pub fn of(location: &str, file: &Content, snapshot_id: i64, sync: Uuid) -> Result<Self, Error> {
        extract(file, file.bytes_max(), snapshot_id, sync)
            .map_err(|reason| Error::unreadable(location, reason))
    }
}

pub(super) fn extract(
    file: &[u8],
    bytes_max: u64,
    snapshot_id: i64,
    sync: Uuid,
) -> Result<ExtractedManifest, String> {
    let mut members = avro::header_members(file)?;
    members.retain(|(name, _)| *name != b"avro.codec");
    members.push((b"avro.codec", b"deflate"));
    let sync = sync.into_bytes();
    let mut extraction = Extraction {
        snapshot_id,
        sync,
        entry: Entry::default(),
        plain: Vec::new(),
        plain_entries: 0,
        out: encode::header(&members, &sync),
        files: 0,
        rows: 0,
        min_sequence_number: None,
        inherits_sequence_number: false,
    };
    program::read(file, bytes_max, wanted, &mut extraction)?;
    extraction.end_block();
    Ok(ExtractedManifest {
        content: extraction.out.into(),
        files: extraction.files,
        rows: extraction.rows,
        min_sequence_number: extraction.min_sequence_number,
        inherits_sequence_number: extraction.inherits_sequence_number,
    })
}

fn wanted(path: &[FieldInfo]) -> Wanted {
    let slot = |id: i32| Slot::try_from(id).map_or(Wanted::Skip, Wanted::Value);
    match path {
        [field] => match field.id {
            id::STATUS | id::SNAPSHOT_ID | id::SEQUENCE_NUMBER => slot(field.id),
            id::DATA_FILE => Wanted::Enter,
            _ => Wanted::Skip,
        },
        [file, field] if file.id == id::DATA_FILE => match field.id {
            id::CONTENT | id::RECORD_COUNT | id::FIRST_ROW_ID => slot(field.id),
            _ => Wanted::Skip,
        },
        _ => Wanted::Skip,
    }
}

/// Values of the entry that is read.
#[derive(Default)]
struct Entry {
    status: Option<i64>,
    snapshot_id: Option<i64>,
    sequence_number: Option<i64>,
    content: Option<i64>,
    record_count: Option<i64>,
    first_row_id: Option<i64>,
}

/// Copies the entries of added files.
struct Extraction {
    snapshot_id: i64,
    sync: encode::Sync,
    entry: Entry,
    /// Entries of the current block.
    plain: Vec<u8>,
    plain_entries: usize,
    out: Vec<u8>,
    files: i32,
    rows: i64,
    min_sequence_number: Option<i64>,
    inherits_sequence_number: bool,
}

impl Extraction {
    fn end_block(&mut self) {
        if self.plain_entries > 0 {
            self.out.extend(encode::block(self.plain_entries, &self.plain, &self.sync));
        }
        self.plain.clear();
        self.plain_entries = 0;
    }

    fn copy(&mut self, entry: &Entry, encoded: &[u8]) -> Result<(), String> {
        let is_own = entry.snapshot_id.is_none_or(|id| id == self.snapshot_id);
        if !is_own || entry.content.unwrap_or(0) != 0 || entry.first_row_id.is_some() {
            return Err("has an added file that is not of this append".to_owned());
        }
        let rows = entry.record_count.filter(|rows| *rows >= 0);
        let rows = rows.ok_or("has an entry without record_count")?;
        self.rows = self.rows.checked_add(rows).ok_or("has too many rows")?;
        self.files = self.files.checked_add(1).ok_or("has too many files")?;
        match entry.sequence_number {
            Some(number) => {
                let min = self.min_sequence_number.unwrap_or(number);
                self.min_sequence_number = Some(min.min(number));
            }
            None => self.inherits_sequence_number = true,
        }
        self.plain.extend_from_slice(encoded);
        self.plain_entries += 1;
        if self.plain.len() >= BLOCK_BYTES {
            self.end_block();
        }
        Ok(())
    }
}

impl Sink for Extraction {
    fn number(&mut self, slot: Slot, value: i64) -> Result<(), String> {
        let target = match i32::from(slot) {
            id::STATUS => &mut self.entry.status,
            id::SNAPSHOT_ID => &mut self.entry.snapshot_id,
            id::SEQUENCE_NUMBER => &mut self.entry.sequence_number,
            id::CONTENT => &mut self.entry.content,
            id::RECORD_COUNT => &mut self.entry.record_count,
            id::FIRST_ROW_ID => &mut self.entry.first_row_id,
            _ => return Err(unexpected(slot)),
        };
        *target = Some(value);
        Ok(())
    }

    fn end_entry(&mut self, encoded: &[u8]) -> Result<(), String> {
        let entry = std::mem::take(&mut self.entry);
        match entry.status {
            Some(EXISTING) => Ok(()),
            Some(ADDED) => self.copy(&entry, encoded),
            _ => Err("has an entry that is neither added nor existing".to_owned()),
        }
    }
}
