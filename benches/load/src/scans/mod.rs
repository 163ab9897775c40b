//! Figures of scan planning: the latency of plans, the throughput of complete scans, the CPU time of
//! a cold plan, the memory of cached manifests, and the latency of commits beside plans.

pub mod table;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use memchr::memmem::find_iter;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::bodies;
use crate::connection::{Call, Connection};
use crate::prepare;
use crate::process::usage;
use crate::target::{Target, TargetError};
use slateberg_base::background::lower_priority;
use table::{COLUMNS, ROWS, day_of};

/// Number of connections that fetch the plan tasks of a complete scan.
const SCAN_CONNECTIONS: usize = 8;
/// Number of complete scans. The result is the median.
const COMPLETE_SCANS: usize = 5;
/// Number of clients that plan scans while commits are measured.
const PLANNERS: usize = 16;
/// Number of commits of a measurement.
const COMMITS: u64 = 500;
/// Number of values of the filter with a list.
const LIST_VALUES: u64 = 1000;
/// Part of the files that the filter on a range selects.
const RANGE_PART: u64 = 1000;
/// A server that plans too many scans already responds with this status.
const BUSY: u16 = 503;
/// Pause of a client whose plan was rejected.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

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

/// A plan, as the server responds with it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Plan {
    #[serde(default)]
    plan_tasks: Vec<String>,
}

/// A scan whose plan tasks were fetched.
struct Scanned {
    files: u64,
    plan_tasks: usize,
}

/// The table, and the server that plans its scans.
struct Planner<'a> {
    target: &'a Target,
    path: String,
    files: u64,
}

/// Measures the plans of a table with this number of files.
///
/// # Errors
///
/// Errors if the server rejects a request, or if a plan does not have the right number of files.
pub async fn measure(target: &Target, files: u64, repeats: u64) -> Result<Value, TargetError> {
    let path = table::create(target, files).await?;
    let planner = Planner { target, path, files };
    let (filters, before) = (Filters { files }, usage(&target.pids));
    planner.scan(&filters.range(), &[]).await?;
    let cached = before.zip(usage(&target.pids)).map(|(from, to)| to.rss_mib - from.rss_mib);
    // The cached manifests do not have the statistics of all columns, so the server reads them again.
    let (began, before) = (Instant::now(), usage(&target.pids));
    let all_columns: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let cold = planner.scan(&filters.range(), &all_columns).await?.files;
    let cold_ms = began.elapsed().as_secs_f64() * 1e3;
    let used = before.zip(usage(&target.pids));
    let cold_cpu = used.map(|(from, to)| to.cpu_seconds_since(&from) * 1e6 / files as f64);
    let mut figures = json!({
        "server": target.name, "scenario": "scans", "files": files,
        "cold_ms": cold_ms, "cold_files": cold, "cold_cpu_us_per_file": cold_cpu,
        "cache_mib": cached,
    });
    for (name, filter) in
        [("partition", filters.partition()), ("range", filters.range()), ("list", filters.list())]
    {
        let Scanned { files: found, plan_tasks } = planner.scan(&filter, &[]).await?;
        let plans = planner.plans(&filter, repeats).await?;
        figures[format!("{name}_files")] = found.into();
        figures[format!("{name}_plan_tasks")] = plan_tasks.into();
        figures[format!("{name}_p50_us")] = plans.value_at_quantile(0.5).into();
        figures[format!("{name}_p99_us")] = plans.value_at_quantile(0.99).into();
    }
    let (seconds, cpu_us) = planner.complete_scans().await?;
    figures["complete_s"] = seconds.into();
    figures["complete_cpu_us_per_file"] = cpu_us.into();
    let alone = commits(target).await?;
    let beside = planner.commits_beside_plans(&filters.range()).await?;
    figures["commit_p99_us"] = alone.value_at_quantile(0.99).into();
    figures["commit_p99_us_beside_plans"] = beside.value_at_quantile(0.99).into();
    figures["commit_p50_us"] = alone.value_at_quantile(0.5).into();
    figures["commit_p50_us_beside_plans"] = beside.value_at_quantile(0.5).into();
    figures["rss_mib"] = usage(&target.pids).map(|usage| usage.rss_mib).into();
    Ok(figures)
}

