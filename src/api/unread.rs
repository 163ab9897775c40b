//! Bodies that nobody has read by the time of the answer, as of a request that is refused at the door.
//!
//! A client sends the body that it has announced, whatever it is answered, and on HTTP/1.1 the next request
//! comes behind it on the same connection. A server that leaves it unread has to close the connection, and
//! the client, who does not know, sees its next request fail. So what is left of a short body is read, and
//! who sends a long one is told that the connection ends.

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

/// Bytes that are read and thrown away.
const BYTES_MAX: usize = 1 << 20;
/// For how long that may take.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Where a body is left by whoever gives it up.
type Left = Arc<Mutex<Option<BodyDataStream>>>;

/// What becomes of a request's body.
pub struct Unread {
    left: Option<Left>,
    /// Whether it was announced to be more than is thrown away.
    long: bool,
}

/// A body that is left behind when it is dropped before its end.
struct Watched {
    body: Option<BodyDataStream>,
    left: Left,
}

/// Keeps an eye on the body of a request.
pub fn watch(request: Request) -> (Request, Unread) {
    // In HTTP/2 an answer ends a request, and nothing else.
    let matters = request.version() < Version::HTTP_2 && !request.body().is_end_stream();
    // Who waits for a word before sending has not sent anything.
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
    /// Reads what is left, if that is little, and gives the answer as it is to be sent.
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

/// Reads a body to its end; false if that is too far away.
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
            // At its end, nothing is left of it.
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
