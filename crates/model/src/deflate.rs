//! [`Deflated`]: compressed bytes that can be a part of any number of gzip members.

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

/// The compression level. Higher levels take more than twice the time, mostly after a start, when
/// no chunk is compressed yet, and save about a tenth of the bytes.
const LEVEL: u32 = 1;

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
pub(super) struct Deflater(Compress);

impl Deflater {
    pub(super) fn new() -> Self {
        Self(Compress::new(Compression::new(LEVEL), false))
    }

    pub(super) fn deflate(&mut self, text: &[u8]) -> Deflated {
        self.0.reset();
        // A flush that finds too little room is incomplete, so one call has to be enough. Deflate
        // adds at most a few bytes for each stored block.
        let mut bytes = Vec::with_capacity(text.len() + text.len() / 8 + 128);
        let flushed = self.0.compress_vec(text, &mut bytes, FlushCompress::Sync);
        let is_complete = self.0.total_in() == text.len() as u64 && bytes.len() < bytes.capacity();
        assert!(flushed.is_ok() && is_complete, "the room exceeds the bound of deflate");
        let mut checksum = Hasher::new();
        checksum.update(text);
        Deflated { bytes: bytes.into_boxed_slice().into(), checksum }
    }
}
