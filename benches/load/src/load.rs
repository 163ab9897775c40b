//! Runs callers, and measures their requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::{Call, CallError, CallResponse, Connection};
use super::process::{self, Usage};
use super::target::Target;

/// One client: decides its next request, and evaluates the response.
pub trait Caller: Send + 'static {
    /// Returns the next request. `None` if the caller is done.
    fn next(&mut self) -> Option<Call>;

    /// Evaluates a response.
    fn on_response(&mut self, response: &CallResponse) -> CallOutcome {
        if response.is_success() { CallOutcome::Done } else { CallOutcome::Failed }
    }

    /// Evaluates a request that got no response.
    fn on_error(&mut self) -> CallOutcome {
        CallOutcome::Failed
    }
}

/// Callers of a measurement.
pub type Callers = Vec<Box<dyn Caller>>;

/// Meaning of a response for a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The operation succeeded.
    Done,
    /// The operation continues with the next request.
    Retry,
    /// The operation failed.
    Failed,
}

/// The condition that ends a measurement.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// Number of operations of each caller.
    Requests(u64),
    /// Duration.
    Time(Duration),
    /// No limit: the measurement ends when no caller has a further request.
    Exhaustion,
}

/// Results of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Latencies of successful operations, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Failed operations, by the status of the response. 0 for no response.
    pub failures: BTreeMap<u16, u64>,
    /// Beginning of the first failed response.
    pub first_failure: Option<String>,
    /// Time from the first request to the last response.
    pub elapsed: Duration,
    /// Usage of the server's processes before and after the measurement, if the processes are
    /// known.
    pub server: Option<(Usage, Usage)>,
    /// CPU seconds of the load generator.
    pub generator_cpu_seconds: f64,
}

impl Measured {
    /// Number of successful operations.
    pub fn done(&self) -> u64 {
        self.latencies.len()
    }

    /// Number of failed operations.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// Results that all connections of a measurement add to.
#[derive(Clone)]
struct Tally {
    latencies: Histogram<u64>,
    failures: BTreeMap<u16, u64>,
    first_failure: Option<String>,
}

/// Significant digits of latencies.
const SIGNIFICANT_DIGITS: u8 = 3;

impl Tally {
    fn new() -> Self {
        let latencies = Histogram::new(SIGNIFICANT_DIGITS).expect("the number of digits is valid");
        Self { latencies, failures: BTreeMap::new(), first_failure: None }
    }

    fn done(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.record(nanos).expect("a histogram without bounds takes everything");
    }

    fn failed(&mut self, status: u16, reason: impl FnOnce() -> String) {
        *self.failures.entry(status).or_default() += 1;
        self.first_failure.get_or_insert_with(reason);
    }
}

/// A measurement in progress.
pub struct Stopwatch {
    tally: Tally,
    pids: Vec<u32>,
    server: Option<Usage>,
    own: Usage,
    start: Instant,
}

impl Stopwatch {
    /// Starts a measurement that includes these processes of a server.
    pub fn start(pids: &[u32]) -> Self {
        process::reset_peaks(pids);
        let (server, own) = (process::usage(pids), process::own_usage());
        Self { tally: Tally::new(), pids: pids.to_vec(), server, own, start: Instant::now() }
    }

    /// Records a successful operation.
    pub fn done(&mut self, latency: Duration) {
        self.tally.done(latency);
    }

