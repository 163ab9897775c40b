//! Request bodies that are still unread when the response is ready, as after a rejected request.
//!
//! A client sends the whole announced body regardless of the response, and an HTTP/1.1 client may
//! send its next request behind it. A server that leaves the body unread has to close the
//! connection, and the client's next request fails unexpectedly. Therefore the server drains a
//! short rest, and announces `Connection: close` before a long one.

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
const BYTES_MAX: usize = 1 << 20;
/// Timeout for draining.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Slot for a body that was dropped before its end.
type Left = Arc<Mutex<Option<BodyDataStream>>>;

/// The rest of a request's body.
pub struct Unread {
    left: Option<Left>,
    /// Whether the announced length is more than the server drains.
    long: bool,
}

/// A body that stores itself in `left` if it is dropped before its end.
struct Watched {
    body: Option<BodyDataStream>,
    left: Left,
}

/// Wraps the body of a request to observe whether it is read.
pub fn watch(request: Request) -> (Request, Unread) {
    // In HTTP/2, each request has its own stream, which the response ends.
    let matters = request.version() < Version::HTTP_2 && !request.body().is_end_stream();
    // A client that waits for `100 Continue` has not sent its body yet.
    if !matters || request.headers().contains_key(header::EXPECT) {
        return (request, Unread { left: None, long: false });
    }
    let announced = request.body().size_hint().lower();
    let long = usize::try_from(announced).is_ok_and(|bytes| bytes > BYTES_MAX);
    let left = Left::default();
    let request = request.map(|body| {
        let body = Some(body.into_data_stream());
        Body::from_stream(Watched { body, left: Arc::clone(&left) })
    });
    (request, Unread { left: Some(left), long })
}

impl Unread {
    /// Drains a short rest. Otherwise adds `Connection: close` to the response.
    pub async fn over(self, mut answer: Response) -> Response {
        let Self { left, long } = self;
        let left = left.and_then(|left| left.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(rest) = left
            && (long || !tokio::time::timeout(TIME_MAX, read(rest)).await.unwrap_or(false))
        {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// Drains a body. Returns false if it is too long.
async fn read(mut rest: BodyDataStream) -> bool {
    let mut bytes = 0;
    while let Some(chunk) = rest.next().await {
        bytes += chunk.map_or(BYTES_MAX, |chunk| chunk.len());
        if bytes > BYTES_MAX {
            return false;
        }
    }
    true
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let next = body.poll_next_unpin(context);
        if !matches!(next, Poll::Ready(Some(Ok(_))) | Poll::Pending) {
            // After its end or an error, there is no rest to drain.
            self.body = None;
        }
        next
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}
