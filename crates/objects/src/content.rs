//! [`Content`]: what was read of a file, and how much of that there may be at the same time.
//!
//! Whoever may write one file of a warehouse chooses how long it is, and what it unfolds to. So there is a
//! bound for each file, looked at before it is read, and a bound for all of them together: who would go
//! beyond that waits. Room for what is read is waited for before room for what it unfolds to, and nobody who
//! has either waits for what others may hold who wait for room.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Error;

/// The most bytes of a file that are read, and that it may unfold to, where nothing else is said.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// In what room is counted.
const UNIT_BYTES: u64 = 1 << 10;

/// What was read of a file. It has its room until it is dropped.
#[derive(Debug)]
pub struct Content {
    bytes: Bytes,
    bytes_max: u64,
    room: Room,
}

/// Room for what was read, until it is dropped: for whoever keeps the bytes themselves.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub struct Room {
    _permit: OwnedSemaphorePermit,
}

/// How much of files is read. Clones have one room together.
#[derive(Clone)]
pub(super) struct Bounds {
    /// The most bytes of one file, and of what it unfolds to.
    pub(super) file_bytes_max: u64,
    units: u32,
    reading: Arc<Semaphore>,
    unfolding: Arc<Semaphore>,
}

impl Content {
    /// What was read, in its room, of a file that may unfold to so many bytes.
    pub(super) fn new(bytes: Bytes, bytes_max: u64, room: Room) -> Self {
        Self { bytes, bytes_max, room }
    }

    /// The most bytes that it may unfold to.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The bytes, and the room that they take.
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

/// What is said of a file that unfolds to more than that.
pub(super) fn unfolds_too_far(bytes_max: u64) -> String {
    format!("unfolds to more than the {bytes_max} bytes that are read (catalog.file_bytes_max)")
}

impl Default for Bounds {
    fn default() -> Self {
        Self::new(FILE_BYTES_MAX)
    }
}

impl Bounds {
    /// For files of so many bytes at most, which are read one at a time, or several that are as
    /// long together. The same goes for those that are unfolded.
    pub(super) fn new(file_bytes_max: u64) -> Self {
        // As many as a permit can be for, of which one is enough for whatever is asked for.
        let units = file_bytes_max.div_ceil(UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self {
            file_bytes_max,
            units,
            reading: Arc::new(Semaphore::new(units as usize)),
            unfolding: Arc::new(Semaphore::new(units as usize)),
        }
    }

    /// Waits for the room to read so many bytes.
    pub(super) async fn reading(&self, bytes: u64) -> Room {
        self.room(&self.reading, bytes).await
    }

    /// Waits for the room of a metadata file that unfolds to so many bytes.
    pub(super) async fn unfolding(&self, bytes: u64) -> Room {
        self.room(&self.unfolding, bytes).await
    }

    async fn room(&self, all: &Arc<Semaphore>, bytes: u64) -> Room {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(all).acquire_many_owned(units.min(self.units)).await;
        Room { _permit: permit.expect("the semaphore is never closed") }
    }

    /// Refuses a file of so many bytes, before it is read.
    pub(super) fn check(&self, location: &str, bytes: u64) -> Result<(), Error> {
        let max = self.file_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        Err(Error::unreadable(
            location,
            format!("has {bytes} bytes, and {max} are read at most (catalog.file_bytes_max)"),
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
    async fn who_would_read_more_than_there_is_room_for_waits() {
        let bounds = Bounds::new(64 << 10);
        let mut rooms = Vec::new();
        for _ in 0..4 {
            rooms.push(bounds.reading(16 << 10).await);
        }
        assert!(waits(bounds.clone().reading(1)).await, "clones have one room together");
        assert!(!waits(bounds.reading(0)).await, "an empty file takes none");
        rooms.pop();
        assert!(!waits(bounds.reading(16 << 10)).await);
        rooms.clear();
        assert!(!waits(bounds.reading(u64::MAX)).await, "nobody waits for what there never is");
    }

    #[tokio::test]
    async fn decompression_has_a_room_of_its_own_beside_that_of_reading() {
        let bounds = Bounds::new(64 << 10);
        let room = bounds.unfolding(64 << 10).await;
        assert!(waits(bounds.unfolding(1)).await);
        assert!(!waits(bounds.reading(1)).await, "reading has a room of its own");
        drop(room);
        assert!(!waits(bounds.unfolding(1)).await);
    }

    #[test]
    fn bounds_of_any_size_make_sense() {
        for max in [0, 1, 1 << 10, FILE_BYTES_MAX, u64::MAX] {
            let bounds = Bounds::new(max);
            assert!(bounds.units >= 1, "{max}");
            assert!(bounds.check("s3://b/x", max).is_ok(), "{max}");
        }
        let refused = Bounds::new(10).check("s3://b/x", 11).expect_err("it is too long");
        let expected = "s3://b/x: has 11 bytes, and 10 are read at most (catalog.file_bytes_max)";
        assert_eq!(refused.to_string(), expected);
    }
}
