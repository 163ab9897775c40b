//! Reads Avro container files from untrusted writers.
//!
//! The schema determines only the encoding of values. The reader builds no entries. Instead, it
//! passes each number and string to a function, together with the names of the fields that lead to
//! this value. The memory for an entry therefore does not depend on its content. Counts and lengths
//! are not trusted. A block is decompressed up to a limit, and recursive records end at a maximum
//! depth. The number of values is also limited, because some values take no bytes.

mod decompress;
pub(super) mod encode;
mod fixed;
pub(super) mod program;
mod shape;
pub(super) mod split;
#[cfg(test)]
mod tests;
pub(super) mod walk;

use std::borrow::Cow;

use decompress::Codec;
use fixed::FixedEncoding;
use shape::Schema;

use super::content::too_long_decompressed;

/// First bytes of an Avro file.
const MAGIC: &[u8] = b"Obj\x01";
/// First bytes of a Parquet file, which has as many of them.
const MAGIC_OF_PARQUET: &[u8] = b"PAR1";
/// Size of the sync marker after each block.
const SYNC_BYTES: usize = 16;
/// Maximum size of a schema. Schemas of manifests have a few thousand bytes.
const SCHEMA_BYTES_MAX: usize = 1 << 20;
/// Maximum depth of nested values. Manifests have at most ten levels.
const DEPTH_MAX: usize = 64;
/// Maximum number of values per decompressed byte. Only a file with values that take no bytes can
/// exceed this number.
const VALUES_PER_BYTE: u64 = 4;
/// Each block counts as this number of values, because decompressing an empty block takes about as
/// long as reading this number of values.
const VALUES_PER_BLOCK: u64 = 256;
/// Error for a file with too many values.
const TOO_MANY: &str = "has more values than its size allows";
/// Error for a block with bytes after its entries.
const LONG_BLOCK: &str = "a block is longer than its entries";

/// The name and the value of a member of the header.
pub(super) type HeaderMember<'a> = (&'a [u8], &'a [u8]);

/// The blocks of a file.
struct Blocks<'a> {
    file: Cursor<'a>,
    codec: Codec,
    sync: &'a [u8],
    bytes_max: u64,
    bytes_left: u64,
    /// Number of values that further blocks may have.
    values_left: u64,
}

/// A decompressed block.
struct Block<'a> {
    /// Number of entries, as the writer recorded it.
    count: u64,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Blocks<'a> {
    /// Returns the schema and the blocks of a file, which may decompress to at most `bytes_max`
    /// bytes.
    fn of(content: &'a [u8], bytes_max: u64) -> Result<(Schema, Self), String> {
        let mut file = Cursor(content);
        let Header { schema, codec, sync } = header(&mut file)?;
        let values_left = bytes_max.saturating_mul(VALUES_PER_BYTE);
        Ok((schema, Self { file, codec, sync, bytes_max, bytes_left: bytes_max, values_left }))
    }

    /// Returns the next block. `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Block<'a>>, String> {
        if self.file.0.is_empty() {
            return Ok(None);
        }
        self.values_left = self.values_left.checked_sub(VALUES_PER_BLOCK).ok_or(TOO_MANY)?;
        let count = u64::try_from(self.file.long()?).map_err(|_| "a block has a negative count")?;
        let compressed = self.file.text()?;
        if self.file.take(SYNC_BYTES)? != self.sync {
            return Err("a block does not end with the sync marker of the file".to_owned());
        }
        let decompressed = self.codec.decompress(compressed, self.bytes_left)?;
        let bytes = decompressed.ok_or_else(|| too_long_decompressed(self.bytes_max))?;
        self.bytes_left = self.bytes_left.saturating_sub(bytes.len() as u64);
        Ok(Some(Block { count, bytes }))
    }
}

/// Returns the value of a key in the metadata map of the header.
pub(super) fn member<'a>(content: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, String> {
    let mut file = Cursor(content);
    let mut found = None;
    members(&mut file, |key, value| {
        if key == name.as_bytes() {
            found = Some(value);
        }
    })?;
    Ok(found)
}

/// Returns the names and values of all members of the header.
pub(super) fn header_members(content: &[u8]) -> Result<Vec<HeaderMember<'_>>, String> {
    let mut all = Vec::new();
    members(&mut Cursor(content), |name, value| all.push((name, value)))?;
    Ok(all)
}

/// Passes each key and value of the header's metadata map to a function.
fn members<'a>(
    file: &mut Cursor<'a>,
    mut see: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), String> {
    match file.take(MAGIC.len()) {
        Ok(MAGIC) => {}
        Ok(MAGIC_OF_PARQUET) => {
            return Err("is a Parquet file, but the server reads only manifests in Avro".to_owned());
        }
        _ => return Err("is not an Avro file".to_owned()),
    }
    while let Some(count) = file.count()? {
        for _ in 0..count {
            see(file.text()?, file.text()?);
        }
    }
    Ok(())
}

/// The header before the blocks.
struct Header<'a> {
    schema: Schema,
    codec: Codec,
    sync: &'a [u8],
}

fn header<'a>(file: &mut Cursor<'a>) -> Result<Header<'a>, String> {
    let (mut schema, mut codec) = (None, None);
    members(file, |name, value| match name {
        b"avro.schema" => schema = Some(value),
        b"avro.codec" => codec = Some(value),
        _ => {}
    })?;
    let sync = file.take(SYNC_BYTES)?;
    let schema = schema.ok_or("has no schema")?;
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!("has a schema of {} bytes", schema.len()));
    }
    Ok(Header { schema: Schema::parse(schema)?, codec: Codec::of(codec)?, sync })
}

/// A reader of bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or("ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a value of a type `fixed` with this number of bytes.
    fn fixed(&mut self, bytes: usize, encoding: FixedEncoding) -> Result<&'a [u8], String> {
        match encoding {
            FixedEncoding::Plain => self.take(bytes),
            FixedEncoding::WithLength => {
                let value = self.text()?;
                if value.len() == bytes { Ok(value) } else { Err("a length is invalid".to_owned()) }
            }
        }
    }

    /// Reads a variable-length number in zigzag encoding.
    fn long(&mut self) -> Result<i64, String> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or("ends too early")?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let half = i64::try_from(number >> 1).unwrap_or(i64::MAX);
                return Ok(if number & 1 == 0 { half } else { !half });
            }
        }
        Err("a number is too long".to_owned())
    }

    /// Reads a length, and then this number of bytes.
    fn text(&mut self) -> Result<&'a [u8], String> {
        let bytes = usize::try_from(self.long()?).map_err(|_| "a length is invalid")?;
        self.take(bytes)
    }

    /// Reads the number of items in the next block of an array or map. Returns `None` at the end of
    /// the array or map.
    fn count(&mut self) -> Result<Option<u64>, String> {
        match self.long()? {
            0 => Ok(None),
            count if count > 0 => Ok(Some(count.unsigned_abs())),
            // A negative count is followed by the size of the block in bytes.
            count => self.long().map(|_| Some(count.unsigned_abs())),
        }
    }
}
