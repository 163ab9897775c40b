//! [`SubmittedPlans`]: plans that background tasks complete.
//!
//! A plan that takes longer than a request may wait is completed in the background. The client asks
//! for its result with the plan id. Another process, or this one after a restart, does not know the
//! plan. It plans the request of the plan id again, in the background as well.
//!
//! A result is no right: the server returns it only to a caller for whom a new plan would have the
//! same [`PlanInputs`].

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::files::PlannedFiles;
use super::readable_rows::ReadableRows;
use crate::Result;
use slateberg_model::scan::{ScanFilter, ScanSnapshots};
use slateberg_objects::location::Location;

/// Time since the last request for a plan after which it is dropped. Iceberg's Java library asks at
/// least every minute.
const IDLE: Duration = Duration::from_secs(120);

/// The table and the number of a plan.
pub(super) type PlanKey = (Uuid, u64);

/// A plan that is being completed.
type PlanFuture = Pin<Box<dyn Future<Output = Result<EvaluatedPlan>> + Send>>;

/// The values that determine the files of a plan.
#[derive(PartialEq)]
pub(super) struct PlanInputs {
    pub(super) snapshots: ScanSnapshots,
    pub(super) schema_id: i32,
    pub(super) filter: ScanFilter,
    pub(super) statistics: Vec<i32>,
    pub(super) rows: ReadableRows,
    pub(super) own_locations: Vec<Location>,
}

/// The files of a plan, and the plan tasks for the remaining files.
pub(super) struct EvaluatedPlan {
    pub(super) files: PlannedFiles,
    pub(super) plan_tasks: Vec<String>,
}

/// Plans that background tasks complete. Cheap to clone.
#[derive(Clone)]
pub(super) struct SubmittedPlans(Arc<Mutex<Plans>>);

struct Plans {
    by_key: HashMap<PlanKey, SubmittedPlan>,
    last_number: u64,
    /// Maximum size of all results that clients have not fetched yet, in bytes. One result may be
    /// larger if it is the only one.
    bytes_max: u64,
    results_max: usize,
}

struct SubmittedPlan {
    /// Distinguishes the plan from an earlier plan with the same key.
    number: u64,
    inputs: PlanInputs,
    /// The result, and its approximate size in bytes. `None` until the plan is complete.
    result: Option<(Result<EvaluatedPlan>, u64)>,
    is_complete: watch::Sender<bool>,
    asked_at: Instant,
    task: AbortHandle,
}

impl Drop for SubmittedPlan {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A plan whose result a client waits for.
pub(super) struct PendingPlan {
    plans: SubmittedPlans,
    key: PlanKey,
    number: u64,
    is_complete: watch::Receiver<bool>,
}

impl SubmittedPlans {
    /// Creates an empty set. The results that clients have not fetched yet have at most this number
    /// and size.
    pub(super) fn new(results_max: usize, bytes_max: u64) -> Self {
        let (by_key, last_number) = (HashMap::new(), 0);
        Self(Arc::new(Mutex::new(Plans { by_key, last_number, bytes_max, results_max })))
    }

