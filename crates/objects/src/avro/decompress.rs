//! Decompression of the blocks of an Avro file.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::DeflateDecoder;

/// Size of the checksum after a Snappy block.
const CHECKSUM_BYTES: usize = 4;

/// Compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Deflate,
    Snappy,
    Zstandard,
}

impl Codec {
    /// Returns the codec with this name. Defaults to no compression.
    pub(super) fn of(name: Option<&[u8]>) -> Result<Self, String> {
        match name {
            None | Some(b"null") => Ok(Self::None),
            Some(b"deflate") => Ok(Self::Deflate),
            Some(b"snappy") => Ok(Self::Snappy),
            Some(b"zstandard") => Ok(Self::Zstandard),
            Some(_) => Err("has an unknown compression codec".to_owned()),
        }
    }

    /// Decompresses a block. `None` if the result has more than the maximum number of bytes.
    pub(super) fn decompress(
        self,
        block: &[u8],
        bytes_max: u64,
    ) -> Result<Option<Cow<'_, [u8]>>, String> {
        match self {
            Self::None => Ok(Some(Cow::Borrowed(block)).filter(|it| it.len() as u64 <= bytes_max)),
            Self::Deflate => all_of(DeflateDecoder::new(block), bytes_max),
            Self::Zstandard => {
                let decoder = zstd::Decoder::with_buffer(block);
                all_of(decoder.map_err(|error| error.to_string())?, bytes_max)
            }
            Self::Snappy => decompress_snappy(block, bytes_max),
        }
    }
}

fn all_of<'a>(compressed: impl Read, bytes_max: u64) -> Result<Option<Cow<'a, [u8]>>, String> {
    let mut decompressed = Vec::new();
    let read = compressed.take(bytes_max.saturating_add(1)).read_to_end(&mut decompressed);
    let bytes = read.map_err(|error| error.to_string())?;
    Ok((bytes as u64 <= bytes_max).then_some(Cow::Owned(decompressed)))
}

fn decompress_snappy<'a>(block: &[u8], bytes_max: u64) -> Result<Option<Cow<'a, [u8]>>, String> {
    let (block, checksum) = block.split_last_chunk::<CHECKSUM_BYTES>().ok_or("ends too early")?;
    let bytes = snap::raw::decompress_len(block).map_err(|error| error.to_string())?;
    if bytes as u64 > bytes_max {
        return Ok(None);
    }
    let decompressed = snap::raw::Decoder::new().decompress_vec(block);
    let decompressed = decompressed.map_err(|error| error.to_string())?;
    if crc32fast::hash(&decompressed) == u32::from_be_bytes(*checksum) {
        Ok(Some(Cow::Owned(decompressed)))
    } else {
        Err("a block does not match its checksum".to_owned())
    }
}
