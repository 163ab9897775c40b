//! What scenarios need before they begin. Everything may be there already: preparing is idempotent, and
//! what was prepared once in a run is not asked for again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bodies::{self, Head};
use super::connection::{Answer, Call};
use super::load::{Caller, Callers, Length, Measured, Verdict, drive};
use super::target::{CONFLICT, Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};

/// Connections that prepare side by side.
const CONNECTIONS: usize = 16;
/// Snapshots that one commit of the preparation adds.
const SNAPSHOTS_PER_COMMIT: usize = 500;

/// Makes requests out of the numbers of a range that many of its kind share. What is there already is
/// fine.
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

/// So many callers that share the work of a range.
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

/// Sends what a range of numbers makes, many at a time, and wants all of it to be there then.
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

/// The same for as many of `what` as are missing, and takes note that they are there.
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

/// Wants that nothing failed.
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

/// Makes a namespace.
pub async fn namespace(target: &Target, name: &str) -> Result<(), TargetError> {
    if target.prepared(name) == 0 {
        target.make(Call::post(target.namespaces(), bodies::namespace(name))).await?;
        target.set_prepared(name, 1);
    }
    Ok(())
}

/// Makes namespaces `NAME_0`, `NAME_1`, ...
pub async fn namespaces(target: &Target, name: &str, count: usize) -> Result<(), TargetError> {
    let what = format!("{name}_*");
    let (path, name) = (target.namespaces(), name.to_owned());
    make_up_to(target, &what, count, move |n| {
        Call::post(path.clone(), bodies::namespace(&format!("{name}_{n}")))
    })
    .await
}

/// Makes a table.
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

/// Makes a namespace and in it the tables `t_0`, `t_1`, ...
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

/// Makes a namespace and in it a table with so many snapshots; returns the table's path.
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

/// A new snapshot id: positive, as Iceberg's own are.
pub fn snapshot_id() -> i64 {
    let (high, _) = RandomIds.random().as_u64_pair();
    i64::try_from(high >> 1).unwrap_or(i64::MAX)
}
