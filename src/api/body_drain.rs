//! Handles request bodies that are still unread when the response is ready, for example because the
//! request was rejected.
//!
//! A client sends the whole announced body regardless of the response, and an HTTP/1.1 client may
//! send its next request right after the body. If a server leaves the body unread, it has to close
//! the connection, and the client's next request fails unexpectedly. Therefore, the server reads
//! and discards the rest of the body if it is short. Otherwise, the response announces `Connection:
//! close`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, StreamExt};

/// Maximum number of bytes to drain.
const DRAIN_BYTES_MAX: usize = 1 << 20;
/// Timeout for draining.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Slot for a body that was dropped before its end.
type RestSlot = Arc<Mutex<Option<BodyDataStream>>>;

/// The rest of a request's body.
pub struct UnreadBody {
    rest: Option<RestSlot>,
    /// Whether the announced length exceeds the maximum that the server drains.
    long: bool,
}

/// A body that stores itself in `rest` if it is dropped before its end.
struct TrackedBody {
    body: Option<BodyDataStream>,
    rest: RestSlot,
}

/// Wraps the body of a request, so that the server can drain the part that the handler leaves
/// unread.
pub fn track(request: Request) -> (Request, UnreadBody) {
    // In HTTP/2, each request has its own stream, so an unread body does not affect the next
    // request.
    let is_drainable = request.version() < Version::HTTP_2 && !request.body().is_end_stream();
    // A client that waits for `100 Continue` has not sent its body yet.
    if !is_drainable || request.headers().contains_key(header::EXPECT) {
        return (request, UnreadBody { rest: None, long: false });
    }
    let content_length = request.body().size_hint().lower();
    let long = usize::try_from(content_length).is_ok_and(|bytes| bytes > DRAIN_BYTES_MAX);
    let rest = RestSlot::default();
    let request = request.map(|body| {
        let body = Some(body.into_data_stream());
        Body::from_stream(TrackedBody { body, rest: Arc::clone(&rest) })
    });
    (request, UnreadBody { rest: Some(rest), long })
}

impl UnreadBody {
    /// Drains the rest of the body. If it is too long or too slow, adds `Connection: close` to the
    /// response.
    pub async fn drain(self, mut response: Response) -> Response {
        let Self { rest, long } = self;
        let rest = rest.and_then(|rest| rest.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(rest) = rest
            && (long
                || !tokio::time::timeout(DRAIN_TIMEOUT, read_to_end(rest)).await.unwrap_or(false))
        {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Drains a body. Returns false if it is too long.
async fn read_to_end(mut rest: BodyDataStream) -> bool {
    let mut bytes = 0;
    while let Some(chunk) = rest.next().await {
        bytes += chunk.map_or(DRAIN_BYTES_MAX, |chunk| chunk.len());
        if bytes > DRAIN_BYTES_MAX {
            return false;
        }
    }
    true
}

impl Stream for TrackedBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let next = body.poll_next_unpin(context);
        if !matches!(next, Poll::Ready(Some(Ok(_))) | Poll::Pending) {
            // After the end of the body, or after an error, nothing is left to drain.
            self.body = None;
        }
        next
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}
