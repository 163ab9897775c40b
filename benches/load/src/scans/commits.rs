//! The latency of commits alone and beside plans.
//!
//! The planning clients run only while the processors are idle: real clients are on other machines,
//! so their work delays no commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::planner::{Planner, checked, unexpected};
use super::{Figures, histogram, record};
use crate::bodies;
use crate::connection::Call;
use crate::prepare;
use crate::report::median;
use crate::target::{Target, TargetError};

/// Number of measurements, each without and with plans. The results are the medians.
const ROUNDS: usize = 5;
/// Number of clients that plan scans while commits are measured.
const PLANNERS: usize = 16;
/// Number of commits of a measurement.
const COMMITS: u64 = 500;
/// A server that plans too many scans already responds with this status.
const BUSY: u16 = 503;
/// Pause of a client whose plan was rejected.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl Planner<'_> {
    /// Measures commits alone and beside plans in turn.
    pub(super) async fn commits(&self, filter: &Value) -> Result<Figures, TargetError> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(commits(self.target).await?);
            beside.push(self.commits_beside_plans(filter).await?);
        }
        let at = |quantile: f64, all: &[Histogram<u64>]| {
            median(all.iter().map(|all| all.value_at_quantile(quantile) as f64).collect())
        };
        Ok(vec![
            ("p99_us", at(0.99, &alone).into()),
            ("p99_us_beside_plans", at(0.99, &beside).into()),
            ("p50_us", at(0.5, &alone).into()),
            ("p50_us_beside_plans", at(0.5, &beside).into()),
            ("rounds", ROUNDS.into()),
        ])
    }

    /// Returns the durations of commits while other clients plan scans, in microseconds.
    async fn commits_beside_plans(&self, filter: &Value) -> Result<Histogram<u64>, TargetError> {
        let is_done = Arc::new(AtomicBool::new(false));
        let (target, call) = (self.target.clone(), self.request(filter, &[]));
        let clients = plan_until((target, call), Arc::clone(&is_done));
        let clients = tokio::task::spawn_blocking(|| {
            // The thread does no other work, because its policy cannot be changed back.
            let thread = std::thread::spawn(|| run_while_idle(clients));
            thread.join().map_err(|_| unusable("a planning client panics"))?
        });
        let durations = commits(self.target).await;
        is_done.store(true, Ordering::Relaxed);
        clients.await.map_err(unusable)??;
        durations
    }
}

fn unusable(error: impl std::fmt::Display) -> TargetError {
    TargetError::Unsupported(error.to_string())
}

/// Plans a scan again and again, with several clients.
async fn plan_until(
    (target, call): (Target, Call),
    is_done: Arc<AtomicBool>,
) -> Result<(), TargetError> {
    let mut clients = JoinSet::new();
    for _ in 0..PLANNERS {
        let (target, call, is_done) = (target.clone(), call.clone(), Arc::clone(&is_done));
        clients.spawn(async move {
            let mut connection = target.connect().await?;
            while !is_done.load(Ordering::Relaxed) {
                match connection.call(&call).await?.status {
                    BUSY => tokio::time::sleep(BUSY_PAUSE).await,
                    200 => {}
                    status => return Err(unexpected(&call, status, String::new())),
                }
            }
            Ok::<_, TargetError>(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.map_err(unusable)??;
    }
    Ok(())
}

/// Runs a task while the processors are idle. Only Linux has this policy. On other systems, the
/// planning clients compete with the commits, so that the results are worse.
fn run_while_idle(task: impl Future<Output = Result<(), TargetError>>) -> Result<(), TargetError> {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::ThreadPriority;
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };

        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
            .map_err(|error| unusable(format!("cannot lower the priority: {error:?}")))?;
    }
    Builder::new_current_thread().enable_all().build().map_err(unusable)?.block_on(task)
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
