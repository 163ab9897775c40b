//! Merge: writes the live files of several manifests to one manifest.
//!
//! The merge changes only the values that describe when a file was added: the status becomes
//! *existing*, and inherited values (snapshot, sequence numbers, row id) become explicit. It copies
//! the bytes of all other values, so no type of the table matters. For this reason, it merges only
//! manifests whose writers used the same Avro schema.

use bytes::Bytes;
use uuid::Uuid;

use super::super::avro::encode;
use super::super::avro::split::{NumberEncoding, SplitEntries, SplitField};
use super::super::avro::{self, HeaderMember};
use super::super::error::Error;
use super::field_ids as id;
use super::inherited::Inherited;

/// Size of a block before compression, in bytes. It is that of Java's writer.
const BLOCK_BYTES: usize = 64_000;

const EXISTING: i64 = 0;
const ADDED: i64 = 1;
const DELETED: i64 = 2;

/// The manifests of one partition spec that are merged into one.
pub struct ManifestMerge {
    format_version: u8,
    sync: encode::Sync,
    /// The Avro schema of all its manifests.
    schema: Bytes,
    out: Vec<u8>,
    /// Entries of the current block.
    plain: Vec<u8>,
    plain_entries: usize,
    counts: MergedCounts,
}

/// Counts of the files in a merged manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergedCounts {
    /// Number of files.
    pub files: i64,
    /// Number of rows in these files.
    pub rows: i64,
    /// Smallest data sequence number of the files. `None` if there are no files.
    pub min_sequence_number: Option<i64>,
}

/// Positions of the fields that a merge reads or changes.
struct Layout {
    status: (usize, NumberEncoding),
    snapshot_id: (usize, NumberEncoding),
    /// The data sequence number. `None` in format version 1.
    sequence_number: Option<(usize, NumberEncoding)>,
    file_sequence_number: Option<(usize, NumberEncoding)>,
    content: Option<(usize, NumberEncoding)>,
    record_count: (usize, NumberEncoding),
    /// `None` before format version 3.
    first_row_id: Option<(usize, NumberEncoding)>,
}

impl Layout {
    /// Returns the positions. `None` if the files of a table of this format version need a value
    /// that the schema does not have.
    fn of(fields: &[SplitField], format_version: u8) -> Option<Self> {
        let number = |is_nested: bool, id: i32| {
            let mut all = fields.iter().enumerate();
            let (at, field) = all.find(|(_, it)| it.is_nested == is_nested && it.id == Some(id))?;
            Some((at, field.number?))
        };
        let layout = Self {
            status: number(false, id::STATUS)?,
            snapshot_id: number(false, id::SNAPSHOT_ID)?,
            sequence_number: number(false, id::SEQUENCE_NUMBER),
            file_sequence_number: number(false, id::FILE_SEQUENCE_NUMBER),
            content: number(true, id::CONTENT),
            record_count: number(true, id::RECORD_COUNT)?,
            first_row_id: number(true, id::FIRST_ROW_ID),
        };
        let has_numbers = layout.sequence_number.is_some() && layout.file_sequence_number.is_some();
        let is_usable = match format_version {
            1 => layout.sequence_number.is_none(),
            2 => has_numbers,
            _ => has_numbers && layout.first_row_id.is_some(),
        };
        is_usable.then_some(layout)
    }
}

impl ManifestMerge {
    /// Begins a merge with the header of the manifest `file`, which may decompress to at most
    /// `bytes_max` bytes. Returns `None` if manifests of this file's schema cannot be merged in a
    /// table of this format version. `sync` is the marker between the blocks of the new file.
    ///
    /// # Errors
    /// Fails if the file is not a manifest.
    pub fn begin(
        location: &str,
        (file, bytes_max): (&[u8], u64),
        format_version: u8,
        sync: Uuid,
    ) -> Result<Option<Self>, Error> {
        begin(file, bytes_max, format_version, sync)
            .map_err(|reason| Error::unreadable(location, reason))
    }

    /// Whether this manifest has the schema of the merge.
    ///
    /// # Errors
    /// Fails if the file is not a manifest.
    pub fn accepts(&self, location: &str, file: &[u8]) -> Result<bool, Error> {
        let schema = avro::member(file, "avro.schema");
        let schema = schema.map_err(|reason| Error::unreadable(location, reason))?;
        Ok(schema == Some(&*self.schema))
    }

    /// Adds the live files of a manifest that the merge accepts, and returns their counts.
    ///
    /// # Errors
    /// Fails if the manifest is invalid. The merge must then be dropped.
    pub fn add(
        &mut self,
        location: &str,
        (file, bytes_max): (&[u8], u64),
        inherited: Inherited,
    ) -> Result<MergedCounts, Error> {
        self.add_all(file, bytes_max, inherited)
            .map_err(|reason| Error::unreadable(location, reason))
    }

    /// Returns the approximate size of the new manifest, in bytes.
    pub fn len(&self) -> usize {
        self.out.len() + self.plain.len() / 4
    }

    /// Whether no file was added.
    pub fn is_empty(&self) -> bool {
        self.counts.files == 0
    }

    /// Returns the new manifest and its counts.
    pub fn finish(mut self) -> (Bytes, MergedCounts) {
        self.end_block();
        (self.out.into(), self.counts)
    }

