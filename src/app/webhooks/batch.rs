//! [`Batch`]: events in the form in which webhooks send them, as a JSON batch of `CloudEvents` 1.0.

use bytes::Bytes;

use crate::api::wire::watch::watch_event;
use crate::app::cloud_events::{cloud_event, event_id};
use slateberg_catalog::watch::{Event, Position};

/// The media type of a batch.
pub(super) const MEDIA_TYPE: &str = "application/cloudevents-batch+json";
/// Maximum number of events in a batch.
pub(super) const EVENTS_MAX: usize = 100;
/// Maximum size of a batch, in bytes. A batch with only one event can be larger.
const BYTES_MAX: usize = 256 << 10;

/// Events that are sent in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    /// The id of the request. It is the same in all attempts.
    pub(super) id: String,
    /// The body of the request.
    pub(super) body: Bytes,
    /// Number of events.
    pub(super) count: usize,
    /// The position after the events. `None` if further events of the same transaction follow in
    /// the next batch.
    pub(super) position: Option<Position>,
}

/// Collects events until a batch is full.
#[derive(Default)]
struct Builder {
    full: Vec<Batch>,
    events: Vec<Vec<u8>>,
    bytes: usize,
}

/// Returns the events in batches. The events of a transaction are in the same batch, unless they do
/// not fit into one batch. `source` identifies the catalog.
pub(super) fn batches(events: Vec<Event>, source: &str) -> serde_json::Result<Vec<Batch>> {
    let mut builder = Builder::default();
    let (mut transaction, mut last_position) = (Vec::new(), None);
    for event in events {
        let position = event.position;
        transaction.push(event);
        let Some(position) = position else { continue };
        let encoded = encode(std::mem::take(&mut transaction), position, source)?;
        let bytes = encoded.iter().map(Vec::len).sum::<usize>() + encoded.len();
        if let Some(before) = last_position
            && !builder.has_room(encoded.len(), bytes)
        {
            builder.close(before, None);
        }
        for (event, number) in encoded.into_iter().zip(1..) {
            if !builder.has_room(1, event.len() + 1) {
                builder.close(position, Some(number));
            }
            builder.bytes += event.len() + 1;
            builder.events.push(event);
        }
        last_position = Some(position);
    }
    if let Some(position) = last_position {
        builder.close(position, None);
    }
    Ok(builder.full)
}

/// Returns the JSON of the events of a transaction.
fn encode(
    transaction: Vec<Event>,
    position: Position,
    source: &str,
) -> serde_json::Result<Vec<Vec<u8>>> {
    let encoded = transaction
        .into_iter()
        .enumerate()
        .map(|(index, event)| cloud_event(&watch_event(event), &event_id(position, index), source));
    encoded.collect()
}

impl Builder {
    fn has_room(&self, count: usize, bytes: usize) -> bool {
        self.events.is_empty()
            || (self.events.len() + count <= EVENTS_MAX && self.bytes + bytes < BYTES_MAX)
    }

    /// Completes a batch. `part` is set if the batch ends inside of the transaction that ends at
    /// `position`.
    fn close(&mut self, position: Position, part: Option<usize>) {
        if self.events.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.events);
        self.bytes = 0;
        let id = match part {
            None => position.to_string(),
            Some(part) => format!("{position}.{part}"),
        };
        self.full.push(Batch {
            id,
            count: events.len(),
            body: [&b"["[..], &events.join(&b","[..]), b"]"].concat().into(),
            position: part.is_none().then_some(position),
        });
    }
}
