//! Compression with zstd. The contexts of zstd are used again, because to create one takes longer
//! than to compress or decompress the metadata of a typical table.

use std::io;
use std::sync::{Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};

/// Level 1 takes half the time of zstd's default and a few percent more space. This is worthwhile
/// because metadata is written more often than it is read from the store.
const LEVEL: i32 = 1;
/// Maximum number of idle contexts of each kind. A context has some hundred kilobytes.
const IDLE_MAX: usize = 8;

static COMPRESSORS: Contexts<Compressor<'static>> = Contexts::new();
static DECOMPRESSORS: Contexts<Decompressor<'static>> = Contexts::new();

/// Idle contexts. They have no content of their own, so all stores of a process can share them.
struct Contexts<T>(Mutex<Vec<T>>);

impl<T> Contexts<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Runs `work` with an idle context, or with a new one.
    fn with<R>(
        &self,
        new: impl FnOnce() -> io::Result<T>,
        work: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = idle.map_or_else(new, Ok)?;
        let result = work(&mut context);
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(context);
        }
        result
    }
}

/// Compresses some bytes.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let new = || Compressor::new(LEVEL);
    let compressed = COMPRESSORS.with(new, |context| context.compress(bytes));
    compressed.expect("compressing into memory cannot fail")
}

/// Decompresses some bytes. Errors if the result has more than `bytes_max` bytes.
pub(crate) fn decompress(bytes: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = Decompressor::upper_bound(bytes).unwrap_or(bytes_max).min(bytes_max);
    DECOMPRESSORS.with(Decompressor::new, |context| context.decompress(bytes, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_is_usable_after_a_failure() {
        let compressed = compress(&[7; 1000]);
        for _ in 0..20 {
            assert!(decompress(&compressed, 10).is_err());
            assert!(decompress(b"no frame", 10).is_err());
            assert_eq!(decompress(&compressed, 1000).expect("it is whole"), [7; 1000]);
        }
    }

    #[test]
    fn contexts_are_used_again() {
        let contexts = Contexts::new();
        let compress = |text: &'static [u8]| {
            contexts.with(|| Compressor::new(LEVEL), |context| context.compress(text))
        };
        let alone = compress(b"a").expect("it is compressed");
        compress(b"bbbbbbbbbbbb").expect("it is compressed");
        assert_eq!(compress(b"a").expect("it is compressed"), alone);
        assert_eq!(contexts.0.lock().expect("no panic").len(), 1);
    }
}
