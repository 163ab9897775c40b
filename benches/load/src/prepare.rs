//! Prepares the data of scenarios. Preparation is idempotent, and done once per run.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bodies::{self, Head};
use super::connection::{Call, CallResponse};
use super::load::{CallOutcome, Caller, Callers, Length, Measured, drive};
use super::target::{CONFLICT, Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};

/// Number of connections for the preparation.
const CONNECTIONS: usize = 16;
/// Number of snapshots in one commit of the preparation.
const SNAPSHOTS_PER_COMMIT: usize = 500;

/// Callers that share a range of numbers. The response that an object already exists counts as a
/// success.
struct SharedCalls<F> {
    next: Arc<AtomicU64>,
    end: u64,
    create: Arc<F>,
}

impl<F: Fn(u64) -> Call + Send + Sync + 'static> Caller for SharedCalls<F> {
    fn next(&mut self) -> Option<Call> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then(|| (self.create)(number))
    }

    fn on_response(&mut self, response: &CallResponse) -> CallOutcome {
        let existing = response.is_success() || response.status == CONFLICT;
        if existing { CallOutcome::Done } else { CallOutcome::Failed }
    }
}

/// Returns callers that share a range.
pub fn shared_callers(
    clients: usize,
    numbers: Range<usize>,
    create: impl Fn(u64) -> Call + Send + Sync + 'static,
) -> Callers {
    let next = Arc::new(AtomicU64::new(numbers.start as u64));
    let (end, create) = (numbers.end as u64, Arc::new(create));
    let shared_calls = || SharedCalls { next: Arc::clone(&next), end, create: Arc::clone(&create) };
    (0..clients).map(|_| Box::new(shared_calls()) as Box<dyn Caller>).collect()
}

/// Sends the requests for a range of numbers concurrently. Errors if one fails.
pub async fn send_all(
    target: &Target,
    numbers: Range<usize>,
    create: impl Fn(u64) -> Call + Send + Sync + 'static,
) -> Result<(), TargetError> {
    let callers = shared_callers(CONNECTIONS.min(numbers.len()), numbers, create);
    match callers.len() {
        0 => Ok(()),
        connections => {
            check_no_failures(&drive(target, callers, connections, Length::Exhaustion).await?)
        }
    }
}

/// Sends the requests for missing objects of a kind, and records their number.
async fn send_missing(
    target: &Target,
    what: &str,
    count: usize,
    create: impl Fn(u64) -> Call + Send + Sync + 'static,
) -> Result<(), TargetError> {
    let existing = target.prepared(what);
    send_all(target, existing..count, create).await?;
    target.set_prepared(what, count.max(existing));
    Ok(())
}

/// Errors if an operation failed.
pub fn check_no_failures(measured: &Measured) -> Result<(), TargetError> {
    match (measured.failures.first_key_value(), &measured.first_failure) {
        (Some((status, _)), why) => Err(TargetError::UnexpectedStatus {
            what: "preparing".to_owned(),
            status: *status,
            body: why.clone().unwrap_or_default(),
        }),
        (None, _) => Ok(()),
    }
}

/// Creates a namespace.
pub async fn namespace(target: &Target, name: &str) -> Result<(), TargetError> {
    if target.prepared(name) == 0 {
        target.create(Call::post(target.namespaces(), bodies::namespace(name))).await?;
        target.set_prepared(name, 1);
    }
    Ok(())
}

/// Creates the namespaces `NAME_0`, `NAME_1`, ...
pub async fn namespaces(target: &Target, name: &str, count: usize) -> Result<(), TargetError> {
    let what = format!("{name}_*");
    let (path, name) = (target.namespaces(), name.to_owned());
    send_missing(target, &what, count, move |n| {
        Call::post(path.clone(), bodies::namespace(&format!("{name}_{n}")))
    })
    .await
}

/// Creates a table.
pub async fn table(
    target: &Target,
    namespace: &str,
    name: &str,
    columns: usize,
) -> Result<(), TargetError> {
    let path = target.tables(namespace);
    let what = format!("{path}/{name}");
    if target.prepared(&what) == 0 {
        target.create(Call::post(path, bodies::table(name, columns))).await?;
        target.set_prepared(&what, 1);
    }
    Ok(())
}

/// Creates a namespace with the tables `t_0`, `t_1`, ...
pub async fn tables(
    target: &Target,
    name: &str,
    count: usize,
    columns: usize,
) -> Result<(), TargetError> {
    namespace(target, name).await?;
    let path = target.tables(name);
    let what = format!("{path}/*");
    send_missing(target, &what, count, move |n| {
        Call::post(path.clone(), bodies::table(&format!("t_{n}"), columns))
    })
    .await
}

/// Creates a namespace with a table that has this number of snapshots. Returns the table's path.
pub async fn table_with_snapshots(
    target: &Target,
    namespace_name: &str,
    name: &str,
    snapshots: usize,
    columns: usize,
) -> Result<String, TargetError> {
    let path = target.table(namespace_name, name);
    if target.is_bare {
        return Ok(path);
    }
    namespace(target, namespace_name).await?;
    table(target, namespace_name, name, columns).await?;
    let what = format!("{path} snapshots");
    let mut existing = target.prepared(&what);
    if existing < snapshots {
        let mut head = Head::read(&target.request(Call::get(&path)).await?.body)?;
        while existing < snapshots {
            let adding = SNAPSHOTS_PER_COMMIT.min(snapshots - existing);
            let ids: Vec<i64> = (0..adding).map(|_| snapshot_id()).collect();
            let (body, next) = head.append(&ids, SystemClock.now_ms());
            target.request(Call::post(&path, body)).await?;
            (head, existing) = (next, existing + adding);
        }
        target.set_prepared(&what, existing);
    }
    Ok(path)
}

/// Returns a new snapshot id: positive, like those of Iceberg's writers.
pub fn snapshot_id() -> i64 {
    let (high, _) = RandomIds.random().as_u64_pair();
    i64::try_from(high >> 1).unwrap_or(i64::MAX)
}
