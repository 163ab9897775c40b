//! The segment to which the writer appends frames. Zeros behind the frames reserve the blocks of the
//! next frames.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Number of zeros that are written behind a frame that makes the file grow. The next frames are
/// written over these zeros, so that their syncs do not have to write a new file size.
pub(super) const ZEROS: u64 = 256 << 10;
/// Maximum size of a frame that is followed by zeros, in bytes. Longer frames would use up the
/// zeros quickly, and writing zeros first would double the number of written bytes.
pub(super) const ZEROED_FRAME_BYTES_MAX: usize = 32 << 10;

/// The file of a segment.
pub(super) trait SegmentFile: Send {
    /// Writes the bytes at an offset.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Truncates the file to this length.
    fn cut(&self, bytes: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

impl SegmentFile for File {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.seek(SeekFrom::Start(at))?;
        self.write_all(bytes)
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The reason why a frame was not appended.
pub(super) enum AppendError {
    /// No part of the frame is in the file, so it can be appended again.
    Unwritten(io::Error),
    /// The content of the disk is unknown, or a partial frame cannot be cut off.
    Uncertain(io::Error),
}

/// The segment to which frames are appended.
pub(super) struct OpenSegment {
    file: Box<dyn SegmentFile>,
    pub(super) first: u64,
    /// Size of the complete frames, in bytes.
    pub(super) bytes: u64,
    /// Size of the frames and the zeros behind them, in bytes.
    zeroed: u64,
}

impl OpenSegment {
    /// Begins a segment in an empty file. `first` is the number of its first frame.
    pub(super) fn new(file: Box<dyn SegmentFile>, first: u64) -> Self {
        Self { file, first, bytes: 0, zeroed: 0 }
    }

    /// Appends a frame durably.
    pub(super) fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        if let Err(error) = self.file.write(frame, self.bytes) {
            // The file may contain a partial frame. It is cut off, because no other frame may
            // follow a partial frame.
            return Err(match self.file.cut(self.bytes) {
                Ok(()) => {
                    self.zeroed = self.bytes;
                    AppendError::Unwritten(error)
                }
                Err(_) => AppendError::Uncertain(error),
            });
        }
        let end = self.bytes + frame.len() as u64;
        if end > self.zeroed {
            self.zeroed = end;
            if frame.len() <= ZEROED_FRAME_BYTES_MAX {
                self.write_zeros();
            }
        }
        self.file.sync().map_err(AppendError::Uncertain)?;
        self.bytes = end;
        Ok(())
    }

    /// Writes zeros at the end of the file. A failure, such as a full disk, does not affect the
    /// frames: without zeros, the next frame makes the file grow.
    fn write_zeros(&mut self) {
        match self.file.write(&vec![0; ZEROS as usize], self.zeroed) {
            Ok(()) => self.zeroed += ZEROS,
            Err(error) => {
                // The zeros that were written would take up the space that the next frames need.
                let is_cut = self.file.cut(self.zeroed).is_ok();
                tracing::debug!(%error, is_cut, "cannot write zeros behind a frame of the journal");
            }
        }
    }

    /// Cuts off the zeros behind the last frame before the next segment begins. A replay accepts
    /// the zeros, so a failure to cut is ignored. Older versions of slateberg accept them only in
    /// the last segment.
    pub(super) fn finish(&self) -> io::Result<()> {
        if self.file.cut(self.bytes).is_ok() { self.file.sync() } else { Ok(()) }
    }
}