    /// Ends the measurement.
    pub fn stop(self) -> Measured {
        let elapsed = self.start.elapsed();
        let generator_cpu_seconds = process::own_usage().cpu_seconds_since(&self.own);
        let server = self.server.zip(process::usage(&self.pids));
        let Tally { latencies, failures, first_failure } = self.tally;
        Measured { latencies, failures, first_failure, elapsed, server, generator_cpu_seconds }
    }
}

/// A connection and the callers that share it in turn.
struct ConnectionWorker {
    connection: Connection,
    callers: Callers,
    length: Length,
    tally: Arc<Mutex<Tally>>,
}

/// Runs all callers concurrently, over `connections` connections that are open before the
/// measurement starts. The members of a cluster get the connections in turn. Callers that share a
/// connection take turns, and their latencies include the wait for the connection.
pub async fn drive(
    target: &Target,
    callers: Callers,
    connections: usize,
    length: Length,
) -> Result<Measured, CallError> {
    let tally = Arc::new(Mutex::new(Tally::new()));
    let mut workers = Vec::new();
    for number in 0..connections.clamp(1, callers.len().max(1)) {
        let (connection, tally) = (target.connect_in_turn(number).await?, Arc::clone(&tally));
        workers.push(ConnectionWorker { connection, callers: Vec::new(), length, tally });
    }
    let workers_count = workers.len();
    for (number, caller) in callers.into_iter().enumerate() {
        workers[number % workers_count].callers.push(caller);
    }
    let mut stopwatch = Stopwatch::start(&target.pids);
    let start = stopwatch.start;
    let tasks: Vec<_> = workers.into_iter().map(|worker| tokio::spawn(worker.run(start))).collect();
    for task in tasks {
        task.await.map_err(std::io::Error::other)?;
    }
    stopwatch.tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(stopwatch.stop())
}

impl ConnectionWorker {
    async fn run(mut self, start: Instant) {
        let mut ready_since = vec![start; self.callers.len()];
        let mut round = 0;
        while self.should_continue(start, round) {
            for (number, ready) in ready_since.iter_mut().enumerate() {
                if !self.should_continue(start, round) {
                    return;
                }
                if !self.run_call(number, ready, start).await {
                    return;
                }
            }
            round += 1;
        }
    }

    /// Runs one operation of a caller. Returns `false` if this connection has no further operation.
    async fn run_call(&mut self, number: usize, ready: &mut Instant, start: Instant) -> bool {
        let mut since = (self.callers.len() > 1).then_some(*ready);
        loop {
            let Some(call) = self.callers[number].next() else { return false };
            // If a caller does not share its connection, the measurement starts after the caller
            // has decided its next request.
            let since = *since.get_or_insert_with(Instant::now);
            let response = self.connection.call(&call).await;
            let now = Instant::now();
            let outcome = match &response {
                Ok(response) => self.callers[number].on_response(response),
                Err(_) => self.callers[number].on_error(),
            };
            self.record(outcome, &call, &response, now - since);
            if response.is_err() && self.connection.reopen().await.is_err() {
                return false;
            }
            *ready = now;
            match outcome {
                CallOutcome::Retry if self.has_time(start) => {}
                CallOutcome::Retry => return false,
                CallOutcome::Done | CallOutcome::Failed => return true,
            }
        }
    }

    fn record(
        &self,
        outcome: CallOutcome,
        call: &Call,
        response: &Result<CallResponse, CallError>,
        latency: Duration,
    ) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match (outcome, response) {
            (CallOutcome::Done, _) => tally.done(latency),
            (CallOutcome::Retry, _) => {}
            (CallOutcome::Failed, Ok(response)) => {
                let reason = || format!("{} {}: {}", call.method, call.path, response.excerpt());
                tally.failed(response.status, reason);
            }
            (CallOutcome::Failed, Err(error)) => tally.failed(0, || error.to_string()),
        }
    }

    fn has_time(&self, start: Instant) -> bool {
        match self.length {
            Length::Time(time) => start.elapsed() < time,
            Length::Requests(_) | Length::Exhaustion => true,
        }
    }

    fn should_continue(&self, start: Instant, round: u64) -> bool {
        match self.length {
            Length::Requests(requests) => round < requests,
            Length::Time(_) | Length::Exhaustion => self.has_time(start),
        }
    }
}

/// A caller whose requests depend on an increasing number.
struct NumberedCalls<F> {
    next: u64,
    make: F,
}

impl<F: FnMut(u64) -> Call + Send + 'static> Caller for NumberedCalls<F> {
    fn next(&mut self) -> Option<Call> {
        let number = self.next;
        self.next += 1;
        Some((self.make)(number))
    }
}

/// Returns a caller whose requests depend on a number that starts at 0.
pub fn numbered_calls(make: impl FnMut(u64) -> Call + Send + 'static) -> Box<dyn Caller> {
    Box::new(NumberedCalls { next: 0, make })
}

/// Returns a caller that repeats one request.
pub fn repeated_calls(call: Call) -> Box<dyn Caller> {
    numbered_calls(move |_| call.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopwatch_counts_calls_and_keeps_the_median() {
        let mut stopwatch = Stopwatch::start(&[]);
        for micros in 1..=1000 {
            stopwatch.done(Duration::from_micros(micros));
        }
        let measured = stopwatch.stop();
        assert_eq!((measured.done(), measured.failed()), (1000, 0));
        let median_micros = measured.latencies.value_at_quantile(0.5) / 1000;
        assert!((499..=501).contains(&median_micros), "{median_micros}");
    }
}
