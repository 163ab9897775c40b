//! Driving callers, and measuring what they see.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::{Answer, Call, CallError, Connection};
use super::process::{self, Usage};
use super::target::Target;

/// One client: says what it sends next, and is shown what it was answered.
pub trait Caller: Send + 'static {
    /// The next request; none if it has nothing more to do.
    fn next(&mut self) -> Option<Call>;

    /// Takes note of an answer.
    fn seen(&mut self, answer: &Answer) -> Verdict {
        if answer.is_good() { Verdict::Done } else { Verdict::Failed }
    }

    /// Takes note that there was no answer.
    fn lost(&mut self) -> Verdict {
        Verdict::Failed
    }
}

/// Any number of clients.
pub type Callers = Vec<Box<dyn Caller>>;

/// What an answer means to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has what it wanted.
    Done,
    /// It goes on with its next request, which belongs to the same wish.
    Again,
    /// It did not get what it wanted.
    Failed,
}

/// How long to drive.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// So many wishes of each caller.
    Requests(u64),
    /// So much time.
    Time(Duration),
    /// Until no caller has anything more to do.
    Exhaustion,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Latencies of what was done, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// What was not done, by the status of the answer; 0 for none.
    pub failures: BTreeMap<u16, u64>,
    /// The first words of the first failure.
    pub first_failure: Option<String>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// What the server used, before and after, if its processes are known.
    pub server: Option<(Usage, Usage)>,
    /// CPU seconds that driving took.
    pub generator_cpu_seconds: f64,
}

impl Measured {
    /// How many requests did what they were meant to do.
    pub fn done(&self) -> u64 {
        self.latencies.len()
    }

    /// How many did not.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// What all connections of a measurement add to.
#[derive(Clone)]
struct Tally {
    latencies: Histogram<u64>,
    failures: BTreeMap<u16, u64>,
    first_failure: Option<String>,
}

/// Digits of a latency that are kept.
const SIGNIFICANT_DIGITS: u8 = 3;

impl Tally {
    fn new() -> Self {
        let latencies = Histogram::new(SIGNIFICANT_DIGITS).expect("so many digits are allowed");
        Self { latencies, failures: BTreeMap::new(), first_failure: None }
    }

    fn done(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.record(nanos).expect("a histogram without bounds takes everything");
    }

    fn failed(&mut self, status: u16, why: impl FnOnce() -> String) {
        *self.failures.entry(status).or_default() += 1;
        self.first_failure.get_or_insert_with(why);
    }
}

/// A measurement that is under way.
pub struct Stopwatch {
    tally: Tally,
    pids: Vec<u32>,
    server: Option<Usage>,
    own: Usage,
    start: Instant,
}

impl Stopwatch {
    /// Begins, and from now on measures these processes of a server as well.
    pub fn start(pids: &[u32]) -> Self {
        process::reset_peaks(pids);
        let (server, own) = (process::usage(pids), process::own_usage());
        Self { tally: Tally::new(), pids: pids.to_vec(), server, own, start: Instant::now() }
    }

    /// Something was done, and took so long.
    pub fn done(&mut self, latency: Duration) {
        self.tally.done(latency);
    }

