//! [`Activity`]: the state of a connection on which its deadlines depend.
//!
//! The stream and the requests of the connection update it, and `Deadlines` reads it. All fields
//! are atomics, so that a request needs no lock and no timer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Version;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::api::shutdown::ShutdownFlag;

/// The requests, reads and writes of a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// The shutdown of the port.
    shutdown: Arc<ShutdownFlag>,
    /// Requests with incomplete responses.
    requests: AtomicUsize,
    /// Number of completed requests.
    ended: AtomicUsize,
    /// Number of writes that the system has accepted.
    writes: AtomicUsize,
    /// Whether bytes have arrived since the last request began or ended.
    has_read: AtomicBool,
    /// Whether a write is blocked because the client does not read.
    is_stalled: AtomicBool,
    is_http2: AtomicBool,
}

/// The event that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client sends the rest of a request's header, or its first request.
    Header,
    /// The client sends a further request.
    Idle,
    /// The client reads a response.
    Stalled,
    /// The server responds.
    Request,
}

/// A phase, with a number that changes whenever the phase restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseEpoch {
    pub(super) phase: Phase,
    number: usize,
}

/// A request in progress. Dropping it ends the request.
pub(super) struct ActiveRequest(Arc<Activity>);

/// A response body. Its request is in progress until the body is dropped.
pub(super) struct CountedBody {
    body: Body,
    _request: ActiveRequest,
}

/// A connection's stream that records reads and writes in an [`Activity`].
pub(super) struct TrackedStream<T> {
    stream: T,
    activity: Arc<Activity>,
}

impl Activity {
    /// Creates the state of a new connection of a port with this shutdown.
    pub(super) fn new(shutdown: Arc<ShutdownFlag>) -> Self {
        Self { shutdown, ..Self::default() }
    }

    /// The current phase of the connection.
    pub(super) fn phase_epoch(&self) -> PhaseEpoch {
        let ended = self.ended.load(Ordering::Relaxed);
        if self.is_stalled.load(Ordering::Relaxed) {
            return PhaseEpoch {
                phase: Phase::Stalled,
                number: self.writes.load(Ordering::Relaxed),
            };
        }
        let phase = match self.requests.load(Ordering::Relaxed) {
            0 if ended == 0 => Phase::Header,
            // In HTTP/2, the received bytes may be frames that belong to no request, so they do not
            // show that the client sends a header.
            0 if self.has_read.load(Ordering::Relaxed)
                && !self.is_http2.load(Ordering::Relaxed) =>
            {
                Phase::Header
            }
            0 => Phase::Idle,
            _ => Phase::Request,
        };
        PhaseEpoch { phase, number: ended }
    }

    /// Whether the connection has several requests in progress.
    pub(super) fn is_concurrent(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 1
    }

    /// Starts a request of this HTTP version.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.has_read.store(false, Ordering::Relaxed);
        if version == Version::HTTP_2 {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        ActiveRequest(Arc::clone(self))
    }

    /// Records the outcome of a write.
    fn record_write<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.is_stalled.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        written
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let Self(activity) = self;
        // All bytes that have arrived so far belong to this request.
        activity.has_read.store(false, Ordering::Relaxed);
        activity.ended.fetch_add(1, Ordering::Relaxed);
        activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ActiveRequest {
    /// Whether the response has to announce the end of the connection. HTTP/2 has frames for this.
    pub(super) fn is_last(&self) -> bool {
        let Self(activity) = self;
        activity.shutdown.has_begun() && !activity.is_http2.load(Ordering::Relaxed)
    }

    /// Wraps the response's body. The request ends when the body is dropped.
    pub(super) fn wrap(self, body: Body) -> CountedBody {
        CountedBody { body, _request: self }
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<T> TrackedStream<T> {
    /// Wraps a stream.
    pub(super) fn new(stream: T, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TrackedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.activity.has_read.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TrackedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.record_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.activity.record_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_pending() {
            self.activity.is_stalled.store(true, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.activity.record_write(shut)
    }
}
