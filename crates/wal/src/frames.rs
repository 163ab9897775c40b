//! Reads the frames of consecutive segments, and detects missing and damaged frames.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use slatedb::wal::WalError;

use super::damage::{DamagedFile, RESTORE};
use super::error::unavailable;
use super::frame::{self, Frame, Unreadable};
use super::mark::{self, AckPosition};
use super::segment::Segment;
use slateberg_kms::keys::Keys;

/// Maximum number of times that a segment with an unreadable frame is read again, and the delay
/// after the first time. A server writes a frame in much less time.
const REREADS_MAX: u32 = 5;
const REREAD_DELAY: Duration = Duration::from_millis(10);

/// The frames of consecutive segments.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) frames: Vec<Frame>,
    /// The last segment that was read, and the number of its bytes that belong to complete frames.
    pub(super) end: Option<(Segment, u64)>,
}

impl Frames {
    /// Returns the number of the last frame, or `after` if there are no frames.
    pub(super) fn last(&self, after: u64) -> u64 {
        self.frames.last().map_or(after, |frame| frame.number)
    }

    /// Returns the position at which the last of these frames ends. The caller records it as the
    /// position up to which the WAL is acknowledged.
    pub(super) fn ack_position(&self, after: u64) -> AckPosition {
        let end = self.end.as_ref();
        AckPosition {
            frame: self.last(after),
            segment: end.map_or(0, |(segment, _)| segment.first),
            end: end.map_or(0, |(_, bytes)| *bytes),
        }
    }
}

/// Reads all frames after `after`. Errors if acknowledged frames are missing.
pub(super) fn read_after(
    directory: &Path,
    after: u64,
    keys: Option<&Keys>,
) -> Result<Frames, WalError> {
    // The mark must be read before the frames, because a server may acknowledge further frames
    // during this read. If the mark were read last, those frames would seem to be missing.
    let acknowledged = match mark::read(directory) {
        Ok(acknowledged) => acknowledged,
        Err(mark::Unreadable::Damaged(file)) => return Err(WalError::DataError(Arc::new(file))),
        Err(mark::Unreadable::Io(error)) => return Err(unavailable(error)),
    };
    let remaining = read_remaining(directory, after, keys)?;
    match acknowledged.and_then(|mark| mark::lost_frames(directory, mark, remaining.last(after))) {
        Some(lost) => Err(WalError::DataError(Arc::new(lost))),
        None => Ok(remaining),
    }
}

/// Reads the frames after `after` that still exist, without checking for missing frames at the end.
/// Only the last segment may end with an incomplete frame, because every segment was synced
/// completely before the next segment was created.
pub(super) fn read_remaining(
    directory: &Path,
    after: u64,
    keys: Option<&Keys>,
) -> Result<Frames, WalError> {
    let segments = Segment::list(directory).map_err(unavailable)?;
    let mut frames: Vec<Frame> = Vec::new();
    let mut end = None;
    for (index, segment) in segments.iter().enumerate() {
        let next = segments.get(index + 1);
        if next.is_some_and(|next| next.first <= after.saturating_add(1)) {
            continue;
        }
        let expected = frames.last().map(|last| last.number + 1);
        let follows = match expected {
            Some(expected) => segment.first == expected,
            None => segment.first <= after.saturating_add(1),
        };
        if !follows {
            let expected_sequence = expected.unwrap_or(after.saturating_add(1));
            return Err(damage(
                segment,
                format!(
                    "is not the next segment: the segment with frame {expected_sequence} is missing"
                ),
            ));
        }
        let read = || fs::read(&segment.path).map(Bytes::from).map_err(unavailable);
        let whole = read_frames(segment, next.is_none(), keys, &mut frames, read)?;
        end = Some((segment.clone(), whole));
    }
    frames.retain(|frame| frame.number > after);
    Ok(Frames { frames, end })
}

/// Reads the complete frames of one segment, and returns their total size in bytes. Errors if a
/// segment other than the last one has a torn end. `read` returns the content of the file.
pub(super) fn read_frames(
    segment: &Segment,
    last: bool,
    keys: Option<&Keys>,
    frames: &mut Vec<Frame>,
    mut read: impl FnMut() -> Result<Bytes, WalError>,
) -> Result<u64, WalError> {
    let mut bytes = read()?;
    let mut at = 0;
    let mut number = segment.first;
    let mut rereads = 0;
    loop {
        let found = frame::read(&bytes, at, keys);
        if last && rereads < REREADS_MAX && !matches!(found, Ok(_) | Err(Unreadable::End)) {
            // A running server writes frames over zeros, so the content may lack a part of a frame.
            if rereads > 0 {
                thread::sleep(REREAD_DELAY);
            }
            rereads += 1;
            let again = read()?;
            if again != bytes && again.len() >= at {
                bytes = again;
                continue;
            }
        }
        match found {
            Ok((frame, next)) if frame.number == number => {
                frames.push(frame);
                at = next;
                number += 1;
            }
            Ok((frame, _)) => {
                let reason =
                    format!("is damaged: it contains frame {} instead of {number}", frame.number);
                return Err(damage(segment, reason));
            }
            Err(Unreadable::End) => break,
            Err(Unreadable::Torn) if last && !is_followed_by_frame(&bytes, at, number, keys) => {
                break;
            }
            Err(Unreadable::Sealed(error)) => {
                return Err(damage(
                    segment,
                    format!("is damaged: frame {number} at byte {at}: {error}"),
                ));
            }
            Err(_) => {
                return Err(damage(segment, format!("is damaged: frame {number} at byte {at}")));
            }
        }
    }
    Ok(at as u64)
}

/// Whether a complete frame with a higher number follows an unreadable frame. In that case, the
/// unreadable frame was once complete on the disk, because a frame is written only after the
/// previous one is synced.
fn is_followed_by_frame(bytes: &Bytes, at: usize, number: u64, keys: Option<&Keys>) -> bool {
    let is_frame =
        |at| matches!(frame::read(bytes, at, keys), Ok((frame, _)) if frame.number > number);
    let magic = frame::magic(keys);
    let candidates = bytes[at..].windows(magic.len()).enumerate().skip(1);
    candidates.filter(|(_, window)| **window == magic).any(|(offset, _)| is_frame(at + offset))
}

fn damage(segment: &Segment, reason: String) -> WalError {
    WalError::DataError(Arc::new(DamagedFile {
        file: segment.path.display().to_string(),
        reason,
        advice: RESTORE,
    }))
}
