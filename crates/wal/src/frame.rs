//! A frame is the unit that one flush appends to the WAL. This module reads and writes frames.
//!
//! A frame begins with a header of 32 bytes, with little-endian numbers:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `sbj1`, or `sbj2` if the rows are sealed |
//! | 4 | CRC-32 of the rest of the header |
//! | 4 | CRC-32 of the rows |
//! | 4 | bytes of the rows |
//! | 8 | the frame's number |
//! | 8 | the epoch of its writer |
//!
//! The rows follow the header. Each row consists of its sequence number (8 bytes), flags (1), the
//! lengths of key and value (4 each), the times of creation and expiry (8 each), the key, and the
//! value. The flags show which of the two times the row contains. In an encrypted store, the rows
//! are sealed together and bound to the frame's number and epoch.

use bytes::{Buf, BufMut, Bytes};
use slatedb::{RowEntry, ValueDeletable};

use slateberg_kms as kms;
use slateberg_kms::keys::{Keys, OVERHEAD, Purpose};

const PLAIN_MAGIC: [u8; 4] = *b"sbj1";
const SEALED_MAGIC: [u8; 4] = *b"sbj2";
/// Length of a header, in bytes.
pub(super) const HEADER: usize = 32;
/// Size of a disk sector, in bytes. A disk writes a sector completely or not at all, so an
/// interrupted write lacks whole sectors.
const SECTOR: usize = 512;

const TOMBSTONE: u8 = 1;
const MERGE: u8 = 2;
const CREATED: u8 = 4;
const EXPIRES: u8 = 8;

/// A frame that was read.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) number: u64,
    rows: Bytes,
}

/// Returns the first bytes of a frame in a store with these keys.
pub(super) fn magic(keys: Option<&Keys>) -> [u8; 4] {
    if keys.is_some() { SEALED_MAGIC } else { PLAIN_MAGIC }
}

/// The reason why a frame cannot be read.
#[derive(Debug, Clone)]
pub(super) enum Unreadable {
    /// The end of the segment, or zeros up to the end of the segment.
    End,
    /// A write that a crash interrupted.
    Torn,
    /// A damaged frame that was once complete on the disk.
    Damaged,
    /// A complete frame that cannot be decrypted.
    Sealed(kms::Error),
}

/// A frame to which rows are added.
#[derive(Debug)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    last_sequence: u64,
    rows: usize,
}

impl Builder {
    /// Creates a frame without rows.
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEADER], last_sequence: 0, rows: 0 }
    }

    /// Appends a row.
    pub(super) fn push(&mut self, row: &RowEntry) {
        let (kind, value) = match &row.value {
            ValueDeletable::Value(value) => (0, &value[..]),
            ValueDeletable::Merge(value) => (MERGE, &value[..]),
            ValueDeletable::Tombstone => (TOMBSTONE, &[][..]),
        };
        let created = if row.create_ts.is_some() { CREATED } else { 0 };
        let expires = if row.expire_ts.is_some() { EXPIRES } else { 0 };
        let bytes = &mut self.bytes;
        bytes.put_u64_le(row.seq);
        bytes.put_u8(kind | created | expires);
        bytes.put_u32_le(row.key.len() as u32);
        bytes.put_u32_le(value.len() as u32);
        for time in [row.create_ts, row.expire_ts].into_iter().flatten() {
            bytes.put_i64_le(time);
        }
        bytes.put_slice(&row.key);
        bytes.put_slice(value);
        self.last_sequence = row.seq;
        self.rows += 1;
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Returns the frame in its disk format, sealed if there are keys. `None` if the rows exceed
    /// the maximum size of a frame.
    pub(super) fn finish(
        mut self,
        number: u64,
        epoch: u64,
        keys: Option<&Keys>,
    ) -> Option<Vec<u8>> {
        if let Some(keys) = keys {
            let mut sealed = Vec::with_capacity(self.bytes.len() + OVERHEAD);
            sealed.resize(HEADER, 0);
            let purpose = Purpose::Frame { number, epoch };
            keys.seal_into(purpose, &self.bytes[HEADER..], &mut sealed).ok()?;
            self.bytes = sealed;
        }
        let rows = &self.bytes[HEADER..];
        let header = header(magic(keys), (u32::try_from(rows.len()).ok()?, rows), (number, epoch));
        self.bytes[..HEADER].copy_from_slice(&header);
        Some(self.bytes)
    }
}

/// Returns an unsealed frame without rows.
pub(super) fn empty(number: u64, epoch: u64) -> Bytes {
    header(PLAIN_MAGIC, (0, &[]), (number, epoch)).into()
}

