//! Prepares the data of scenarios. Preparation is idempotent, and done once per run.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bodies::{self, Head};
use super::connection::{Answer, Call};
use super::load::{Caller, Callers, Length, Measured, Verdict, drive};
use super::target::{CONFLICT, Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};

/// Number of connections for the preparation.
const CONNECTIONS: usize = 16;
/// Number of snapshots in one commit of the preparation.
const SNAPSHOTS_PER_COMMIT: usize = 500;

/// Callers that share a range of numbers. An object that exists already is a success.
struct Shared<F> {
    next: Arc<AtomicU64>,
    end: u64,
    make: Arc<F>,
}

impl<F: Fn(u64) -> Call + Send + Sync + 'static> Caller for Shared<F> {
    fn next(&mut self) -> Option<Call> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then(|| (self.make)(number))
    }

    fn seen(&mut self, answer: &Answer) -> Verdict {
        let there = answer.is_good() || answer.status == CONFLICT;
        if there { Verdict::Done } else { Verdict::Failed }
    }
}

/// Returns callers that share a range.
pub fn sharing(
    clients: usize,
    numbers: Range<usize>,
    make: impl Fn(u64) -> Call + Send + Sync + 'static,
) -> Callers {
    let next = Arc::new(AtomicU64::new(numbers.start as u64));
    let (end, make) = (numbers.end as u64, Arc::new(make));
    let shared = || Shared { next: Arc::clone(&next), end, make: Arc::clone(&make) };
    (0..clients).map(|_| Box::new(shared()) as Box<dyn Caller>).collect()
}

/// Sends the requests for a range of numbers concurrently. Errors if one fails.
pub async fn make_all(
    target: &Target,
    numbers: Range<usize>,
    make: impl Fn(u64) -> Call + Send + Sync + 'static,
) -> Result<(), TargetError> {
    let callers = sharing(CONNECTIONS.min(numbers.len()), numbers, make);
    match callers.len() {
        0 => Ok(()),
        connections => succeeded(&drive(target, callers, connections, Length::Exhaustion).await?),
    }
}

/// Sends the requests for missing objects of a kind, and records their number.
async fn make_up_to(
    target: &Target,
    what: &str,
    count: usize,
    make: impl Fn(u64) -> Call + Send + Sync + 'static,
) -> Result<(), TargetError> {
    let there = target.prepared(what);
    make_all(target, there..count, make).await?;
    target.set_prepared(what, count.max(there));
    Ok(())
}

/// Errors if an operation failed.
pub fn succeeded(measured: &Measured) -> Result<(), TargetError> {
    match (measured.failures.first_key_value(), &measured.first_failure) {
        (Some((status, _)), why) => Err(TargetError::Refused {
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
        target.make(Call::post(target.namespaces(), bodies::namespace(name))).await?;
        target.set_prepared(name, 1);
    }
    Ok(())
}

/// Creates the namespaces `NAME_0`, `NAME_1`, ...
pub async fn namespaces(target: &Target, name: &str, count: usize) -> Result<(), TargetError> {
    let what = format!("{name}_*");
    let (path, name) = (target.namespaces(), name.to_owned());
    make_up_to(target, &what, count, move |n| {
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
        target.make(Call::post(path, bodies::table(name, columns))).await?;
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
    make_up_to(target, &what, count, move |n| {
        Call::post(path.clone(), bodies::table(&format!("t_{n}"), columns))
    })
    .await
}

/// Creates a namespace with a table that has this number of snapshots. Returns the table's path.
pub async fn table_with_snapshots(
    target: &Target,
    in_namespace: &str,
    name: &str,
    snapshots: usize,
    columns: usize,
) -> Result<String, TargetError> {
    let path = target.table(in_namespace, name);
    if target.is_bare {
        return Ok(path);
    }
    namespace(target, in_namespace).await?;
    table(target, in_namespace, name, columns).await?;
    let what = format!("{path} snapshots");
    let mut there = target.prepared(&what);
    if there < snapshots {
        let mut head = Head::read(&target.ask(Call::get(&path)).await?.body)?;
        while there < snapshots {
            let adding = SNAPSHOTS_PER_COMMIT.min(snapshots - there);
            let ids: Vec<i64> = (0..adding).map(|_| snapshot_id()).collect();
            let (body, next) = head.append(&ids, SystemClock.now_ms());
            target.ask(Call::post(&path, body)).await?;
            (head, there) = (next, there + adding);
        }
        target.set_prepared(&what, there);
    }
    Ok(path)
}

/// Returns a new snapshot id: positive, like those of Iceberg's writers.
pub fn snapshot_id() -> i64 {
    let (high, _) = RandomIds.random().as_u64_pair();
    i64::try_from(high >> 1).unwrap_or(i64::MAX)
}
