//! [`Content`]: the content of a file, and limits for content in memory.
//!
//! A client that may write a file of a warehouse determines the compressed and the decompressed
//! size of this file. A limit for each file is checked before the file is read. A second limit
//! applies to all files together: readers wait while it is reached. A reader acquires memory for
//! the compressed content before memory for the decompressed content, so that readers cannot
//! deadlock.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Error;

/// Default maximum size of a file, compressed and decompressed.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Unit of reservations, in bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// Content of a file. The memory stays reserved until this value is dropped.
#[derive(Debug)]
pub struct Content {
    bytes: Bytes,
    bytes_max: u64,
    room: Room,
}

/// Reserved memory, which is released when this value is dropped. A separate type, for code that
/// stores the bytes outside of a [`Content`].
#[derive(Debug)]
#[must_use = "the reserved memory is released when this value is dropped"]
pub struct Room {
    _permit: OwnedSemaphorePermit,
}

/// Limits for content in memory. Clones share them.
#[derive(Clone)]
pub(super) struct Bounds {
    /// Maximum size of a file, compressed and decompressed.
    pub(super) file_bytes_max: u64,
    units: u32,
    reading: Arc<Semaphore>,
    decompression: Arc<Semaphore>,
}

impl Content {
    /// Creates content with its reserved memory. The content may decompress to at most `bytes_max`
    /// bytes.
    pub(super) fn new(bytes: Bytes, bytes_max: u64, room: Room) -> Self {
        Self { bytes, bytes_max, room }
    }

    /// Returns the maximum size after decompression.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the bytes and their reserved memory.
    pub fn into_parts(self) -> (Bytes, Room) {
        (self.bytes, self.room)
    }
}

impl Deref for Content {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// Reason for the rejection of a file that decompresses to more than `bytes_max` bytes.
pub(super) fn too_long_decompressed(bytes_max: u64) -> String {
    format!("decompresses to more than {bytes_max} bytes (catalog.file_bytes_max)")
}

impl Default for Bounds {
    fn default() -> Self {
        Self::new(FILE_BYTES_MAX)
    }
}

impl Bounds {
    /// `file_bytes_max` is the maximum size of each file, and also of all files together that are
    /// being read. Decompressed content has its own limit of the same size.
    pub(super) fn new(file_bytes_max: u64) -> Self {
        // Limits the number of units so that one call of the semaphore can acquire all of them.
        let units = file_bytes_max.div_ceil(UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self {
            file_bytes_max,
            units,
            reading: Arc::new(Semaphore::new(units as usize)),
            decompression: Arc::new(Semaphore::new(units as usize)),
        }
    }

    /// Waits until memory to read `bytes` bytes can be reserved.
    pub(super) async fn reading(&self, bytes: u64) -> Room {
        self.room(&self.reading, bytes).await
    }

    /// Waits until memory for a metadata file that decompresses to `bytes` bytes can be reserved.
    pub(super) async fn decompression(&self, bytes: u64) -> Room {
        self.room(&self.decompression, bytes).await
    }

    async fn room(&self, all: &Arc<Semaphore>, bytes: u64) -> Room {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(all).acquire_many_owned(units.min(self.units)).await;
        Room { _permit: permit.expect("the semaphore is never closed") }
    }

    /// Rejects a file of `bytes` bytes before it is read, if it is too long.
    pub(super) fn check(&self, location: &str, bytes: u64) -> Result<(), Error> {
        let max = self.file_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        Err(Error::unreadable(
            location,
            format!("has {bytes} bytes, but at most {max} are read (catalog.file_bytes_max)"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn waits<T>(work: impl Future<Output = T>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), work).await.is_err()
    }

    #[tokio::test]
    async fn reader_waits_for_memory() {
        let bounds = Bounds::new(64 << 10);
        let mut rooms = Vec::new();
        for _ in 0..4 {
            rooms.push(bounds.reading(16 << 10).await);
        }
        assert!(waits(bounds.clone().reading(1)).await, "clones share one limit");
        assert!(!waits(bounds.reading(0)).await, "an empty file needs no memory");
        rooms.pop();
        assert!(!waits(bounds.reading(16 << 10)).await);
        rooms.clear();
        assert!(
            !waits(bounds.reading(u64::MAX)).await,
            "a file that exceeds the limit does not wait forever"
        );
    }

    #[tokio::test]
    async fn decompression_has_its_own_memory_limit() {
        let bounds = Bounds::new(64 << 10);
        let room = bounds.decompression(64 << 10).await;
        assert!(waits(bounds.decompression(1)).await);
        assert!(!waits(bounds.reading(1)).await, "reading has a limit of its own");
        drop(room);
        assert!(!waits(bounds.decompression(1)).await);
    }

    #[test]
    fn bounds_of_any_size_make_sense() {
        for max in [0, 1, 1 << 10, FILE_BYTES_MAX, u64::MAX] {
            let bounds = Bounds::new(max);
            assert!(bounds.units >= 1, "{max}");
            assert!(bounds.check("s3://b/x", max).is_ok(), "{max}");
        }
        let error = Bounds::new(10).check("s3://b/x", 11).expect_err("it is too long");
        let expected = "s3://b/x: has 11 bytes, but at most 10 are read (catalog.file_bytes_max)";
        assert_eq!(error.to_string(), expected);
    }
}
