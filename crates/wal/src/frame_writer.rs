//! The part of a writer that is the same for all logs: it collects rows into frames, passes the
//! frames to a sink, and reports the status.
//!
//! SlateDB appends rows and requests flushes in one task of its own. A [`LogFlusher`] flushes without
//! this task, which saves two messages between tasks for each flush.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use slatedb::RowEntry;
use slatedb::wal::{
    WalError, WalEvent, WalFlushResult, WalObserver, WalStatus, WalStatusListener, WalWriter,
};
use tokio::sync::watch;

use super::frame::{Builder, HEADER};
use slateberg_kms::keys::Keys;

/// Writes frames in the background, and reports each durable frame to [`Shared`], in order.
#[async_trait]
pub(super) trait FrameSink: Send {
    /// Accepts a frame. Returns `false` if the sink is closed.
    fn send(&mut self, frame: PendingFrame) -> bool;

    /// Whether too many frames follow the frame `replay_after` for a replay. The memtable is then
    /// flushed.
    fn is_long(&self, replay_after: u64, last: u64) -> bool;

    /// Waits until all accepted frames are written, or cannot be written.
    async fn close(&mut self, shared: &Shared);
}

/// Collects rows into frames for a sink.
pub(super) struct FrameWriter<S>(Arc<Frames<S>>);

/// The frames of a log. A [`FrameWriter`] and a [`LogFlusher`] share them.
struct Frames<S> {
    next: Mutex<NextFrame<S>>,
    shared: Arc<Shared>,
}

/// The rows of the next frame, and the sink that will write it.
struct NextFrame<S> {
    buffer: Builder,
    number: u64,
    epoch: u64,
    /// Keys that seal each frame.
    keys: Option<Arc<Keys>>,
    /// `None` if the log is closed.
    sink: Option<S>,
}

/// Flushes a log directly. Cheap to clone.
#[derive(Clone, Default)]
pub struct LogFlusher(Arc<OnceLock<Arc<dyn Flush>>>);

#[async_trait]
trait Flush: Send + Sync {
    async fn flush(&self) -> Result<(), WalError>;
}

/// A frame to append.
pub(super) struct PendingFrame {
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) rows: usize,
    /// Size of the rows before encryption, in bytes.
    pub(super) buffered_bytes: usize,
    pub(super) last_sequence: u64,
}

/// The status of the WAL, and its listeners.
pub(super) struct Shared {
    status: Mutex<WalStatus>,
    pub(super) listeners: Mutex<Vec<WalStatusListener>>,
    /// The last durable frame of which the listeners know. Notified when the log is closed, too.
    reported: watch::Sender<u64>,
    /// Size of the collected and unwritten rows, in bytes.
    waiting_bytes: AtomicUsize,
}

impl LogFlusher {
    /// Makes all rows durable that were appended before this call. When it returns, the listeners
    /// of the log know it.
    pub async fn flush(&self) -> Result<(), WalError> {
        // The log is opened before anything is appended.
        self.0.get().ok_or(WalError::Closed)?.flush().await
    }
}

impl<S: FrameSink + 'static> FrameWriter<S> {
    /// Creates a writer whose first frame has the number `last + 1`.
    pub(super) fn new(
        (last, epoch): (u64, u64),
        keys: Option<Arc<Keys>>,
        shared: Arc<Shared>,
        sink: S,
        flusher: &LogFlusher,
    ) -> Self {
        let (buffer, sink) = (Builder::new(), Some(sink));
        let next = Mutex::new(NextFrame { buffer, number: last + 1, epoch, keys, sink });
        let frames = Arc::new(Frames { next, shared });
        // SlateDB opens the writer of a log once.
        let _ = flusher.0.set(Arc::<Frames<S>>::clone(&frames));
        Self(frames)
    }
}

impl<S: FrameSink> Frames<S> {
    fn next(&self) -> MutexGuard<'_, NextFrame<S>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the collected rows to the sink. Returns the number of the last frame.
    fn send(&self) -> Result<u64, WalError> {
        self.shared.status()?;
        let mut next = self.next();
        if next.buffer.rows() > 0 {
            next.send(&self.shared)?;
        }
        Ok(next.number - 1)
    }
}

