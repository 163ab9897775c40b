//! [`EncodedEvents`]: the newest events in the form in which streams send them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::response::sse::Event as SentEvent;

use super::wire::watch::watch_event;
use slateberg_catalog::watch::Event;

/// Number of events that are kept.
const KEPT_MAX: usize = 64;

/// The newest events in the form in which streams send them. Watches that select the same change at
/// nearly the same time, and whose callers have the same permissions, encode its event only once.
#[derive(Default)]
pub struct EncodedEvents {
    newest_first: Mutex<VecDeque<(Event, SentEvent)>>,
}

impl EncodedEvents {
    /// Returns the encoded form of an event.
    pub fn encoded(&self, event: Event) -> SentEvent {
        if let Some(sent) = self.find(&event) {
            return sent;
        }
        let sent = encode(event.clone());
        let mut newest_first = self.newest_first.lock().unwrap_or_else(PoisonError::into_inner);
        newest_first.truncate(KEPT_MAX - 1);
        newest_first.push_front((event, sent.clone()));
        sent
    }

    fn find(&self, event: &Event) -> Option<SentEvent> {
        let newest_first = self.newest_first.lock().unwrap_or_else(PoisonError::into_inner);
        let found = newest_first.iter().find(|(encoded, _)| encoded == event);
        found.map(|(_, sent)| sent.clone())
    }
}

fn encode(event: Event) -> SentEvent {
    let event = watch_event(event);
    let sent = with_data(SentEvent::default().event(&event.event_type), &event);
    match &event.position {
        Some(position) => sent.id(position),
        None => sent,
    }
}

/// Returns an event with this value as its data.
pub fn with_data(event: SentEvent, data: &impl serde::Serialize) -> SentEvent {
    event.json_data(data).expect("an event has no maps with keys other than strings")
}