    pub(super) fn add_all(
        &mut self,
        file: &[u8],
        bytes_max: u64,
        inherited: Inherited,
    ) -> Result<MergedCounts, String> {
        let entries = SplitEntries::of(file, bytes_max, id::DATA_FILE)?;
        let layout = Layout::of(entries.fields(), self.format_version);
        let layout = layout.ok_or("has an unsuitable schema")?;
        let before = self.counts;
        let mut next_row_id = inherited.first_row_id;
        let mut min_sequence_number: Option<i64> = None;
        entries.each(|pieces| {
            let number = self.copy(&layout, pieces, inherited, &mut next_row_id)?;
            let smaller = |min: i64| number.is_none_or(|it| min < it);
            min_sequence_number = min_sequence_number.filter(|min| smaller(*min)).or(number);
            Ok(())
        })?;
        let numbers = [before.min_sequence_number, min_sequence_number];
        self.counts.min_sequence_number = numbers.into_iter().flatten().min();
        Ok(MergedCounts {
            files: self.counts.files - before.files,
            rows: self.counts.rows - before.rows,
            min_sequence_number,
        })
    }

    /// Copies an entry unless its file was deleted. Returns the data sequence number.
    fn copy(
        &mut self,
        layout: &Layout,
        pieces: &[&[u8]],
        inherited: Inherited,
        next_row_id: &mut Option<i64>,
    ) -> Result<Option<i64>, String> {
        let read = |(at, number): (usize, NumberEncoding)| number.read(pieces[at]);
        let status = read(layout.status)?;
        if status == Some(DELETED) {
            return Ok(None);
        }
        if !matches!(status, Some(ADDED | EXISTING)) {
            return Err("has an entry with an unknown status".to_owned());
        }
        if layout.content.map(read).transpose()?.flatten().unwrap_or(0) != 0 {
            return Err("has a delete file, although it is a manifest of data files".to_owned());
        }
        let rows = read(layout.record_count)?.filter(|rows| *rows >= 0);
        let rows = rows.ok_or("has an entry without record_count")?;
        // The numbers of an entry are inherited only by files that the manifest adds.
        let is_new = status == Some(ADDED) || inherited.sequence_number == 0;
        let number = layout.sequence_number.map(read).transpose()?.flatten();
        let number = number.or(is_new.then_some(inherited.sequence_number));
        let number = number.ok_or("has an existing entry without a sequence number")?;
        let file_number = layout.file_sequence_number.map(read).transpose()?.flatten();
        let file_number = file_number.or(is_new.then_some(inherited.sequence_number));
        let snapshot_id = read(layout.snapshot_id)?.unwrap_or(inherited.snapshot_id);
        let mut row_id = layout.first_row_id.map(read).transpose()?.flatten();
        if row_id.is_none() && self.format_version >= 3 {
            row_id = *next_row_id;
            *next_row_id = match row_id {
                Some(first) => Some(first.checked_add(rows).ok_or("has too many rows")?),
                None => None,
            };
        }
        for (at, piece) in pieces.iter().enumerate() {
            let of = |field: Option<(usize, NumberEncoding)>, value: Option<i64>| {
                let (_, encoding) = field.filter(|(position, _)| *position == at)?;
                Some((encoding, value?))
            };
            let changed = of(Some(layout.status), Some(EXISTING))
                .or_else(|| of(Some(layout.snapshot_id), Some(snapshot_id)))
                .or_else(|| of(layout.sequence_number, Some(number)))
                .or_else(|| of(layout.file_sequence_number, file_number))
                .or_else(|| of(layout.first_row_id, row_id));
            match changed {
                Some((encoding, value)) => encoding.write(&mut self.plain, value),
                None => self.plain.extend_from_slice(piece),
            }
        }
        self.counts.files += 1;
        let rows = self.counts.rows.checked_add(rows);
        self.counts.rows = rows.ok_or("has too many rows")?;
        self.plain_entries += 1;
        if self.plain.len() >= BLOCK_BYTES {
            self.end_block();
        }
        Ok(Some(number))
    }

    fn end_block(&mut self) {
        if self.plain_entries > 0 {
            self.out.extend(encode::block(self.plain_entries, &self.plain, &self.sync));
        }
        self.plain.clear();
        self.plain_entries = 0;
    }
}

pub(super) fn begin(
    file: &[u8],
    bytes_max: u64,
    format_version: u8,
    sync: Uuid,
) -> Result<Option<ManifestMerge>, String> {
    let entries = SplitEntries::of(file, bytes_max, id::DATA_FILE)?;
    let is_suitable = Layout::of(entries.fields(), format_version).is_some();
    // The new manifest can have only one encoding.
    if !is_suitable || entries.has_ambiguous_encoding() {
        return Ok(None);
    }
    let mut members = avro::header_members(file)?;
    let has_name = |name: &'static [u8]| move |it: &HeaderMember<'_>| it.0 == name;
    let schema = members.iter().copied().find(has_name(b"avro.schema")).map(|it| it.1);
    let schema = Bytes::copy_from_slice(schema.ok_or("has no schema")?);
    members.retain(|it| !has_name(b"avro.codec")(it));
    members.push((b"avro.codec", b"deflate"));
    let sync = sync.into_bytes();
    Ok(Some(ManifestMerge {
        format_version,
        sync,
        schema,
        out: encode::header(&members, &sync),
        plain: Vec::new(),
        plain_entries: 0,
        counts: MergedCounts::default(),
    }))
}