    fn lock(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a plan that has these inputs. `None` if it is not known.
    pub(super) fn find(&self, key: PlanKey, inputs: &PlanInputs) -> Option<PendingPlan> {
        let mut plans = self.lock();
        let plan = plans.by_key.get_mut(&key).filter(|plan| plan.inputs == *inputs)?;
        plan.asked_at = Instant::now();
        let (number, is_complete) = (plan.number, plan.is_complete.subscribe());
        Some(PendingPlan { plans: self.clone(), key, number, is_complete })
    }

    /// Completes a plan in the background, unless a plan with the same inputs is already being
    /// completed.
    pub(super) fn submit(&self, key: PlanKey, inputs: PlanInputs, plan: PlanFuture) -> PendingPlan {
        if let Some(pending) = self.find(key, &inputs) {
            return pending;
        }
        let mut plans = self.lock();
        plans.last_number += 1;
        let number = plans.last_number;
        let task = tokio::spawn(complete(Arc::downgrade(&self.0), (key, number), plan));
        let (is_complete, receiver) = watch::channel(false);
        let (task, asked_at) = (task.abort_handle(), Instant::now());
        let submitted = SubmittedPlan { number, inputs, result: None, is_complete, asked_at, task };
        let replaced = plans.by_key.insert(key, submitted);
        drop(plans);
        drop(replaced);
        PendingPlan { plans: self.clone(), key, number, is_complete: receiver }
    }

    /// Stops a plan, and drops its result.
    pub(super) fn cancel(&self, key: PlanKey) {
        let removed = self.lock().by_key.remove(&key);
        drop(removed);
    }

    /// Removes a plan, and returns its result. `None` if it is not complete, or no longer known.
    fn take(&self, key: PlanKey, number: u64) -> Option<Result<EvaluatedPlan>> {
        let mut plans = self.lock();
        plans.by_key.get(&key).filter(|plan| plan.number == number && plan.result.is_some())?;
        let mut removed = plans.by_key.remove(&key)?;
        drop(plans);
        removed.result.take().map(|(result, _)| result)
    }
}

impl PendingPlan {
    /// Waits for the result. `None` if the plan is not complete in time, or was cancelled, or if
    /// another request got the result.
    pub(super) async fn result(mut self, wait: Duration) -> Option<Result<EvaluatedPlan>> {
        let complete = self.is_complete.wait_for(|is_complete| *is_complete);
        timeout(wait, complete).await.ok()?.ok()?;
        self.plans.take(self.key, self.number)
    }
}

impl Plans {
    fn plan(&mut self, (key, number): (PlanKey, u64)) -> Option<&mut SubmittedPlan> {
        self.by_key.get_mut(&key).filter(|plan| plan.number == number)
    }

    /// Stores the result of a plan. Returns the plans whose results have to be dropped for it.
    fn store(&mut self, id: (PlanKey, u64), result: Result<EvaluatedPlan>) -> Vec<SubmittedPlan> {
        let bytes = result.as_ref().map_or(0, |plan| plan.files.bytes());
        let Some(plan) = self.plan(id) else { return Vec::new() };
        plan.result = Some((result, bytes));
        plan.is_complete.send_replace(true);
        let mut dropped = Vec::new();
        while let Some(oldest) = self.excessive(id.0) {
            dropped.extend(self.by_key.remove(&oldest));
        }
        dropped
    }

    /// Returns the plan that no request has asked for in the longest time, if the results are too
    /// many or too large. The plan `kept` is not returned.
    fn excessive(&self, kept: PlanKey) -> Option<PlanKey> {
        let sizes = self.by_key.values().filter_map(|plan| Some(plan.result.as_ref()?.1));
        let (count, bytes) = sizes.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        if count <= self.results_max && bytes <= self.bytes_max {
            return None;
        }
        let others =
            self.by_key.iter().filter(|(key, plan)| **key != kept && plan.result.is_some());
        others.min_by_key(|(_, plan)| plan.asked_at).map(|(key, _)| *key)
    }
}

/// Completes a plan, and keeps the result until a request gets it. Ends when no request has asked
/// for the plan for some time.
async fn complete(plans: Weak<Mutex<Plans>>, id: (PlanKey, u64), plan: PlanFuture) {
    let plans = || plans.upgrade().map(SubmittedPlans);
    let idle = async || {
        while let Some(asked_at) = plans().and_then(|all| all.lock().plan(id).map(|it| it.asked_at))
            && asked_at.elapsed() < IDLE
        {
            sleep_until(asked_at + IDLE).await;
        }
    };
    tokio::select! {
        result = plan => {
            let dropped = plans().map(|all| all.lock().store(id, result));
            drop(dropped);
            idle().await;
        }
        () = idle() => {}
    }
    let removed = plans().and_then(|all| {
        let mut all = all.lock();
        all.plan(id).is_some().then(|| all.by_key.remove(&id.0))
    });
    drop(removed);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Error;
    use slateberg_model::read_restrictions::ReadRestrictions;

    const KEY: PlanKey = (Uuid::nil(), 1);
    const SECOND: Duration = Duration::from_secs(1);

    fn inputs(schema_id: i32) -> PlanInputs {
        PlanInputs {
            snapshots: ScanSnapshots::Empty,
            schema_id,
            filter: ScanFilter::all_rows(),
            statistics: Vec::new(),
            rows: ReadableRows::All,
            own_locations: Vec::new(),
        }
    }

    fn evaluated(task: &str) -> EvaluatedPlan {
        EvaluatedPlan { files: PlannedFiles::default(), plan_tasks: vec![task.to_owned()] }
    }

    /// Returns a plan that takes this time.
    fn slow(duration: Duration) -> PlanFuture {
        Box::pin(async move {
            tokio::time::sleep(duration).await;
            Ok(evaluated("slow"))
        })
    }

    fn tasks(result: Option<Result<EvaluatedPlan>>) -> Option<Vec<String>> {
        result.map(|plan| plan.expect("a plan").plan_tasks)
    }

    /// Counts the plans that are being completed.
    struct Running(Arc<AtomicUsize>);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns a plan that is never complete.
    fn endless(running: &Arc<AtomicUsize>) -> PlanFuture {
        running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(running));
        Box::pin(async move {
            let _running = running;
            pending().await
        })
    }