    /// Ends.
    pub fn stop(self) -> Measured {
        let elapsed = self.start.elapsed();
        let generator_cpu_seconds = process::own_usage().cpu_seconds_since(&self.own);
        let server = self.server.zip(process::usage(&self.pids));
        let Tally { latencies, failures, first_failure } = self.tally;
        Measured { latencies, failures, first_failure, elapsed, server, generator_cpu_seconds }
    }
}

/// A connection and the callers that share it, each in turn.
struct Lane {
    connection: Connection,
    callers: Callers,
    length: Length,
    tally: Arc<Mutex<Tally>>,
}

/// Drives all callers side by side, over so many connections that are open before the clock starts.
/// Callers that share a connection take turns on it, and their latencies hold the wait for it.
pub async fn drive(
    target: &Target,
    callers: Callers,
    connections: usize,
    length: Length,
) -> Result<Measured, CallError> {
    let tally = Arc::new(Mutex::new(Tally::new()));
    let mut lanes = Vec::new();
    for _ in 0..connections.clamp(1, callers.len().max(1)) {
        let (connection, tally) = (target.connect().await?, Arc::clone(&tally));
        lanes.push(Lane { connection, callers: Vec::new(), length, tally });
    }
    let among = lanes.len();
    for (number, caller) in callers.into_iter().enumerate() {
        lanes[number % among].callers.push(caller);
    }
    let mut stopwatch = Stopwatch::start(&target.pids);
    let start = stopwatch.start;
    let tasks: Vec<_> = lanes.into_iter().map(|lane| tokio::spawn(lane.run(start))).collect();
    for task in tasks {
        task.await.map_err(std::io::Error::other)?;
    }
    stopwatch.tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(stopwatch.stop())
}

impl Lane {
    async fn run(mut self, start: Instant) {
        let mut ready_since = vec![start; self.callers.len()];
        let mut round = 0;
        while self.goes_on(start, round) {
            for (number, ready) in ready_since.iter_mut().enumerate() {
                if !self.goes_on(start, round) {
                    return;
                }
                if !self.wish(number, ready, start).await {
                    return;
                }
            }
            round += 1;
        }
    }

    /// Fulfills one wish of a caller. False if there is no more to do on this connection.
    async fn wish(&mut self, number: usize, ready: &mut Instant, start: Instant) -> bool {
        let mut since = (self.callers.len() > 1).then_some(*ready);
        loop {
            let Some(call) = self.callers[number].next() else { return false };
            // The time that a caller alone on its connection takes to think is not the server's.
            let since = *since.get_or_insert_with(Instant::now);
            let answer = self.connection.call(&call).await;
            let now = Instant::now();
            let verdict = match &answer {
                Ok(answer) => self.callers[number].seen(answer),
                Err(_) => self.callers[number].lost(),
            };
            self.note(verdict, &call, &answer, now - since);
            if answer.is_err() && self.connection.reopen().await.is_err() {
                return false;
            }
            *ready = now;
            match verdict {
                Verdict::Again if self.has_time(start) => {}
                Verdict::Again => return false,
                Verdict::Done | Verdict::Failed => return true,
            }
        }
    }

    fn note(
        &self,
        verdict: Verdict,
        call: &Call,
        answer: &Result<Answer, CallError>,
        latency: Duration,
    ) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match (verdict, answer) {
            (Verdict::Done, _) => tally.done(latency),
            (Verdict::Again, _) => {}
            (Verdict::Failed, Ok(answer)) => {
                let why = || format!("{} {}: {}", call.method, call.path, answer.beginning());
                tally.failed(answer.status, why);
            }
            (Verdict::Failed, Err(error)) => tally.failed(0, || error.to_string()),
        }
    }

    fn has_time(&self, start: Instant) -> bool {
        match self.length {
            Length::Time(time) => start.elapsed() < time,
            Length::Requests(_) | Length::Exhaustion => true,
        }
    }

    fn goes_on(&self, start: Instant, round: u64) -> bool {
        match self.length {
            Length::Requests(requests) => round < requests,
            Length::Time(_) | Length::Exhaustion => self.has_time(start),
        }
    }
}

/// A caller that makes its requests out of a growing number.
struct Numbered<F> {
    next: u64,
    make: F,
}

impl<F: FnMut(u64) -> Call + Send + 'static> Caller for Numbered<F> {
    fn next(&mut self) -> Option<Call> {
        let number = self.next;
        self.next += 1;
        Some((self.make)(number))
    }
}

/// A caller that makes its requests out of a number that grows from 0.
pub fn numbered(make: impl FnMut(u64) -> Call + Send + 'static) -> Box<dyn Caller> {
    Box::new(Numbered { next: 0, make })
}

/// A caller that sends the same again and again.
pub fn repeated(call: Call) -> Box<dyn Caller> {
    numbered(move |_| call.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_their_size() {
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
