//! Tests of the recovery of a local WAL after a crash, and of the rejection of a damaged WAL.

use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use slatedb::wal::{WalFileRange, WalGc};
use slatedb::{RowEntry, ValueDeletable};
use tempfile::TempDir;

use super::frame::Builder;
use super::frames::{read_after, read_frames};
use super::gc::JournalGc;
use super::mark::{AckPosition, Mark};
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

/// Returns a frame that is longer than a disk sector.
fn long_frame(number: u64, length: usize) -> Vec<u8> {
    let mut builder = Builder::new();
    builder.push(&row(2 * number, "key", Some(&"x".repeat(length))));
    builder.finish(number, 7, None).expect("few rows")
}

/// Returns the numbers of all frames, without a check of their rows.
fn numbers(directory: &Path) -> Result<Vec<u64>, String> {
    let found = read_after(directory, 0, None).map_err(|error| error.to_string())?;
    Ok(found.frames.iter().map(|frame| frame.number).collect())
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
fn zeros_after_the_last_frame_are_the_end_of_every_segment() {
    let directory = directory();
    for (first, zeros) in [(1, 1), (3, 31), (5, 32), (7, 5000)] {
        let mut bytes = write(directory.path(), first..=first + 1);
        bytes.resize(bytes.len() + zeros, 0);
        let path = Segment::new(directory.path(), first).path;
        std::fs::write(path, &bytes).expect("there is room");
        assert_eq!(read(directory.path(), 0), Ok((1..=first + 1).collect()), "{zeros} zeros");
    }
    std::fs::write(Segment::new(directory.path(), 9).path, [0; 5000]).expect("there is room");
    assert_eq!(read(directory.path(), 0), Ok((1..=8).collect()), "a segment of zeros");
    std::fs::write(Segment::new(directory.path(), 5).path, [0; 5000]).expect("there is room");
    assert!(read(directory.path(), 0).is_err_and(|refused| refused.contains("frame 5")));
}

#[test]
fn write_over_zeros_that_a_power_failure_interrupted_is_ignored() {
    let directory = directory();
    let path = Segment::new(directory.path(), 1).path;
    // The header of the second frame is inside a sector, at the start of a sector, and in two
    // sectors.
    for first_length in [100, 1024, 1000] {
        let empty = long_frame(1, 0).len();
        let first = long_frame(1, first_length - empty);
        let (begin, second) = (first.len(), long_frame(2, 1200));
        assert_eq!(begin, first_length);
        let end = begin + second.len();
        let mut whole = [first, second].concat();
        whole.resize(end.next_multiple_of(4096), 0);
        let sectors = begin / 512..end.div_ceil(512);
        for missing in 0..1_u32 << sectors.len() {
            let mut bytes = whole.clone();
            for sector in sectors.clone() {
                if missing >> (sector - sectors.start) & 1 == 1 {
                    bytes[(sector * 512).max(begin)..(sector + 1) * 512].fill(0);
                }
            }
            std::fs::write(&path, &bytes).expect("there is room");
            let expected = if missing == 0 { vec![1, 2] } else { vec![1] };
            assert_eq!(numbers(directory.path()), Ok(expected), "{begin}: {missing:b}");
        }
    }
}

#[test]
fn flipped_bit_in_a_frame_before_zeros_is_rejected() {
    let directory = directory();
    let path = Segment::new(directory.path(), 1).path;
    let short: Vec<u8> = (1..=3).flat_map(frame).collect();
    // The last four bytes of the second header are zeros and at the start of a sector.
    let empty = long_frame(1, 0).len();
    let long = [long_frame(1, 512 - 28 - empty), long_frame(2, 1200)].concat();
    for frames in [short, long] {
        let zeros = vec![0; 5000];
        for at in 0..frames.len() {
            let mut flipped = [&frames[..], &zeros].concat();
            flipped[at] ^= 0x10;
            std::fs::write(&path, &flipped).expect("there is room");
            let error = numbers(directory.path()).expect_err("a frame was damaged");
            assert!(error.contains("damaged"), "byte {at}: {error}");
        }
        for at in frames.len()..frames.len() + zeros.len() {
            let mut flipped = [&frames[..], &zeros].concat();
            flipped[at] ^= 0x10;
            std::fs::write(&path, &flipped).expect("there is room");
            let whole = numbers(directory.path());
            let is_harmless = whole.as_ref().is_ok_and(|whole| whole.len() >= 2);
            assert!(is_harmless || whole.is_err(), "byte {at}: {whole:?}");
        }
    }
}

#[test]
fn acknowledged_frames_that_became_zeros_are_rejected() {
    let directory = directory();
    let journal = directory.path().join("journal");
    std::fs::create_dir(&journal).expect("there is room");
    let frames: Vec<_> = (1..=3).map(|number| long_frame(number, 1200)).collect();
    let length = frames[0].len();
    let mut whole = frames.concat();
    whole.resize(whole.len() + 5000, 0);
    let acknowledged = AckPosition { frame: 3, segment: 1, end: 3 * length as u64 };
    Mark::open(&journal).expect("there is room").write(acknowledged).expect("there is room");
    let path = Segment::new(&journal, 1).path;
    std::fs::write(&path, &whole).expect("there is room");
    assert_eq!(numbers(&journal), Ok(vec![1, 2, 3]));
    for first in 0..3 {
        for end in first + 1..=3 {
            let mut bytes = whole.clone();
            bytes[first * length..end * length].fill(0);
            std::fs::write(&path, &bytes).expect("there is room");
            let error = numbers(&journal).expect_err("acknowledged frames are missing");
            assert!(error.contains("segment"), "{first}..{end}: {error}");
            std::fs::remove_file(super::mark::path(&journal)).expect("it is there");
            let found = numbers(&journal);
            assert_eq!(found.is_ok(), end == 3, "without a mark, {first}..{end}: {found:?}");
            Mark::open(&journal).expect("room").write(acknowledged).expect("there is room");
        }
    }
}

#[test]
fn frame_that_is_written_during_the_read_is_read_again() {
    let segment = Segment::new(Path::new("journal"), 1);
    let (begin, second) = (long_frame(1, 900), long_frame(2, 900));
    let image = |written: usize| {
        let mut bytes = [&begin[..], &second[..written]].concat();
        bytes.resize(4096, 0);
        Bytes::from(bytes)
    };
    let numbers = |last, images: &[usize]| {
        let (mut frames, mut images) = (Vec::new(), images.iter());
        let read = || Ok(image(*images.next().expect("few reads")));
        let read = read_frames(&segment, last, None, &mut frames, read);
        read.map(|_| frames.len()).map_err(|error| error.to_string())
    };
    // The last sector is written in part, which an interrupted write cannot leave behind.
    let (whole, part) = (second.len(), second.len() - 10);
    assert_eq!(numbers(true, &[part, part + 1, whole]), Ok(2));
    assert_eq!(numbers(true, &[part, 0]), Ok(1), "the server has cut off a failed write");
    assert!(numbers(true, &[part, part]).is_err_and(|error| error.contains("damaged")));
    assert!(numbers(false, &[part]).is_err_and(|error| error.contains("damaged")));
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
