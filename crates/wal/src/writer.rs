//! The writer of a local WAL: collects rows into frames, which a thread appends and syncs.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use slatedb::RowEntry;
use slatedb::wal::{
    WalError, WalEvent, WalFlushResult, WalObserver, WalStatus, WalStatusListener, WalWriter,
    WriterInit, WriterInitResult, WriterManifest,
};
use tokio::sync::watch;

use super::JournalWriterInit;
use super::error::unavailable;
use super::frame::Builder;
use super::frames::read_after;
use super::mark::{AckPosition, Mark};
use super::open_segment::{AppendError, OpenSegment, SegmentFile};
use super::reader::JournalIterator;
use super::segment::Segment;
use super::state::JournalState;
use slateberg_base::io_failure::IoFailure;
use slateberg_base::retry::Backoff;
use slateberg_kms::keys::Keys;

/// Size at which a new segment begins, in bytes.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Minimum and maximum delay before a retry.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// A frame to append.
struct PendingFrame {
    number: u64,
    bytes: Vec<u8>,
    rows: usize,
    /// Size of the rows before encryption, in bytes.
    buffered_bytes: usize,
    last_sequence: u64,
}

/// The status of the WAL, and its listeners.
struct Shared {
    status: Mutex<WalStatus>,
    listeners: Mutex<Vec<WalStatusListener>>,
    /// Notified after the status has changed and the listeners were called.
    progress: watch::Sender<()>,
    /// Size of the collected and unwritten rows, in bytes.
    waiting_bytes: AtomicUsize,
}

/// Collects rows into frames. The thread that receives the frames from `appends` writes them.
struct JournalWriter {
    buffer: Builder,
    next_number: u64,
    epoch: u64,
    keys: Option<Arc<Keys>>,
    state: JournalState,
    shared: Arc<Shared>,
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
        let writer = JournalWriter {
            buffer: Builder::new(),
            next_number: last + 1,
            epoch: manifest.epoch(),
            keys: self.keys.clone(),
            state: self.state.clone(),
            shared,
            appends: Some(appends),
            thread: Some(thread),
        };
        Ok(WriterInitResult {
            replay_iterator: Box::new(JournalIterator::new(found.frames)),
            wal_writer: Box::new(writer),
        })
    }
}

#[async_trait]
impl WalWriter for JournalWriter {
    async fn append(&mut self, write_batch: &[RowEntry]) -> Result<(), WalError> {
        self.status()?;
        let before = self.buffer.bytes();
        for row in write_batch {
            self.buffer.push(row);
        }
        let grown = self.buffer.bytes() - before;
        self.shared.waiting_bytes.fetch_add(grown, Ordering::Relaxed);
        Ok(())
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        self.status()?;
        if self.buffer.rows() > 0 {
            self.send_buffered()?;
        }
        let wal_id = self.next_number - 1;
        let shared = Arc::clone(&self.shared);
        let completion = Box::pin(async move { shared.wait_flushed(wal_id).await });
        Ok(WalFlushResult { wal_id, completion })
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(Arc::clone(&self.shared)))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.shared.status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        // A shutdown must not wait for disk space.
        self.state.give_up_on_space();
        // Dropping the sender ends the thread after its last frame.
        drop(self.appends.take());
        if let Some(thread) = self.thread.take() {
            let ended = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(ended, Ok(Ok(()))) {
                let error = io::Error::other("the thread that writes the journal has panicked");
                self.shared.close(WalError::InternalError(Arc::new(error)));
            }
        }
        self.shared.close(WalError::Closed);
        Ok(())
    }
}

impl JournalWriter {
    fn send_buffered(&mut self) -> Result<(), WalError> {
        let buffered = std::mem::replace(&mut self.buffer, Builder::new());
        let (rows, last_sequence) = (buffered.rows(), buffered.last_sequence());
        let buffered_bytes = buffered.bytes() - super::frame::HEADER;
        let number = self.next_number;
        let bytes = buffered.finish(number, self.epoch, self.keys.as_deref()).ok_or_else(|| {
            let too_long = io::Error::other("more than 4 GiB wait for one flush of the journal");
            WalError::InternalError(Arc::new(too_long))
        })?;
        let append = PendingFrame { number, bytes, rows, buffered_bytes, last_sequence };
        let sent = self.appends.as_ref().map(|appends| appends.send(append));
        if !matches!(sent, Some(Ok(()))) {
            return Err(WalError::Closed);
        }
        self.next_number += 1;
        Ok(())
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

impl Shared {
    fn new(last: u64) -> Self {
        let status = WalStatus {
            closed_reason: None,
            estimated_bytes: 0,
            last_flushed_wal_id: last,
            last_flushed_seq: None,
            buffered_wal_entries_count: 0,
        };
        Self {
            status: Mutex::new(status),
            listeners: Mutex::default(),
            progress: watch::Sender::new(()),
            waiting_bytes: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, WalStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        let mut status = self.lock().clone();
        status.estimated_bytes = self.waiting_bytes.load(Ordering::Relaxed);
        if status.closed_reason.is_some() { Err(status) } else { Ok(status) }
    }

    /// Records that a frame is synced, and notifies the listeners.
    fn record_append(&self, append: &PendingFrame) {
        let PendingFrame { number, rows, buffered_bytes: bytes, .. } = *append;
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        tracing::trace!(frame = number, rows, bytes, "a frame of the journal is synced");
        let status = {
            let mut status = self.lock();
            status.last_flushed_wal_id = number;
            status.last_flushed_seq = Some(append.last_sequence);
            status.clone()
        };
        self.notify(WalEvent::WalFlushed(status));
    }

    /// Closes permanently. Only the first reason is recorded.
    fn close(&self, reason: WalError) {
        let status = {
            let mut status = self.lock();
            if status.closed_reason.is_some() {
                return;
            }
            status.closed_reason = Some(reason);
            status.clone()
        };
        self.notify(WalEvent::WalClosed(status));
    }

    fn notify(&self, event: WalEvent) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(event.clone());
        }
        // A task that waits for a flush must resume only after the listeners were called.
        self.progress.send_replace(());
    }

    /// Waits until a frame is synced.
    async fn wait_flushed(&self, number: u64) -> Result<(), WalError> {
        let mut progress = self.progress.subscribe();
        loop {
            let status = self.lock().clone();
            if status.last_flushed_wal_id >= number {
                return Ok(());
            }
            if let Some(reason) = status.closed_reason {
                return Err(reason);
            }
            if progress.changed().await.is_err() {
                return Err(WalError::Closed);
            }
        }
    }
}

struct Observer(Arc<Shared>);

impl WalObserver for Observer {
    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.status()
    }

    fn subscribe(&self, listener: WalStatusListener) -> Result<(), WalError> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
