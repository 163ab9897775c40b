//! Figures of the change feed: the delay from the response to a commit until each watcher has the
//! event, and the memory of the server for each watcher.
//!
//! The watchers and the client that commits are in this process, so that all times come from one
//! clock. The client waits until all watchers have the event before it commits again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::bodies;
use crate::connection::{Call, CallError};
use crate::prepare;
use crate::process::usage;
use crate::target::{Target, TargetError};

/// Number of significant digits of the latencies.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Maximum time until all watchers have an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The path and query of each watch.
const WATCH: &str = "/management/v1/watch?type=table.committed";
/// Number of watches that are opened at the same time.
const OPENING_MAX: usize = 100;
/// The line of a server-sent event with the type of the commits.
const COMMITTED: &[u8] = b"event: table.committed";

/// Result of a measurement with one number of watchers.
pub struct WatchFigures {
    /// Number of watchers.
    pub watchers: usize,
    /// Number of connections that the watchers share. `None` if each has its own.
    pub connections: Option<usize>,
    /// Delays in microseconds from the response to a commit until a watcher has the event. 0 if the
    /// watcher has the event before the response.
    pub delays: Histogram<u64>,
    /// Durations of the commits, in microseconds.
    pub commits: Histogram<u64>,
    /// Resident memory of the server for each watcher, in KiB. `None` if the process is unknown.
    pub kib_per_watcher: Option<f64>,
}

impl WatchFigures {
    /// Returns the figures as JSON.
    pub fn json(&self, server: &str) -> Value {
        let quantile = |of: &Histogram<u64>, quantile| of.value_at_quantile(quantile);
        json!({
            "server": server,
            "scenario": "watch",
            "watchers": self.watchers,
            "connections": self.connections.unwrap_or(self.watchers),
            "events": self.delays.len(),
            "delay_p50_us": quantile(&self.delays, 0.5),
            "delay_p99_us": quantile(&self.delays, 0.99),
            "delay_max_us": self.delays.max(),
            "commits": self.commits.len(),
            "commit_p50_us": quantile(&self.commits, 0.5),
            "commit_p99_us": quantile(&self.commits, 0.99),
            "rss_kib_per_watcher": self.kib_per_watcher,
        })
    }
}

/// Measures a number of watchers of one table. They share this number of HTTP/2 connections, or each
/// of them has its own HTTP/1.1 connection.
///
/// # Errors
///
/// Errors if the server rejects a watch or a commit, or if a watcher does not get an event.
pub async fn measure(
    target: &Target,
    watchers: usize,
    connections: Option<usize>,
    commits: u64,
) -> Result<WatchFigures, TargetError> {
    let namespace = target.unique_name(&format!("watched{watchers}"));
    prepare::tables(target, &namespace, 1, 2).await?;
    let before = usage(&target.pids).map(|usage| usage.rss_mib);
    let (sender, mut arrivals) = unbounded_channel();
    let watches = open_watches(target, watchers, connections, &sender).await?;
    let after = usage(&target.pids).map(|usage| usage.rss_mib);
    let mut figures = WatchFigures {
        watchers,
        connections,
        delays: histogram(),
        commits: histogram(),
        kib_per_watcher: before.zip(after).and_then(|(before, after)| {
            (watchers > 0).then(|| (after - before) * 1024.0 / watchers as f64)
        }),
    };
    let (path, mut connection) = (target.table(&namespace, "t_0"), target.connect().await?);
    for number in 0..commits {
        let began = Instant::now();
        let call = Call::post(&path, bodies::set_property(number));
        let response = connection.call(&call).await?;
        let committed = Instant::now();
        if !response.is_success() {
            let (what, status) = (format!("POST {path}"), response.status);
            return Err(TargetError::UnexpectedStatus { what, status, body: response.excerpt() });
        }
        record(&mut figures.commits, committed - began);
        wait_for_event(&mut figures.delays, &mut arrivals, watchers, committed).await?;
    }
    drop(watches);
    Ok(figures)
}

async fn wait_for_event(
    delays: &mut Histogram<u64>,
    arrivals: &mut UnboundedReceiver<Instant>,
    watchers: usize,
    committed: Instant,
) -> Result<(), TargetError> {
    for _ in 0..watchers {
        let arrived = timeout(EVENT_TIMEOUT, arrivals.recv()).await.ok().flatten();
        let arrived = arrived.ok_or_else(|| {
            TargetError::Unsupported("a watcher did not get the event of a commit".to_owned())
        })?;
        record(delays, arrived.saturating_duration_since(committed));
    }
    Ok(())
}

