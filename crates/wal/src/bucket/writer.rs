//! The writer of a log in a bucket: puts several files at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesOrdered;
use slatedb::object_store::{self, ObjectStoreExt, PutMode};
use slatedb::wal::{WalError, WriterInit, WriterInitResult, WriterManifest};
use slatedb_common::retry::should_retry;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::log::{BucketLog, PUTS_MAX, last_consecutive, missing_file};
use super::requests::{RETRY_DELAY_MAX, RETRY_DELAY_MIN, retried, unavailable};
use crate::LogFlusher;
use crate::frame;
use crate::frame_writer::{FrameSink, FrameWriter, PendingFrame, Shared};
use slateberg_base::retry::Backoff;

/// Number of files after which a memtable is flushed, so that the next start need not replay more.
const REPLAYED_FILES_MAX: u64 = 4096;

/// Creates the writer when SlateDB requests it.
struct BucketWriterInit {
    log: BucketLog,
    flusher: LogFlusher,
}

/// Passes frames to the task that puts them.
struct BucketSink {
    puts: Option<mpsc::UnboundedSender<PendingFrame>>,
    task: Option<JoinHandle<()>>,
    is_closing: Arc<AtomicBool>,
}

/// The task that puts frames.
struct Putter {
    log: BucketLog,
    shared: Arc<Shared>,
    /// Whether retries have ended.
    is_closing: Arc<AtomicBool>,
}

#[async_trait]
impl WriterInit for BucketWriterInit {
    async fn fence_and_init(
        &self,
        manifest: &mut WriterManifest,
    ) -> Result<WriterInitResult, WalError> {
        // The manifest is fenced already, so an older writer cannot change this number.
        let after = manifest.replay_after_wal_id();
        let fence = self.log.fence(after, manifest).await?;
        let last = self.log.fill_after(fence, manifest).await?;
        let shared = Arc::new(Shared::new(last));
        let is_closing = Arc::<AtomicBool>::default();
        let putter = Putter {
            log: self.log.clone(),
            shared: Arc::clone(&shared),
            is_closing: Arc::clone(&is_closing),
        };
        let (puts, queue) = mpsc::unbounded_channel();
        let task = tokio::spawn(putter.run(queue));
        let sink = BucketSink { puts: Some(puts), task: Some(task), is_closing };
        // The object store seals the objects of an encrypted store.
        let position = (last, manifest.epoch());
        let writer = FrameWriter::new(position, None, shared, sink, &self.flusher);
        Ok(WriterInitResult {
            replay_iterator: Box::new(self.log.iterate(after + 1..=fence)),
            wal_writer: Box::new(writer),
        })
    }
}

/// The file that exists after an attempt to put it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// The file that was put.
    Own,
    /// A fence of any writer.
    Fence,
    /// A frame of another writer.
    Other,
}

impl BucketLog {
    /// Returns the factory of the writer, which fences its predecessor and replays the log, and the
    /// flusher of this writer.
    pub fn into_writer(self) -> (Box<dyn WriterInit>, LogFlusher) {
        let flusher = LogFlusher::default();
        (Box::new(BucketWriterInit { log: self, flusher: flusher.clone() }), flusher)
    }

    /// Fences the predecessor. Returns the number of the last fence. After it, there are no more files
    /// than a predecessor may have put.
    async fn fence(&self, after: u64, manifest: &mut WriterManifest) -> Result<u64, WalError> {
        let mut fences = 1;
        loop {
            let last = self.last_undamaged_after(after).await?;
            // A newer writer may have deleted files since this one has read the manifest.
            manifest.refresh().await?;
            let files = (last + 1..=last + fences).map(|number| (number, Bytes::new()));
            let put = self.put_all(files).await?;
            let is_fence = |existing| existing != Existing::Other;
            if let Some((number, _)) = put.into_iter().rfind(|(_, existing)| is_fence(*existing)) {
                return Ok(number);
            }
            // The predecessor was faster. If it is busy, it puts many files in the time of one put, so
            // a single fence might never be in time.
            fences = PUTS_MAX;
        }
    }

    /// Returns the number of the last file before the first missing one. Errors if the missing file must
    /// have existed ([`missing_file`]), because a fence in its place would hide the damage.
    async fn last_undamaged_after(&self, after: u64) -> Result<u64, WalError> {
        for is_last_attempt in [false, true] {
            let numbers = retried(|| self.numbers_after(after)).await?;
            match missing_file(&numbers, after) {
                None => return Ok(last_consecutive(&numbers, after)),
                // A long listing consists of several responses, between which files were put.
                Some(_) if !is_last_attempt => {}
                Some(missing) => return Err(WalError::DataError(Arc::new(self.damage(missing)))),
            }
        }
        Ok(after)
    }