impl Planner<'_> {
    fn request(&self, filter: &Value, statistics: &[&str]) -> Call {
        let body = json!({ "filter": filter, "stats-fields": statistics });
        Call::post(format!("{}/plan", self.path), body.to_string()).keeping_body()
    }

    /// Plans a scan, and fetches all its plan tasks.
    async fn scan(&self, filter: &Value, statistics: &[&str]) -> Result<Scanned, TargetError> {
        let mut connection = self.target.connect().await?;
        let plan = checked(&mut connection, &self.request(filter, statistics)).await?;
        let tasks: Plan = serde_json::from_slice(&plan)
            .map_err(|error| TargetError::Unsupported(format!("not a plan: {error}")))?;
        let plan_tasks = tasks.plan_tasks.len();
        let tasks = Arc::new(Mutex::new(VecDeque::from(tasks.plan_tasks)));
        let mut fetching = JoinSet::new();
        for _ in 0..SCAN_CONNECTIONS {
            let (target, tasks) = (self.target.clone(), Arc::clone(&tasks));
            let path = format!("{}/tasks", self.path);
            fetching.spawn(async move { fetch(&target, &path, &tasks).await });
        }
        let mut files = count_files(&plan);
        while let Some(fetched) = fetching.join_next().await {
            files += fetched.map_err(|error| TargetError::Unsupported(error.to_string()))??;
        }
        Ok(Scanned { files, plan_tasks })
    }

    /// Returns the durations of plans, in microseconds.
    async fn plans(&self, filter: &Value, repeats: u64) -> Result<Histogram<u64>, TargetError> {
        let (call, mut connection) = (self.request(filter, &[]), self.target.connect().await?);
        let mut durations = histogram();
        for _ in 0..repeats {
            let began = Instant::now();
            checked(&mut connection, &call).await?;
            record(&mut durations, began.elapsed());
        }
        Ok(durations)
    }

    /// Returns the median of the duration of complete scans in seconds, and the CPU time of the
    /// server for each file in microseconds.
    async fn complete_scans(&self) -> Result<(f64, Option<f64>), TargetError> {
        let (mut seconds, before) = (Vec::new(), usage(&self.target.pids));
        for _ in 0..COMPLETE_SCANS {
            let began = Instant::now();
            let found = self.scan(&json!(true), &[]).await?.files;
            seconds.push(began.elapsed().as_secs_f64());
            if found != self.files {
                let message = format!("a complete scan has {found} files of {}", self.files);
                return Err(TargetError::Unsupported(message));
            }
        }
        seconds.sort_by(f64::total_cmp);
        let cpu = before.zip(usage(&self.target.pids)).map(|(from, to)| {
            to.cpu_seconds_since(&from) * 1e6 / (self.files * COMPLETE_SCANS as u64) as f64
        });
        Ok((seconds[COMPLETE_SCANS / 2], cpu))
    }

    /// Returns the durations of commits while other clients plan scans, in microseconds. These
    /// clients have a low priority: real clients are on other machines, so their work delays no
    /// commits.
    async fn commits_beside_plans(&self, filter: &Value) -> Result<Histogram<u64>, TargetError> {
        let (is_done, mut planners) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        let unusable = |error: std::io::Error| TargetError::Unsupported(error.to_string());
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(lower_priority)
            .build()
            .map_err(unusable)?;
        for _ in 0..PLANNERS {
            let (call, is_done) = (self.request(filter, &[]), Arc::clone(&is_done));
            let target = self.target.clone();
            let plan = async move {
                let mut connection = target.connect().await?;
                while !is_done.load(Ordering::Relaxed) {
                    match connection.call(&call).await?.status {
                        BUSY => tokio::time::sleep(BUSY_PAUSE).await,
                        200 => {}
                        status => return Err(unexpected(&call, status, String::new())),
                    }
                }
                Ok::<_, TargetError>(())
            };
            planners.spawn_on(plan, runtime.handle());
        }
        let durations = commits(self.target).await;
        is_done.store(true, Ordering::Relaxed);
        while let Some(planned) = planners.join_next().await {
            planned.map_err(|error| TargetError::Unsupported(error.to_string()))??;
        }
        runtime.shutdown_background();
        durations
    }
}

/// Fetches plan tasks until none is left. Returns their number of files.
async fn fetch(
    target: &Target,
    path: &str,
    tasks: &Mutex<VecDeque<String>>,
) -> Result<u64, TargetError> {
    let (mut connection, mut files) = (target.connect().await?, 0);
    loop {
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(task) = task else { return Ok(files) };
        let body = json!({ "plan-task": task }).to_string();
        files +=
            count_files(&checked(&mut connection, &Call::post(path, body).keeping_body()).await?);
    }
}

/// Returns the durations of commits to another table, in microseconds.
async fn commits(target: &Target) -> Result<Histogram<u64>, TargetError> {
    let namespace = target.unique_name("beside_scans");
    prepare::tables(target, &namespace, 1, 2).await?;
    let (path, mut connection) = (target.table(&namespace, "t_0"), target.connect().await?);
    let mut durations = histogram();
    for number in 0..COMMITS {
        let began = Instant::now();
        checked(&mut connection, &Call::post(&path, bodies::set_property(number))).await?;
        record(&mut durations, began.elapsed());
    }
    Ok(durations)
}

async fn checked(connection: &mut Connection, call: &Call) -> Result<Bytes, TargetError> {
    let response = connection.call(call).await?;
    match response.is_success() {
        true => Ok(response.body),
        false => Err(unexpected(call, response.status, response.excerpt())),
    }
}

fn unexpected(call: &Call, status: u16, body: String) -> TargetError {
    TargetError::UnexpectedStatus { what: format!("{} {}", call.method, call.path), status, body }
}

/// Returns the number of data files in a response. A parser would take longer than the server.
fn count_files(body: &[u8]) -> u64 {
    find_iter(body, b"\"data-file\":").count() as u64
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("the number of digits is valid")
}

fn record(into: &mut Histogram<u64>, duration: Duration) {
    into.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
        .expect("the histogram can hold every duration of a run");
}
