//! Driving callers, and measuring what they see.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::{Answer, Call, CallError};
use super::process;
use super::target::Target;

/// One client: says what it sends next, and is shown what it was answered.
pub trait Caller: Send + 'static {
    /// The next request.
    fn next(&mut self) -> Call;

    /// Takes note of an answer. Returns whether it is what was hoped for.
    fn seen(&mut self, answer: &Answer) -> bool {
        (200..300).contains(&answer.status) || answer.status == 304
    }
}

/// How long to drive.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// So many requests of each caller.
    Requests(u64),
    /// So much time.
    Time(Duration),
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Latencies, in microseconds.
    pub latencies: Histogram<u64>,
    /// Answers that were not what was hoped for.
    pub failures: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// CPU seconds of the server, if its process is known.
    pub cpu_seconds: Option<f64>,
    /// Peak resident memory of the server in MiB, if its process is known.
    pub peak_mib: Option<f64>,
}

/// Latencies above this count as this, in microseconds.
const LATENCY_MAX_MICROS: u64 = 120_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

impl Measured {
    /// Requests in a second.
    pub fn throughput(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// CPU microseconds of the server for each request.
    pub fn cpu_micros_per_request(&self) -> Option<f64> {
        self.cpu_seconds.map(|seconds| seconds * 1e6 / (self.latencies.len() as f64).max(1.0))
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX_MICROS, SIGNIFICANT_DIGITS)
        .expect("the bounds of the histogram are constants that fit")
}

/// Drives all callers side by side, each over a connection of its own that is open before the clock
/// starts.
pub async fn drive(
    target: &Target,
    callers: Vec<Box<dyn Caller>>,
    length: Length,
) -> Result<Measured, CallError> {
    let mut connected = Vec::with_capacity(callers.len());
    for caller in callers {
        connected.push((target.connect().await?, caller));
    }
    let before = target.pid.and_then(process::usage);
    let start = Instant::now();
    let tasks: Vec<_> = connected
        .into_iter()
        .map(|(mut connection, mut caller)| {
            tokio::spawn(async move {
                let mut latencies = histogram();
                let mut failures = 0;
                while goes_on(length, start, latencies.len()) {
                    let call = caller.next();
                    let sent = Instant::now();
                    let answer = connection.call(&call).await?;
                    let micros = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
                    latencies.saturating_record(micros);
                    failures += u64::from(!caller.seen(&answer));
                }
                Ok::<_, CallError>((latencies, failures))
            })
        })
        .collect();
    let mut latencies = histogram();
    let mut failures = 0;
    for task in tasks {
        let (of_one, failed) = task.await.map_err(std::io::Error::other)??;
        latencies.add(of_one).expect("all histograms have the same bounds");
        failures += failed;
    }
    let elapsed = start.elapsed();
    let after = target.pid.and_then(process::usage);
    let cpu_seconds = before.zip(after).map(|(b, a)| a.cpu_seconds - b.cpu_seconds);
    let peak_mib = after.map(|usage| usage.peak_mib);
    Ok(Measured { latencies, failures, elapsed, cpu_seconds, peak_mib })
}

fn goes_on(length: Length, start: Instant, done: u64) -> bool {
    match length {
        Length::Requests(requests) => done < requests,
        Length::Time(time) => start.elapsed() < time,
    }
}
