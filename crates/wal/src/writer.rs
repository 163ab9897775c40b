//! The writer of a local WAL: a thread appends frames and syncs them.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use slatedb::wal::{WalError, WriterInit, WriterInitResult, WriterManifest};

use super::JournalWriterInit;
use super::error::unavailable;
use super::frame_writer::{FrameSink, FrameWriter, PendingFrame, Shared};
use super::frames::read_after;
use super::mark::{AckPosition, Mark};
use super::open_segment::{AppendError, OpenSegment, SegmentFile};
use super::reader::JournalIterator;
use super::segment::Segment;
use super::state::JournalState;
use slateberg_base::io_failure::IoFailure;
use slateberg_base::retry::Backoff;

/// Size at which a new segment begins, in bytes.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Minimum and maximum delay before a retry.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// Passes frames to the thread that writes them.
struct JournalSink {
    state: JournalState,
    appends: Option<mpsc::Sender<PendingFrame>>,
    thread: Option<JoinHandle<()>>,
}

/// Creates the file of a segment.
type CreateSegment = Box<dyn FnMut(&Segment) -> io::Result<Box<dyn SegmentFile>> + Send>;

/// The state of the writing thread.
struct Appender {
    directory: PathBuf,
    create: CreateSegment,
    segment: Option<OpenSegment>,
    mark: Mark,
    state: JournalState,
    shared: Arc<Shared>,
    /// Released when the thread ends for any reason.
    _lock: File,
}

#[async_trait]
impl WriterInit for JournalWriterInit {
    async fn fence_and_init(
        &self,
        manifest: &mut WriterManifest,
    ) -> Result<WriterInitResult, WalError> {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lock = lock.ok_or(WalError::Closed)?;
        let after = manifest.replay_after_wal_id();
        let found = read_after(&self.directory, after, self.keys.as_deref())?;
        if let Some((segment, whole)) = &found.end {
            segment.cut(*whole).map_err(unavailable)?;
        }
        let last = found.last(after);
        let mut mark = Mark::open(&self.directory).map_err(unavailable)?;
        mark.write(found.ack_position(after)).map_err(unavailable)?;
        let shared = Arc::new(Shared::new(last));
        let appender = Appender {
            directory: self.directory.clone(),
            create: Box::new(|segment| Ok(Box::new(segment.create()?))),
            segment: None,
            mark,
            state: self.state.clone(),
            shared: Arc::clone(&shared),
            _lock: lock,
        };
        let (appends, queue) = mpsc::channel();
        let thread = thread::Builder::new().name("journal".to_owned());
        let thread = thread.spawn(move || appender.run(&queue)).map_err(unavailable)?;
        let journal =
            JournalSink { state: self.state.clone(), appends: Some(appends), thread: Some(thread) };
        let position = (last, manifest.epoch());
        let writer = FrameWriter::new(position, self.keys.clone(), shared, journal, &self.flusher);
        Ok(WriterInitResult {
            replay_iterator: Box::new(JournalIterator::new(found.frames)),
            wal_writer: Box::new(writer),
        })
    }
}

#[async_trait]
impl FrameSink for JournalSink {
    fn send(&mut self, frame: PendingFrame) -> bool {
        self.appends.as_ref().is_some_and(|appends| appends.send(frame).is_ok())
    }

    fn is_long(&self, _replay_after: u64, _last: u64) -> bool {
        false
    }

    async fn close(&mut self, shared: &Shared) {
        // A shutdown must not wait for disk space.
        self.state.give_up_on_space();
        // Dropping the sender ends the thread after its last frame.
        drop(self.appends.take());
        if let Some(thread) = self.thread.take() {
            let ended = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(ended, Ok(Ok(()))) {
                let error = io::Error::other("the thread that writes the journal has panicked");
                shared.close(WalError::InternalError(Arc::new(error)));
            }
        }
    }
}

impl Appender {
    /// Writes frames from the queue. Each frame is written only after the previous frame is synced.
    /// Otherwise, a crash could leave only the second of two unsynced frames on the disk, and the
    /// next start would report damage. Commits are batched into frames, so a second frame rarely
    /// waits.
    fn run(mut self, queue: &mpsc::Receiver<PendingFrame>) {
        while let Ok(append) = queue.recv() {
            if let Err(error) = self.append_or_wait(&append) {
                let directory = self.directory.display();
                tracing::error!(%directory, %error, "the journal cannot be written and is closed");
                return self.shared.close(unavailable(error));
            }
            self.shared.record_append(&append);
        }
    }

    /// Appends a frame, and retries temporary failures. Later frames wait in the queue.
    fn append_or_wait(&mut self, append: &PendingFrame) -> io::Result<()> {
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            let error = match self.append(append) {
                Ok(()) => {
                    self.state.record_success();
                    return Ok(());
                }
                Err(AppendError::Unwritten(error)) if self.is_retryable(&error) => error,
                Err(AppendError::Unwritten(error) | AppendError::Uncertain(error)) => {
                    return Err(error);
                }
            };
            self.state.record_stall(&self.directory, &error);
            thread::sleep(backoff.delay());
        }
    }

    fn is_retryable(&self, error: &io::Error) -> bool {
        self.state.waits_for_space() && IoFailure::of(error) != IoFailure::Final
    }

    fn append(&mut self, append: &PendingFrame) -> Result<(), AppendError> {
        if let Some(full) = self.segment.take_if(|segment| segment.bytes >= SEGMENT_BYTES_MAX) {
            full.finish().map_err(AppendError::Uncertain)?;
        }
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => {
                let first = append.number;
                let segment = Segment::new(&self.directory, first);
                let file = (self.create)(&segment).map_err(AppendError::Unwritten)?;
                // The mark is written durably, so that it names the segment even after a power
                // failure.
                let position = AckPosition { frame: first - 1, segment: first, end: 0 };
                let written = self.mark.write_durably(position);
                self.mark.report(written);
                none.insert(OpenSegment::new(file, first))
            }
        };
        segment.append(&append.bytes)?;
        let OpenSegment { first, bytes, .. } = *segment;
        let position = AckPosition { frame: append.number, segment: first, end: bytes };
        let written = self.mark.write(position);
        self.mark.report(written);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
