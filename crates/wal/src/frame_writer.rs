//! The part of a writer that is the same for all logs: it collects rows into frames, passes the
//! frames to a sink, and reports the status.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
pub(super) struct FrameWriter<S> {
    buffer: Builder,
    next_number: u64,
    epoch: u64,
    /// Keys that seal each frame.
    keys: Option<Arc<Keys>>,
    shared: Arc<Shared>,
    sink: S,
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
    /// Notified after the status has changed and the listeners were called.
    progress: watch::Sender<()>,
    /// Size of the collected and unwritten rows, in bytes.
    waiting_bytes: AtomicUsize,
}

impl<S: FrameSink> FrameWriter<S> {
    /// Creates a writer whose first frame has the number `last + 1`.
    pub(super) fn new(
        (last, epoch): (u64, u64),
        keys: Option<Arc<Keys>>,
        shared: Arc<Shared>,
        sink: S,
    ) -> Self {
        Self { buffer: Builder::new(), next_number: last + 1, epoch, keys, shared, sink }
    }

    fn send_buffered(&mut self) -> Result<(), WalError> {
        let buffered = std::mem::replace(&mut self.buffer, Builder::new());
        let (rows, last_sequence) = (buffered.rows(), buffered.last_sequence());
        let buffered_bytes = buffered.bytes() - HEADER;
        let number = self.next_number;
        let bytes = buffered.finish(number, self.epoch, self.keys.as_deref()).ok_or_else(|| {
            let too_long = io::Error::other("more than 4 GiB wait for one flush of the log");
            WalError::InternalError(Arc::new(too_long))
        })?;
        if self.sink.send(PendingFrame { number, bytes, rows, buffered_bytes, last_sequence }) {
            self.next_number += 1;
            return Ok(());
        }
        // The status has the reason, such as a fence.
        self.status()?;
        Err(WalError::Closed)
    }
}

#[async_trait]
impl<S: FrameSink> WalWriter for FrameWriter<S> {
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

    fn should_flush_memtable(&self, replay_after_wal_id: u64) -> bool {
        self.sink.is_long(replay_after_wal_id, self.next_number - 1)
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(Arc::clone(&self.shared)))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.shared.status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        self.sink.close(&self.shared).await;
        self.shared.close(WalError::Closed);
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
            progress: watch::Sender::new(()),
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
    }

    fn notify(&self, event: WalEvent) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(event.clone());
        }
        // A task that waits for a flush must resume only after the listeners were called.
        self.progress.send_replace(());
    }

    /// Waits until a frame is durable.
    pub(super) async fn wait_flushed(&self, number: u64) -> Result<(), WalError> {
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
