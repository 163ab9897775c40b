//! Figures of scan planning: the latency of plans, the throughput of complete scans, the CPU time of
//! a cold plan, the memory of cached manifests, and the latency of commits beside plans.

mod commits;
mod planner;
pub mod table;

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::connection::CallError;
use crate::process::usage;
use crate::target::{Target, TargetError};
use planner::Planner;
use table::{COLUMNS, ROWS, day_of};

/// Number of complete scans. The result is the median.
const COMPLETE_SCANS: u64 = 5;
/// A scan is not repeated after this time.
const REPEATS_DURATION_MAX: Duration = Duration::from_secs(10);
/// Number of values of the filter with a list.
const LIST_VALUES: u64 = 1000;
/// Part of the files that the filter on a range selects.
const RANGE_PART: u64 = 1000;

/// The filters of the measurements, for a table with this number of files.
#[derive(Clone, Copy)]
struct Filters {
    files: u64,
}

impl Filters {
    /// One partition in the middle.
    fn partition(self) -> Value {
        let days = day_of(self.files / 2, self.files);
        json!({ "type": "eq", "term": "day", "value": days })
    }

    /// A range of ids, which the statistics of the files select.
    fn range(self) -> Value {
        let first = self.files / 3 * ROWS;
        let end = first + (self.files / RANGE_PART).max(1) * ROWS;
        let bound = |kind: &str, value: u64| json!({ "type": kind, "term": "id", "value": value });
        json!({ "type": "and", "left": bound("gt-eq", first), "right": bound("lt", end) })
    }

    /// Ids in files that are distributed over the table.
    fn list(self) -> Value {
        let step = (self.files / LIST_VALUES).max(1) * ROWS;
        let values: Vec<u64> = (0..LIST_VALUES).map(|number| number * step).collect();
        json!({ "type": "in", "term": "id", "values": values })
    }
}

/// Figures of a plan, by name.
type Figures = Vec<(&'static str, Value)>;

/// Measures the plans of a table with this number of files and, unless `plans_only` is set, the
/// commits beside plans.
///
/// # Errors
///
/// Errors if the server cannot be reached, if it rejects a commit to another table, or if a plan
/// does not have the right number of files.
pub async fn measure(
    target: &Target,
    files: u64,
    repeats: u64,
    plans_only: bool,
) -> Result<Value, TargetError> {
    let (name, filters) = (&target.name, Filters { files });
    let mut figures = json!({ "server": name, "scenario": "scans", "files": files });
    let path = match table::create(target, files).await {
        Err(error @ TargetError::UnexpectedStatus { .. }) => {
            figures["not_supported"] = error.to_string().into();
            return Ok(figures);
        }
        created => created?,
    };
    let planner = Planner { target, path };
    add(&mut figures, "cold", planner.cold(filters).await)?;
    for (name, filter) in
        [("partition", filters.partition()), ("range", filters.range()), ("list", filters.list())]
    {
        add(&mut figures, name, planner.repeated(&filter, repeats, None).await)?;
    }
    let complete = planner.repeated(&json!(true), COMPLETE_SCANS, Some(files)).await;
    add(&mut figures, "complete", complete)?;
    if !plans_only {
        add(&mut figures, "commit", planner.commits(&filters.range()).await)?;
    }
    let memory = usage(&target.pids);
    figures["rss_mib"] = memory.as_ref().map(|usage| usage.rss_mib).into();
    figures["peak_mib"] = memory.map(|usage| usage.peak_mib).into();
    Ok(figures)
}

/// Adds the figures of a plan, or the reason why the server rejects it.
fn add(
    figures: &mut Value,
    name: &str,
    measured: Result<Figures, TargetError>,
) -> Result<(), TargetError> {
    match measured {
        Ok(measured) => {
            for (figure, value) in measured {
                figures[format!("{name}_{figure}")] = value;
            }
        }
        Err(error) if is_rejection(&error) => {
            figures[format!("{name}_rejected")] = error.to_string().into();
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn is_rejection(error: &TargetError) -> bool {
    matches!(error, TargetError::UnexpectedStatus { .. } | TargetError::Call(CallError::Timeout))
}

impl Planner<'_> {
    /// Measures the first plan, and the first plan with the statistics of all columns. The server
    /// has not cached these statistics, so it reads the manifests again.
    async fn cold(&self, filters: Filters) -> Result<Figures, TargetError> {
        let (pids, mut connections) = (&self.target.pids, Vec::new());
        let before = usage(pids);
        self.scan(&mut connections, &self.request(&filters.range(), &[])).await?;
        let cached = before.zip(usage(pids)).map(|(from, to)| to.rss_mib - from.rss_mib);
        let all_columns: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        let (call, before) = (self.request(&filters.range(), &all_columns), usage(pids));
        let scanned = self.scan(&mut connections, &call).await?;
        let used = before.zip(usage(pids));
        let cpu = used.map(|(from, to)| to.cpu_seconds_since(&from) * 1e6);
        Ok(vec![
            ("files", scanned.files.into()),
            ("plan_tasks", scanned.plan_tasks.into()),
            ("p50_us", (scanned.duration.as_secs_f64() * 1e6).into()),
            ("cpu_us", cpu.into()),
            ("cache_mib", cached.into()),
        ])
    }

    /// Repeats a scan. The first scan is only counted if it is too slow for repetitions.
    async fn repeated(
        &self,
        filter: &Value,
        repeats: u64,
        expected: Option<u64>,
    ) -> Result<Figures, TargetError> {
        let (call, mut connections) = (self.request(filter, &[]), Vec::new());
        let (mut durations, mut before) = (histogram(), usage(&self.target.pids));
        let mut scanned = self.scan(&mut connections, &call).await?;
        if let Some(expected) = expected.filter(|expected| *expected != scanned.files) {
            let message = format!("a scan has {} files instead of {expected}", scanned.files);
            return Err(TargetError::Unsupported(message));
        }
        if scanned.duration < REPEATS_DURATION_MAX {
            before = usage(&self.target.pids);
            let began = Instant::now();
            while durations.len() < repeats && began.elapsed() < REPEATS_DURATION_MAX {
                scanned = self.scan(&mut connections, &call).await?;
                record(&mut durations, scanned.duration);
            }
        } else {
            record(&mut durations, scanned.duration);
        }
        let cpu = before
            .zip(usage(&self.target.pids))
            .map(|(from, to)| to.cpu_seconds_since(&from) * 1e6 / durations.len().max(1) as f64);
        Ok(vec![
            ("files", scanned.files.into()),
            ("plan_tasks", scanned.plan_tasks.into()),
            ("bytes", scanned.bytes.into()),
            ("plans", durations.len().into()),
            ("p50_us", durations.value_at_quantile(0.5).into()),
            ("p99_us", durations.value_at_quantile(0.99).into()),
            ("cpu_us", cpu.into()),
        ])
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("the number of digits is valid")
}

fn record(into: &mut Histogram<u64>, duration: Duration) {
    into.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
        .expect("the histogram can hold every duration of a run");
}
