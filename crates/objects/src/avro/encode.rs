//! Encodes Avro container files.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::{HeaderMember, MAGIC, SYNC_BYTES};

/// The marker that ends the header and each block of a file.
pub(crate) type Sync = [u8; SYNC_BYTES];

/// Returns the beginning of a file, up to its blocks. `members` are the names and values in the
/// header. The codec must be `deflate`.
pub(crate) fn header(members: &[HeaderMember<'_>], sync: &Sync) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    long(&mut out, i64::try_from(members.len()).unwrap_or_default());
    for (name, value) in members {
        text(&mut out, name);
        text(&mut out, value);
    }
    long(&mut out, 0);
    out.extend_from_slice(sync);
    out
}

/// Returns a block with this number of entries, which are already encoded. Compresses them.
pub(crate) fn block(entries: usize, plain: &[u8], sync: &Sync) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).expect("writing into memory cannot fail");
    let compressed = encoder.finish().expect("writing into memory cannot fail");
    let mut out = Vec::with_capacity(compressed.len() + 32);
    long(&mut out, i64::try_from(entries).unwrap_or_default());
    text(&mut out, &compressed);
    out.extend_from_slice(sync);
    out
}

/// Writes the number of bytes, and then the bytes.
pub(crate) fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    long(out, i64::try_from(bytes.len()).unwrap_or_default());
    out.extend_from_slice(bytes);
}

/// Writes a variable-length number in zigzag encoding.
pub(crate) fn long(out: &mut Vec<u8>, number: i64) {
    let mut left = (number.wrapping_shl(1) ^ (number >> 63)).cast_unsigned();
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
