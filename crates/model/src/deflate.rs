//! [`Deflated`]: compressed bytes that can be a part of any number of gzip members.

use std::io::Write;
use std::mem;

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The compression level. Higher levels take more than twice the time, mostly after a start, when
/// no chunk is compressed yet, and save about a tenth of the bytes.
const LEVEL: u32 = 1;

/// Writing into memory cannot fail.
const IN_MEMORY: &str = "writing into memory cannot fail";

/// Compressed bytes. They end at a byte boundary, do not refer to earlier bytes, and contain no
/// final block. So any sequence of them is a part of a deflate stream.
#[derive(Debug)]
pub(super) struct Deflated {
    /// The compressed form.
    pub(super) bytes: Bytes,
    /// CRC-32 and length of the uncompressed form.
    pub(super) checksum: Hasher,
}

/// Joins compressed bytes.
pub(super) struct Joiner {
    bytes: Vec<u8>,
    checksum: Hasher,
}

impl Joiner {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), checksum: Hasher::new() }
    }

    pub(super) fn add(&mut self, deflated: &Deflated) {
        self.bytes.extend_from_slice(&deflated.bytes);
        self.checksum.combine(&deflated.checksum);
    }

    pub(super) fn finish(self) -> Deflated {
        Deflated { bytes: self.bytes.into_boxed_slice().into(), checksum: self.checksum }
    }
}

/// Compresses bytes. Each result is independent of the others.
pub(super) struct Deflater(DeflateEncoder<Vec<u8>>);

impl Deflater {
    pub(super) fn new() -> Self {
        Self(DeflateEncoder::new(Vec::new(), Compression::new(LEVEL)))
    }

    pub(super) fn deflate(&mut self, text: &[u8]) -> Deflated {
        self.0.write_all(text).expect(IN_MEMORY);
        // A flush ends the current block, at a byte boundary.
        self.0.flush().expect(IN_MEMORY);
        let bytes = mem::take(self.0.get_mut()).into_boxed_slice();
        // Drops the final block, and forgets `text`.
        drop(self.0.reset(Vec::new()).expect(IN_MEMORY));
        let mut checksum = Hasher::new();
        checksum.update(text);
        Deflated { bytes: bytes.into(), checksum }
    }
}
