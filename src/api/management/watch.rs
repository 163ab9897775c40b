//! Handler of the change feed: a stream of server-sent events, or a long poll.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use axum::response::sse::{Event as SentEvent, Sse};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::Result;
use crate::api::encoded_events::with_data;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::query::Query;
use crate::api::peer::peer;
use crate::api::respond::NO_STORE;
use crate::api::state::ApiState;
use crate::api::watchers::WatcherPermit;
use crate::api::wire::watch::watch_response;
use slateberg_catalog as catalog;
use slateberg_catalog::error::Kind;
use slateberg_catalog::watch::{EventBatch, EventType, Position, Watch, WatchRequest};

/// Number of events in one response to a long poll, unless the client requests fewer.
const EVENTS_MAX: usize = 1000;
/// Time for which a long poll waits, unless the client requests another time.
const WAIT_SECONDS: u64 = 30;
const WAIT_SECONDS_MAX: u64 = 60;
/// Time after which a stream without events sends its position. Otherwise, the client's position
/// could become older than the oldest entry of the change log.
const PROGRESS_PERIOD: Duration = Duration::from_secs(15);
/// Time after which the client of an ended stream connects again.
const RETRY: Duration = Duration::from_secs(1);

/// A stream of events in progress.
struct Streaming {
    watch: Watch,
    state: ApiState,
    /// The time at which the stream ends. The client then has to connect again with a valid
    /// credential.
    end: Instant,
    next_progress: Instant,
    _permit: WatcherPermit,
}

/// `GET /management/v1/watch`.
pub async fn watch(
    State(state): State<ApiState>,
    query: Query,
    headers: HeaderMap,
    extensions: Extensions,
    ReadOperation(operation): ReadOperation,
) -> Result<Response> {
    let max = bounded(&query, "max", EVENTS_MAX as u64, 1, EVENTS_MAX as u64)?;
    let wait = bounded(&query, "wait", WAIT_SECONDS, 0, WAIT_SECONDS_MAX)?;
    let is_stream = accepts_events(&headers);
    // When the client of a stream connects again, it uses the same URL and sends this header.
    let last = headers.get("last-event-id").filter(|_| is_stream);
    let last = last.and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let after = query.get("after").map(|after| after.into_owned());
    let request = WatchRequest {
        resource: query.get("resource").map(|resource| resource.into_owned()),
        types: query.all("type").collect(),
        after: last.map(ToOwned::to_owned).or(after),
        since_ms: None,
        connection: peer(&extensions).map(|client| client.address),
    };
    let permit = state.watchers.admit(&operation.principal)?;
    let watch = state.catalog.watches().watch(operation, &request).await?;
    if is_stream {
        return Ok(events(state, watch, permit));
    }
    let wait = if request.after.is_none() { 0 } else { wait };
    let max = usize::try_from(max).unwrap_or(EVENTS_MAX);
    poll(state, watch, (max, Duration::from_secs(wait)), permit).await
}

/// Responds with the next events. If there are none yet, responds immediately with a body that
/// waits for events. The handler has then responded, so the request no longer counts as a request
/// in flight.
async fn poll(
    state: ApiState,
    mut watch: Watch,
    (max, wait): (usize, Duration),
    permit: WatcherPermit,
) -> Result<Response> {
    let end = Instant::now() + wait;
    let batch = watch.read(max).await?;
    if is_response(&batch) || wait.is_zero() {
        return Ok((NO_STORE, Json(watch_response(batch))).into_response());
    }
    let waiting = async move {
        let _permit = permit;
        let mut batch = batch;
        while !is_response(&batch) && Instant::now() < end && !state.shutdown.has_begun() {
            wait_for_change(&state, &watch, end).await;
            batch = watch.read(max).await?;
        }
        serde_json::to_vec(&watch_response(batch)).map_err(catalog::Error::internal)
    };
    let body = Body::from_stream(stream::once(waiting));
    let json = HeaderValue::from_static("application/json");
    Ok((NO_STORE, [(header::CONTENT_TYPE, json)], body).into_response())
}

fn is_response(batch: &EventBatch) -> bool {
    !batch.events.is_empty() || !batch.caught_up
}

/// Waits until the watch has something to read, until `end`, or until the server shuts down.
async fn wait_for_change(state: &ApiState, watch: &Watch, end: Instant) {
    let changed = async {
        tokio::select! {
            () = watch.changed() => {}
            () = state.shutdown.wait() => {}
        }
    };
    // The caller reads events in both cases: after a change and after a timeout.
    let _ = timeout_at(end, changed).await;
}

/// Responds with a stream of events. The first event contains the position of the stream.
fn events(state: ApiState, watch: Watch, permit: WatcherPermit) -> Response {
    let now = Instant::now();
    let end = now + state.settings.watch_max();
    let first = progress(watch.position()).retry(RETRY);
    let next_progress = now + PROGRESS_PERIOD;
    let streaming = Streaming { watch, state, end, next_progress, _permit: permit };
    let later = stream::unfold(Some(streaming), |streaming| async {
        let mut streaming = streaming?;
        match streaming.next().await {
            Ok(Some(events)) => Some((events, Some(streaming))),
            Ok(None) => None,
            Err(error) => Some((vec![last_event(&error)], None)),
        }
    });
    let all = stream::once(async { vec![first] }).chain(later);
    let all = all.flat_map(stream::iter).map(Ok::<_, Infallible>);
    (NO_STORE, Sse::new(all)).into_response()
}

impl Streaming {
    /// Returns the next events. Returns `None` if the stream ends; the client then connects again.
    async fn next(&mut self) -> catalog::Result<Option<Vec<SentEvent>>> {
        loop {
            let batch = self.watch.read(EVENTS_MAX).await?;
            if self.state.shutdown.has_begun() || Instant::now() >= self.end {
                return Ok(None);
            }
            if !batch.events.is_empty() || Instant::now() >= self.next_progress {
                self.next_progress = Instant::now() + PROGRESS_PERIOD;
                return Ok(Some(self.sent_events(batch)));
            }
            if batch.caught_up {
                let end = self.end.min(self.next_progress);
                wait_for_change(&self.state, &self.watch, end).await;
            }
        }
    }

    fn sent_events(&self, batch: EventBatch) -> Vec<SentEvent> {
        if batch.events.is_empty() {
            return vec![progress(batch.position)];
        }
        let encoded = &self.state.watchers.events;
        batch.events.into_iter().map(|event| encoded.encoded(event)).collect()
    }
}

/// Returns the event that advances the position of a client.
fn progress(position: Position) -> SentEvent {
    let (name, position) = (EventType::PROGRESS.as_str(), position.to_string());
    let event = SentEvent::default().event(name).id(&position);
    with_data(event, &json!({ "type": name, "position": position }))
}

/// Returns the last event of a stream that cannot continue. Browsers use the event name `error` for
/// connection errors, so this event has another name.
fn last_event(error: &catalog::Error) -> SentEvent {
    let name = if error.kind() == Kind::PositionGone { "gone" } else { "closed" };
    let data = json!({ "type": name, "message": error.to_string() });
    with_data(SentEvent::default().event(name), &data)
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(','));
    types.any(|accepted| {
        let name = accepted.split(';').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Returns an optional number between two bounds.
fn bounded(query: &Query, name: &str, default: u64, min: u64, max: u64) -> Result<u64> {
    let Some(text) = query.get(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        ApiError::bad_request(format!(
            "Invalid query parameter {name}: expected a number from {min} to {max}, got '{text}'"
        ))
    })
}
