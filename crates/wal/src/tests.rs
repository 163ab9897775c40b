//! Tests of the recovery of a local WAL after a crash, and of the rejection of a damaged WAL.

use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use slatedb::wal::{WalFileRange, WalGc};
use slatedb::{RowEntry, ValueDeletable};
use tempfile::TempDir;

use super::frame::Builder;
use super::frames::read_after;
use super::gc::JournalGc;
use super::segment::Segment;

fn row(seq: u64, key: &str, value: Option<&str>) -> RowEntry {
    let value = match value {
        Some(value) => ValueDeletable::Value(Bytes::copy_from_slice(value.as_bytes())),
        None => ValueDeletable::Tombstone,
    };
    RowEntry {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value,
        seq,
        create_ts: Some(-1),
        expire_ts: None,
    }
}

/// Returns the rows of the frame with this number.
fn rows_of(number: u64) -> Vec<RowEntry> {
    let text = format!("value {number}");
    vec![row(2 * number, "put", Some(&text)), row(2 * number + 1, "deleted", None)]
}

fn frame(number: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    rows_of(number).iter().for_each(|row| builder.push(row));
    builder.finish(number, 7, None).expect("few rows")
}

/// Writes a segment with these frames.
fn write(directory: &Path, numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let segment = Segment::new(directory, *numbers.start());
    let bytes: Vec<u8> = numbers.flat_map(frame).collect();
    std::fs::write(segment.path, &bytes).expect("there is room");
    bytes
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("there is room")
}

/// Returns the numbers of the frames after `after`, and checks the rows of each.
fn read(directory: &Path, after: u64) -> Result<Vec<u64>, String> {
    let found = read_after(directory, after, None).map_err(|error| error.to_string())?;
    let check = |frame: &super::frame::Frame| {
        assert_eq!(frame.rows(), Some(rows_of(frame.number)));
        frame.number
    };
    Ok(found.frames.iter().map(check).collect())
}

#[test]
fn frames_after_a_position_are_read_in_order() {
    let directory = directory();
    write(directory.path(), 5..=6);
    write(directory.path(), 7..=9);
    assert_eq!(read(directory.path(), 4), Ok(vec![5, 6, 7, 8, 9]));
    assert_eq!(
        read(directory.path(), 5),
        Ok(vec![6, 7, 8, 9]),
        "frames in sorted runs are left out"
    );
    assert_eq!(read(directory.path(), 7), Ok(vec![8, 9]), "a segment that ends there is left out");
    assert_eq!(read(directory.path(), 9), Ok(vec![]));
    assert_eq!(read(&directory.path().join("nowhere"), 0), Ok(vec![]));
}

#[test]
fn truncated_write_is_ignored() {
    let directory = directory();
    let bytes = write(directory.path(), 1..=3);
    let path = Segment::new(directory.path(), 1).path;
    let sizes = (1..=3).map(|number| frame(number).len());
    let ends: Vec<usize> = sizes
        .scan(0, |end, size| {
            *end += size;
            Some(*end)
        })
        .collect();
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).expect("there is room");
        let whole = ends.iter().filter(|end| **end <= length).count() as u64;
        assert_eq!(read(directory.path(), 0), Ok((1..=whole).collect()), "{length} bytes");
    }
}

#[test]
fn frame_with_a_missing_sector_is_ignored() {
    let directory = directory();
    let mut builder = Builder::new();
    builder.push(&row(1, "key", Some(&"x".repeat(2000))));
    let mut bytes = builder.finish(1, 7, None).expect("few rows");
    let path = Segment::new(directory.path(), 1).path;
    bytes[512..1024].fill(0);
    std::fs::write(&path, &bytes).expect("there is room");
    assert_eq!(read(directory.path(), 0), Ok(vec![]));
    bytes.fill(0);
    std::fs::write(&path, &bytes).expect("there is room");
    assert_eq!(read(directory.path(), 0), Ok(vec![]));
}

#[test]
fn flipped_bit_in_a_frame_is_rejected() {
    let directory = directory();
    let bytes = write(directory.path(), 1..=3);
    let path = Segment::new(directory.path(), 1).path;
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        std::fs::write(&path, &flipped).expect("there is room");
        let error = read(directory.path(), 0).expect_err("a frame was damaged");
        assert!(error.contains("damaged"), "byte {at}: {error}");
    }
}

#[test]
fn torn_end_is_rejected_except_in_the_last_segment() {
    let directory = directory();
    let bytes = write(directory.path(), 1..=2);
    std::fs::write(Segment::new(directory.path(), 1).path, &bytes[..bytes.len() - 1])
        .expect("room");
    write(directory.path(), 3..=3);
    let error = read(directory.path(), 0).expect_err("frame 2 is incomplete");
    assert!(error.contains("frame 2"), "{error}");
}

#[test]
fn missing_segment_is_rejected() {
    let directory = directory();
    write(directory.path(), 1..=2);
    write(directory.path(), 4..=5);
    assert!(read(directory.path(), 0).is_err_and(|refused| refused.contains("frame 3")));
    assert_eq!(read(directory.path(), 3), Ok(vec![4, 5]), "the missing frame is not needed");
    std::fs::remove_file(Segment::new(directory.path(), 1).path).expect("it is there");
    assert!(read(directory.path(), 2).is_err_and(|refused| refused.contains("frame 3")));
}

#[tokio::test]
async fn unreferenced_segments_are_deleted() {
    let directory = directory();
    for first in [1, 3, 5, 7] {
        write(directory.path(), first..=first + 1);
    }
    let left = || {
        let segments = Segment::list(directory.path()).expect("it is there");
        segments.iter().map(|segment| segment.first).collect::<Vec<_>>()
    };
    let collector = JournalGc::new(directory.path().to_owned());
    let collect = async |ranges: &[WalFileRange], min_age| {
        let collected = collector.collect(ranges.to_vec(), min_age, false).await;
        collected.expect("segments can be deleted");
    };
    let now = WalFileRange(Bound::Included(6), Bound::Unbounded);
    collect(std::slice::from_ref(&now), Duration::from_secs(3600)).await;
    assert_eq!(left(), [1, 3, 5, 7], "they are too young");
    let checkpoint = WalFileRange(Bound::Excluded(2), Bound::Excluded(4));
    collect(&[now.clone(), checkpoint], Duration::ZERO).await;
    assert_eq!(left(), [3, 5, 7], "a checkpoint needs frame 3");
    collect(&[now], Duration::ZERO).await;
    assert_eq!(left(), [5, 7]);
    collect(&[], Duration::ZERO).await;
    assert_eq!(left(), [7], "the last segment still grows");
}
