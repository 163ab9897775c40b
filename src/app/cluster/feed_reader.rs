//! [`FeedReader`]: receives the changes of the writer, for one replica.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use bytes::BytesMut;
use futures::channel::mpsc::{self, UnboundedSender};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::time::timeout;

use super::peers::Peers;
use super::replication_messages::Changes;
use slateberg_base::error_chain::Cause;
use slateberg_cluster::WriterRecord;

/// A feed without a message for this long has ended.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Asks the writer for its position.
pub(super) type Questions = UnboundedSender<Result<Frame<Bytes>, Infallible>>;

/// Sends a question. The answer is a part of the feed.
pub(super) fn ask(questions: &Questions, number: u64) {
    let question = Bytes::copy_from_slice(&number.to_be_bytes());
    // Without a receiver, the feed has ended.
    let _ = questions.unbounded_send(Ok(Frame::data(question)));
}

/// Receives the changes of the writer.
pub(super) struct FeedReader {
    response: reqwest::Response,
    received: BytesMut,
}

impl FeedReader {
    /// Requests the changes of this writer.
    pub(super) async fn open(
        peers: &Peers,
        writer: &WriterRecord,
    ) -> Result<(Self, Questions), Cause> {
        let (questions, body) = mpsc::unbounded();
        let response = peers.feed(&writer.peer, reqwest::Body::wrap(StreamBody::new(body))).await?;
        Ok((Self { response, received: BytesMut::new() }, questions))
    }

    /// Waits for the next message. Can be cancelled.
    pub(super) async fn next(&mut self) -> Result<Changes, Cause> {
        loop {
            if let Some(changes) = Changes::take(&mut self.received)? {
                return Ok(changes);
            }
            match timeout(SILENCE_MAX, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.received.extend_from_slice(&bytes),
                Ok(Ok(None)) => return Err(Cause::new("the writer ended the feed of its changes")),
                Ok(Err(error)) => return Err(Cause::new(error)),
                Err(_) => return Err(Cause::new("the writer sent nothing for too long")),
            }
        }
    }
}