    #[tokio::test(start_paused = true)]
    async fn plan_that_takes_longer_than_each_wait_completes_once() {
        let plans = SubmittedPlans::new(8, 1 << 20);
        let first = plans.submit(KEY, inputs(0), slow(5 * SECOND));
        assert_eq!(tasks(first.result(SECOND).await), None);
        let failing = Box::pin(async { Err(Error::Invalid("not polled".to_owned())) });
        let second = plans.submit(KEY, inputs(0), failing);
        assert_eq!(tasks(second.result(SECOND).await), None);
        tokio::time::sleep(10 * SECOND).await;
        let complete = plans.find(KEY, &inputs(0)).expect("it is known");
        let other = plans.find(KEY, &inputs(0)).expect("it is known");
        assert_eq!(tasks(complete.result(Duration::ZERO).await), Some(vec!["slow".to_owned()]));
        assert_eq!(tasks(other.result(SECOND).await), None, "the result was returned");
        assert!(plans.find(KEY, &inputs(0)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn plan_with_other_inputs_is_not_shared() {
        let plans = SubmittedPlans::new(8, 1 << 20);
        drop(plans.submit(KEY, inputs(0), slow(SECOND)));
        assert!(plans.find(KEY, &inputs(1)).is_none());
        assert!(plans.find((Uuid::max(), 1), &inputs(0)).is_none());
        let restrictions = ReadRestrictions {
            filter: None,
            masks: BTreeMap::default(),
            inexpressible: Vec::new(),
        };
        let rows = ReadableRows::Restricted(Arc::new(restrictions));
        let restricted = PlanInputs { rows, ..inputs(0) };
        assert!(plans.find(KEY, &restricted).is_none());
        let replacing = plans.submit(KEY, inputs(1), Box::pin(async { Ok(evaluated("other")) }));
        assert_eq!(tasks(replacing.result(SECOND).await), Some(vec!["other".to_owned()]));
    }

    #[tokio::test(start_paused = true)]
    async fn plan_ends_if_it_is_cancelled_or_no_request_asks_for_it() {
        let (plans, running) = (SubmittedPlans::new(8, 1 << 20), Arc::default());
        let waiting = plans.submit(KEY, inputs(0), endless(&running));
        plans.cancel(KEY);
        assert_eq!(tasks(waiting.result(SECOND).await), None);
        tokio::time::sleep(SECOND).await;
        assert_eq!(running.load(Ordering::SeqCst), 0);

        drop(plans.submit(KEY, inputs(0), endless(&running)));
        tokio::time::sleep(IDLE - SECOND).await;
        drop(plans.find(KEY, &inputs(0)).expect("it is known"));
        tokio::time::sleep(IDLE - SECOND).await;
        assert_eq!(running.load(Ordering::SeqCst), 1, "a request asked for it");
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(running.load(Ordering::SeqCst), 0);
        assert!(plans.lock().by_key.is_empty());

        drop(plans.submit(KEY, inputs(0), slow(SECOND)));
        tokio::time::sleep(IDLE + 2 * SECOND).await;
        assert!(plans.lock().by_key.is_empty(), "its result was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_result_is_dropped_for_further_ones() {
        let plans = SubmittedPlans::new(2, 1 << 20);
        for number in 0..3 {
            drop(plans.submit((Uuid::nil(), number), inputs(0), slow(SECOND)));
            tokio::time::sleep(2 * SECOND).await;
        }
        let known = [0, 1, 2].map(|number| plans.find((Uuid::nil(), number), &inputs(0)).is_some());
        assert_eq!(known, [false, true, true]);
    }
}
