//! Sends the events of the change feed to a message broker, in their order and at least once.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::cursor_store::{self, CursorStore};
use super::feed::{Feed, backoff};
use super::sink::Sink;
use super::sink::message::{Message, SinkError};
use super::target::Target;
use crate::app::cloud_events::{cloud_event, event_id, event_source};
use crate::app::stop_signals::StopSignals;
use crate::cli::client::{ClientError, parse};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, print, print_warnings};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};
use slateberg_management::identity::ServerInfo;
use slateberg_management::watch::{WatchEvent, WatchResponse};

const SERVER_PATH: &str = "/management/v1/server";

/// The delivery of events to a broker.
struct Delivery<'a> {
    feed: &'a Feed,
    target: &'a Target,
    sink: Sink,
    cursor: CursorStore<'a>,
    /// Source of the events.
    source: String,
}

/// Sends events until the process gets a stop signal, or until the last event without a wait for
/// new ones.
pub(super) async fn run(
    feed: Feed,
    target: Target,
    name: String,
    after: Option<String>,
) -> Result<(), Failure> {
    let mut signals = StopSignals::listen();
    let started = tokio::select! {
        () = signals.wait() => return Ok(()),
        started = Delivery::start(&feed, &target, name, after) => started,
    };
    let mut delivery = started?;
    match delivery.deliver(&mut signals).await {
        Ok(()) | Err(Ended::Stopped) => delivery.cursor.store_last().await,
        Err(Ended::OfCursor(failure)) => Err(failure),
        Err(Ended::Other(failure)) => {
            if let Err(unstored) = delivery.cursor.store_last().await {
                print_warnings(&[unstored.to_string()]);
            }
            Err(failure)
        }
    }
}

/// The reason why a delivery has ended.
enum Ended {
    /// The process got a stop signal.
    Stopped,
    /// The cursor cannot be stored.
    OfCursor(Failure),
    /// Another failure.
    Other(Failure),
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Self {
        Self::Other(error.into())
    }
}

impl<'a> Delivery<'a> {
    async fn start(
        feed: &'a Feed,
        target: &'a Target,
        name: String,
        after: Option<String>,
    ) -> Result<Self, Failure> {
        let connection = &feed.connection;
        let server = connection.send("GET", SERVER_PATH, &Value::Null).await?;
        let source = event_source(parse::<ServerInfo>(server)?.catalog_id);
        let found = cursor_store::load(connection, &name).await?;
        let failed = |error: SinkError| Failure::new(error.exit(), error);
        let sink = Sink::connect(target).await.map_err(failed)?;
        let consumer = RandomIds.random();
        let cursor = match found {
            Some(cursor) => CursorStore::at(connection, consumer, cursor),
            None => {
                let position = match after {
                    Some(position) => position,
                    None => feed.poll(None).await?.next,
                };
                CursorStore::create(connection, consumer, name.clone(), position).await?
            }
        };
        if connection.output == Output::Table {
            print(&format!("sending events to {target}, with the cursor {name}\n"));
        }
        Ok(Self { feed, target, sink, cursor, source })
    }

    /// Sends events until there is a stop signal. Attempts to send end before the stop, so that the
    /// position is after all events that the broker has stored.
    async fn deliver(&mut self, signals: &mut StopSignals) -> Result<(), Ended> {
        let mut delays = backoff();
        loop {
            let after = self.cursor.position().to_owned();
            let WatchResponse { events, next, caught_up } = match self.poll(&after, signals).await?
            {
                Ok(response) => response,
                Err(error) if error.is_temporary() => {
                    print_warnings(&[format!("{error}. Retrying")]);
                    self.wait(delays.delay(), signals).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            delays = backoff();
            let messages = messages(&events, &self.source);
            let messages =
                messages.map_err(|error| Ended::Other(Failure::new(Exit::Failed, error)))?;
            self.send(&messages, signals).await?;
            self.cursor.advance(next);
            self.cursor.store_if_due().await.map_err(Ended::OfCursor)?;
            if self.feed.no_wait && caught_up {
                return Ok(());
            }
        }
    }

    /// Requests the next events. Stores the cursor while the server waits for events.
    async fn poll(
        &mut self,
        after: &str,
        signals: &mut StopSignals,
    ) -> Result<Result<WatchResponse, ClientError>, Ended> {
        let polling = self.feed.poll_or_resync(after);
        tokio::pin!(polling);
        loop {
            tokio::select! {
                polled = &mut polling => return Ok(polled),
                () = self.cursor.wait_due() => {}
                () = signals.wait() => return Err(Ended::Stopped),
            }
            self.cursor.store_if_due().await.map_err(Ended::OfCursor)?;
        }
    }

    /// Sends messages until the broker has stored them.
    async fn send(&mut self, messages: &[Message], signals: &mut StopSignals) -> Result<(), Ended> {
        let mut delays = backoff();
        let mut is_failing = false;
        loop {
            match self.sink.send(messages).await {
                Ok(()) => break,
                Err(SinkError::Unavailable(reason)) => {
                    print_warnings(&[format!("{reason}. Retrying")]);
                    is_failing = true;
                    self.wait(delays.delay(), signals).await?;
                }
                Err(error) => return Err(Ended::Other(Failure::new(error.exit(), error))),
            }
        }
        if is_failing {
            print_warnings(&[format!("{} accepts events again", self.target)]);
        }
        Ok(())
    }

    /// Waits before the next attempt. Stores the cursor if this is due.
    async fn wait(&mut self, delay: Duration, signals: &mut StopSignals) -> Result<(), Ended> {
        let waiting = sleep(delay);
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                () = &mut waiting => return Ok(()),
                () = self.cursor.wait_due() => {}
                () = signals.wait() => return Err(Ended::Stopped),
            }
            self.cursor.store_if_due().await.map_err(Ended::OfCursor)?;
        }
    }
}

impl Feed {
    /// Returns the events after a position. If the change feed no longer reaches the position,
    /// returns the event `resync` and the current position.
    async fn poll_or_resync(&self, after: &str) -> Result<WatchResponse, ClientError> {
        match self.poll(Some(after)).await {
            Err(ClientError::Rejected { status: 410, .. }) => {
                let next = self.poll(None).await?.next;
                let events = vec![resync(next.clone())];
                Ok(WatchResponse { events, next, caught_up: false })
            }
            other => other,
        }
    }
}

/// The event for a consumer that has missed changes.
fn resync(position: String) -> WatchEvent {
    WatchEvent {
        event_type: "resync".to_owned(),
        position: Some(position),
        ..WatchEvent::default()
    }
}

/// Returns the events as messages. The position of a transaction is that of its last event.
fn messages(events: &[WatchEvent], source: &str) -> serde_json::Result<Vec<Message>> {
    let mut messages = Vec::with_capacity(events.len());
    for transaction in events.split_inclusive(|event| event.position.is_some()) {
        let position = transaction.last().and_then(|last| last.position.as_ref());
        let Some(position) = position else { continue };
        for (index, event) in transaction.iter().enumerate() {
            let id = event_id(position, index);
            messages.push(Message {
                key: event.resource.as_ref().map(|resource| resource.id.to_string()),
                at_ms: event.at_ms.unwrap_or_else(|| SystemClock.now_ms()),
                body: cloud_event(event, &id, source)?.into(),
                id,
            });
        }
    }
    Ok(messages)
}