/// Opens the watches. Returns when the server has responded to all of them. They end when the
/// returned set is dropped.
async fn open_watches(
    target: &Target,
    watchers: usize,
    connections: Option<usize>,
    arrivals: &UnboundedSender<Instant>,
) -> Result<JoinSet<()>, TargetError> {
    let (mut watches, target) = (JoinSet::new(), Arc::new(target.clone()));
    let mut shared = Vec::new();
    for _ in 0..connections.unwrap_or(0).min(watchers) {
        shared.push(shared_connection(&target).await?);
    }
    let mut opened = 0;
    while opened < watchers {
        let mut opening = JoinSet::new();
        for number in opened..watchers.min(opened + OPENING_MAX) {
            let target = Arc::clone(&target);
            let shared = shared.get(number % shared.len().max(1)).cloned();
            opening.spawn(async move { open_watch(&target, shared).await });
        }
        while let Some(response) = opening.join_next().await {
            let response =
                response.map_err(|error| TargetError::Unsupported(error.to_string()))??;
            watches.spawn(read_events(response, arrivals.clone()));
            opened += 1;
        }
    }
    Ok(watches)
}

type SharedConnection = http2::SendRequest<Empty<Bytes>>;

async fn shared_connection(target: &Target) -> Result<SharedConnection, TargetError> {
    let io = TokioIo::new(stream(target).await?);
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), io).await.map_err(CallError::from)?;
    // The connection ends when all its senders and responses are dropped.
    tokio::spawn(connection);
    Ok(sender)
}

async fn stream(target: &Target) -> Result<TcpStream, TargetError> {
    let stream = TcpStream::connect(target.address()).await.map_err(CallError::from)?;
    stream.set_nodelay(true).map_err(CallError::from)?;
    Ok(stream)
}

/// Opens a watch on a shared connection, or on its own.
async fn open_watch(
    target: &Target,
    shared: Option<SharedConnection>,
) -> Result<Response<Incoming>, TargetError> {
    let response = match shared {
        Some(mut sender) => {
            let uri = format!("http://{}{WATCH}", target.address());
            sender.send_request(request(target, &uri, Version::HTTP_2)?).await
        }
        None => {
            let io = TokioIo::new(stream(target).await?);
            let (mut sender, connection) = http1::handshake(io).await.map_err(CallError::from)?;
            // The connection ends when its response is dropped.
            tokio::spawn(connection);
            sender.send_request(request(target, WATCH, Version::HTTP_11)?).await
        }
    };
    let response = response.map_err(CallError::from)?;
    match response.status().as_u16() {
        200 => Ok(response),
        status => {
            let body = response.into_body().collect().await.map_err(CallError::from)?.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            Err(TargetError::UnexpectedStatus { what: format!("GET {WATCH}"), status, body })
        }
    }
}

fn request(
    target: &Target,
    uri: &str,
    version: Version,
) -> Result<Request<Empty<Bytes>>, TargetError> {
    let mut request = Request::get(uri).version(version).header("accept", "text/event-stream");
    // With HTTP/2, the URI contains the host.
    if version == Version::HTTP_11 {
        request = request.header("host", target.address());
    }
    if let Some(authorization) = &target.authorization {
        request = request.header("authorization", authorization);
    }
    Ok(request.body(Empty::new()).map_err(CallError::from)?)
}

/// Reports the arrival of each event of a commit.
async fn read_events(response: Response<Incoming>, arrivals: UnboundedSender<Instant>) {
    let (mut body, mut rest) = (response.into_body(), Vec::new());
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        let now = Instant::now();
        rest.extend_from_slice(data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let is_commit = rest[..end].starts_with(COMMITTED);
            rest.drain(..=end);
            if is_commit && arrivals.send(now).is_err() {
                return;
            }
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).expect("the number of digits is valid")
}

fn record(into: &mut Histogram<u64>, duration: Duration) {
    // The histogram grows with this call; `saturating_record` would limit the value instead.
    into.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
        .expect("the histogram can hold every duration of a run");
}