    /// Puts empty frames after a fence under the numbers that the predecessor has not used. Returns the
    /// last number at which a file may be dead.
    async fn fill_after(
        &self,
        mut fence: u64,
        manifest: &mut WriterManifest,
    ) -> Result<u64, WalError> {
        let mut filled = fence;
        while filled < fence + PUTS_MAX - 1 {
            let numbers = filled + 1..=fence + PUTS_MAX - 1;
            filled = *numbers.end();
            let frames = numbers.map(|number| (number, frame::empty(number, manifest.epoch())));
            let put = self.put_all(frames).await?;
            // Another writer may have put a fence at the same time, after which more files are dead.
            let later = put.into_iter().rfind(|(_, existing)| *existing == Existing::Fence);
            fence = later.map_or(fence, |(number, _)| number);
        }
        // A newer writer changes the manifest before it puts a fence. An older one detects this change
        // before it puts a frame.
        manifest.refresh().await?;
        Ok(filled)
    }

    /// Puts several files at the same time, and retries temporary failures. Returns the numbers with
    /// the files that exist now.
    async fn put_all(
        &self,
        files: impl Iterator<Item = (u64, Bytes)>,
    ) -> Result<Vec<(u64, Existing)>, WalError> {
        let put = |(number, content)| async move {
            Ok((number, retried(|| self.put(number, &content)).await?))
        };
        try_join_all(files.map(put)).await
    }

    /// Puts a file unless it exists.
    async fn put(&self, number: u64, content: &Bytes) -> object_store::Result<Existing> {
        let path = self.file(number);
        let payload = content.clone().into();
        match self.object_store.put_opts(&path, payload, PutMode::Create.into()).await {
            Ok(_) => return Ok(Existing::Own),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        let found = match self.object_store.get(&path).await {
            Ok(found) => found.bytes().await?,
            // The put collided with another one, which may fail.
            Err(object_store::Error::NotFound { source, .. }) => {
                return Err(object_store::Error::Generic { store: "log", source });
            }
            Err(error) => return Err(error),
        };
        // An earlier attempt may have succeeded without a response. A frame contains the epoch of its
        // writer, so no other writer puts the same frame. All fences are the same.
        Ok(match found.is_empty() {
            true => Existing::Fence,
            false if found == *content => Existing::Own,
            false => Existing::Other,
        })
    }
}

impl Putter {
    /// Puts the frames of the queue, and reports them in order. Ends after the last frame, or after
    /// a put that cannot succeed.
    async fn run(self, mut queue: mpsc::UnboundedReceiver<PendingFrame>) {
        let mut puts = FuturesOrdered::new();
        let mut is_open = true;
        loop {
            // Puts that have ended, but wait for an earlier one, count as well: a new writer relies
            // on the number of files that follow a missing file.
            let has_room = puts.len() < PUTS_MAX as usize;
            tokio::select! {
                frame = queue.recv(), if is_open && has_room => match frame {
                    Some(frame) => puts.push_back(self.put(frame)),
                    None => is_open = false,
                },
                Some(put) = puts.next(), if !puts.is_empty() => match put {
                    Ok(frame) => self.shared.record_append(&frame),
                    Err(error) => return self.shared.close(error),
                },
                else => return,
            }
        }
    }

    /// Puts a frame, and retries temporary failures.
    async fn put(&self, mut frame: PendingFrame) -> Result<PendingFrame, WalError> {
        let content = Bytes::from(std::mem::take(&mut frame.bytes));
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            let error = match self.log.put(frame.number, &content).await {
                Ok(Existing::Own) => return Ok(frame),
                Ok(Existing::Fence | Existing::Other) => return Err(WalError::Fenced),
                Err(error) => error,
            };
            if !should_retry(&error) || self.is_closing.load(Ordering::Relaxed) {
                return Err(unavailable(error));
            }
            tracing::debug!(file = frame.number, %error, "retrying to put a file of the log");
            backoff.wait().await;
        }
    }
}

#[async_trait]
impl FrameSink for BucketSink {
    fn send(&mut self, frame: PendingFrame) -> bool {
        self.puts.as_ref().is_some_and(|puts| puts.send(frame).is_ok())
    }

    fn is_long(&self, replay_after: u64, last: u64) -> bool {
        last.saturating_sub(replay_after) >= REPLAYED_FILES_MAX
    }

    async fn close(&mut self, shared: &Shared) {
        self.is_closing.store(true, Ordering::Relaxed);
        // Dropping the sender ends the task after its last frame.
        drop(self.puts.take());
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            shared.close(WalError::InternalError(Arc::new(error)));
        }
    }
}

impl Drop for BucketSink {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }
}
