//! The feed of the writer's changes for one replica: a response without an end. In the body of the
//! request, the replica asks for the position of the writer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BytesMut};
use futures::{StreamExt, stream};
use tokio::time::sleep;

use super::catalog_services::CatalogServices;
use super::node::Node;
use super::replication_messages::{Changes, Position, Start, Version};
use slateberg_catalog::replicas::WriterState;
use slateberg_store::replication::{ReplicationEvent, Subscription};

/// Interval of messages without changes.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Number of events in a message, if several wait.
const EVENTS_MAX: usize = 256;
/// Size of a question.
const QUESTION_BYTES: usize = size_of::<u64>();

/// Sends the changes of the writer to one replica.
struct Feed {
    node: Arc<Node>,
    services: Arc<CatalogServices>,
    subscription: Subscription,
    /// The questions of the replica: numbers of [`QUESTION_BYTES`].
    questions: BodyDataStream,
    received: BytesMut,
    start: Option<Start>,
}

/// The reason why the writer sends a message.
enum Occasion {
    Event(ReplicationEvent),
    Question(u64),
    Heartbeat,
}

/// Responds with the changes of the catalog from now on. The response ends when this process is no
/// longer the writer, or if the replica is too slow. `None` if this catalog has no replicas.
/// `questions` is the body of the request.
pub(super) fn respond_with_feed(
    node: &Arc<Node>,
    services: &Arc<CatalogServices>,
    questions: Body,
) -> Option<Response> {
    let subscription = services.catalog().replicas().subscribe()?;
    let unpublished = subscription.unpublished.iter().copied().map(Version::of).collect();
    let feed = Feed {
        node: Arc::clone(node),
        services: Arc::clone(services),
        questions: questions.into_data_stream(),
        received: BytesMut::new(),
        start: Some(Start { unpublished }),
        subscription,
    };
    let messages = stream::unfold(feed, |mut feed| async {
        let message = feed.next().await?;
        Some((Ok::<Bytes, Infallible>(message), feed))
    });
    Some(Body::from_stream(messages).into_response())
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        let mut changes = Changes { start: self.start.take(), ..Changes::default() };
        if changes.start.is_some() {
            changes.released = self.subscription.from;
        } else {
            match self.occasion().await? {
                Occasion::Event(event) => changes.add(event),
                Occasion::Question(question) => {
                    changes.position = Some(answer(&self.node, &self.services, question).await?)
                }
                // Other sequence numbers may have become durable without rows.
                Occasion::Heartbeat => {
                    self.services.catalog().replicas().writer_state().await.ok()?;
                }
            }
            for _ in 1..EVENTS_MAX {
                let Some(event) = self.subscription.try_next() else { break };
                changes.add(event);
            }
        }
        changes.manifest_id = self.services.catalog().replicas().manifest_id();
        changes.policy_hash = self.services.catalog().policies().policy_hash();
        self.is_writer().then(|| changes.to_bytes())
    }

    /// Waits for the occasion of the next message. `None` if the feed has ended.
    async fn occasion(&mut self) -> Option<Occasion> {
        loop {
            tokio::select! {
                event = self.subscription.next() => return event.map(Occasion::Event),
                asked = self.questions.next() => {
                    self.received.extend_from_slice(&asked?.ok()?);
                    let mut newest = None;
                    while self.received.len() >= QUESTION_BYTES {
                        newest = Some(self.received.get_u64());
                    }
                    if let Some(question) = newest {
                        return Some(Occasion::Question(question));
                    }
                }
                () = sleep(HEARTBEAT) => return Some(Occasion::Heartbeat),
                () = self.services.shutdown() => return None,
            }
        }
    }

    fn is_writer(&self) -> bool {
        self.node.is_current(&self.services) && !self.services.has_closed()
    }
}

/// Answers a question of a replica. The lease proves that no other member has become the writer.
async fn answer(node: &Node, services: &CatalogServices, question: u64) -> Option<Position> {
    let is_valid = node.lease.is_valid();
    let state = services.catalog().replicas().writer_state().await;
    let WriterState { sequence, change_horizon } = state.ok()?;
    let is_valid = is_valid && node.lease.is_valid();
    Some(Position { question, sequence, change_horizon, is_valid })
}