fn header(magic: [u8; 4], (length, rows): (u32, &[u8]), (number, epoch): (u64, u64)) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER);
    header.put_slice(&magic);
    header.put_u32_le(0);
    header.put_u32_le(crc32fast::hash(rows));
    header.put_u32_le(length);
    header.put_u64_le(number);
    header.put_u64_le(epoch);
    let header_sum = crc32fast::hash(&header[8..]);
    header[4..8].copy_from_slice(&header_sum.to_le_bytes());
    header
}

/// Reads the frame at an offset in a segment. Returns the frame and the offset of the next frame.
/// With keys, only sealed frames are valid. Without keys, only unsealed frames are valid.
pub(super) fn read(
    segment: &Bytes,
    at: usize,
    keys: Option<&Keys>,
) -> Result<(Frame, usize), Unreadable> {
    let rest = segment.slice(at..);
    if rest.iter().all(|byte| *byte == 0) {
        return Err(Unreadable::End);
    }
    if rest.len() < HEADER {
        return Err(Unreadable::Torn);
    }
    let mut header = &rest[..HEADER];
    let (begin, header_sum) = (header.get_u32_le().to_le_bytes(), header.get_u32_le());
    if begin != magic(keys) || crc32fast::hash(&rest[8..HEADER]) != header_sum {
        // Only the sectors of the header count. Later sectors may be zeros that the writer has
        // written in advance, which would make every damaged header look torn.
        let end = (at + HEADER).next_multiple_of(SECTOR).min(segment.len());
        return Err(torn_or_damaged(lacks_sector(&segment[at..end], at)));
    }
    let (sum, length) = (header.get_u32_le(), header.get_u32_le() as usize);
    let (number, epoch) = (header.get_u64_le(), header.get_u64_le());
    let end = HEADER + length;
    if rest.len() < end {
        return Err(Unreadable::Torn);
    }
    let rows = rest.slice(HEADER..end);
    if crc32fast::hash(&rows) != sum {
        return Err(torn_or_damaged(lacks_sector(&rest[..end], at)));
    }
    let rows = match keys {
        None => rows,
        Some(keys) => {
            let opened = keys.open(Purpose::Frame { number, epoch }, &rows);
            Bytes::from(opened.map_err(Unreadable::Sealed)?)
        }
    };
    Ok((Frame { number, rows }, at + end))
}

fn torn_or_damaged(torn: bool) -> Unreadable {
    if torn { Unreadable::Torn } else { Unreadable::Damaged }
}

/// Whether a sector of these bytes was not written. `at` is the offset of the bytes in the file.
/// The bytes of a sector that was not written are all zero.
fn lacks_sector(bytes: &[u8], at: usize) -> bool {
    let first = (SECTOR - at % SECTOR).min(bytes.len());
    let (head, rest) = bytes.split_at(first);
    std::iter::once(head).chain(rest.chunks(SECTOR)).any(|part| part.iter().all(|byte| *byte == 0))
}

impl Frame {
    /// Returns the rows, in order. `None` if the bytes of the frame are not a sequence of rows,
    /// which cannot happen if the CRC of the frame matches.
    pub(super) fn rows(&self) -> Option<Vec<RowEntry>> {
        let mut bytes = self.rows.clone();
        let mut rows = Vec::new();
        while bytes.has_remaining() {
            rows.push(row(&mut bytes)?);
        }
        Some(rows)
    }
}

fn row(bytes: &mut Bytes) -> Option<RowEntry> {
    let seq = bytes.try_get_u64_le().ok()?;
    let flags = bytes.try_get_u8().ok()?;
    let key_length = bytes.try_get_u32_le().ok()? as usize;
    let value_length = bytes.try_get_u32_le().ok()? as usize;
    let mut time = |flag| match flags & flag {
        0 => Some(None),
        _ => bytes.try_get_i64_le().ok().map(Some),
    };
    let (create_ts, expire_ts) = (time(CREATED)?, time(EXPIRES)?);
    if bytes.remaining() < key_length.checked_add(value_length)? {
        return None;
    }
    let key = bytes.split_to(key_length);
    let value = bytes.split_to(value_length);
    let value = match flags & (TOMBSTONE | MERGE) {
        0 => ValueDeletable::Value(value),
        MERGE => ValueDeletable::Merge(value),
        _ => ValueDeletable::Tombstone,
    };
    Some(RowEntry { key, value, seq, create_ts, expire_ts })
}