impl<S: FrameSink> NextFrame<S> {
    fn send(&mut self, shared: &Shared) -> Result<(), WalError> {
        let buffered = std::mem::replace(&mut self.buffer, Builder::new());
        let (rows, last_sequence) = (buffered.rows(), buffered.last_sequence());
        let buffered_bytes = buffered.bytes() - HEADER;
        let number = self.number;
        let bytes = buffered.finish(number, self.epoch, self.keys.as_deref()).ok_or_else(|| {
            let too_long = io::Error::other("more than 4 GiB wait for one flush of the log");
            WalError::InternalError(Arc::new(too_long))
        })?;
        let frame = PendingFrame { number, bytes, rows, buffered_bytes, last_sequence };
        if self.sink.as_mut().is_some_and(|sink| sink.send(frame)) {
            self.number += 1;
            return Ok(());
        }
        // The status has the reason, such as a fence.
        shared.status()?;
        Err(WalError::Closed)
    }
}

#[async_trait]
impl<S: FrameSink> Flush for Frames<S> {
    async fn flush(&self) -> Result<(), WalError> {
        let last = self.send()?;
        self.shared.wait_flushed(last).await
    }
}

#[async_trait]
impl<S: FrameSink + 'static> WalWriter for FrameWriter<S> {
    async fn append(&mut self, write_batch: &[RowEntry]) -> Result<(), WalError> {
        let Frames { shared, .. } = &*self.0;
        shared.status()?;
        let buffer = &mut self.0.next().buffer;
        let before = buffer.bytes();
        for row in write_batch {
            buffer.push(row);
        }
        shared.waiting_bytes.fetch_add(buffer.bytes() - before, Ordering::Relaxed);
        Ok(())
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        let wal_id = self.0.send()?;
        let shared = Arc::clone(&self.0.shared);
        let completion = Box::pin(async move { shared.wait_flushed(wal_id).await });
        Ok(WalFlushResult { wal_id, completion })
    }

    fn should_flush_memtable(&self, replay_after_wal_id: u64) -> bool {
        let next = self.0.next();
        let sink = next.sink.as_ref();
        sink.is_some_and(|sink| sink.is_long(replay_after_wal_id, next.number - 1))
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(Arc::clone(&self.0.shared)))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.shared.status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        let sink = self.0.next().sink.take();
        if let Some(mut sink) = sink {
            sink.close(&self.0.shared).await;
        }
        self.0.shared.close(WalError::Closed);
        Ok(())
    }
}

impl Shared {
    pub(super) fn new(last: u64) -> Self {
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
            reported: watch::Sender::new(last),
            waiting_bytes: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, WalStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> Result<WalStatus, WalStatus> {
        let mut status = self.lock().clone();
        status.estimated_bytes = self.waiting_bytes.load(Ordering::Relaxed);
        if status.closed_reason.is_some() { Err(status) } else { Ok(status) }
    }

    /// Records that a frame is durable, and notifies the listeners.
    pub(super) fn record_append(&self, append: &PendingFrame) {
        let PendingFrame { number, rows, buffered_bytes: bytes, .. } = *append;
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        tracing::trace!(frame = number, rows, bytes, "a frame of the log is durable");
        let status = {
            let mut status = self.lock();
            status.last_flushed_wal_id = number;
            status.last_flushed_seq = Some(append.last_sequence);
            status.clone()
        };
        self.notify(WalEvent::WalFlushed(status));
        self.reported.send_replace(number);
    }

    /// Closes permanently. Only the first reason is recorded.
    pub(super) fn close(&self, reason: WalError) {
        let status = {
            let mut status = self.lock();
            if status.closed_reason.is_some() {
                return;
            }
            status.closed_reason = Some(reason);
            status.clone()
        };
        self.notify(WalEvent::WalClosed(status));
        self.reported.send_modify(|_| ());
    }

    /// Calls the listeners. A task that waits for a flush must resume only afterwards.
    fn notify(&self, event: WalEvent) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(event.clone());
        }
    }

    /// Waits until a frame is durable.
    pub(super) async fn wait_flushed(&self, number: u64) -> Result<(), WalError> {
        let mut reported = self.reported.subscribe();
        loop {
            if *reported.borrow_and_update() >= number {
                return Ok(());
            }
            self.status()?;
            if reported.changed().await.is_err() {
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
