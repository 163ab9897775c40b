//! Appends by many clients to one table. After a conflict, a client reloads the table and retries.
//!
//! Each round has a new table, so that all rounds start with the same state. After a round, the
//! table is loaded and compared with the server's responses.

use futures::FutureExt;
use serde_json::json;

use super::Sizes;
use crate::append::{self, Appender, SharedJournal};
use crate::bodies::{self, Head};
use crate::connection::Call;
use crate::load::{Caller, Callers};
use crate::plan::{Step, Workload};
use crate::prepare;
use crate::target::{Target, TargetError};

/// Returns a step for each number of clients.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    let (time, columns) = (sizes.timed(), sizes.columns);
    let steps = sizes.clients.iter().map(|&clients| {
        let parameter = json!({ "operation": "commit_append" });
        let step = Step::new("append-one", parameter, time, move |target, round| {
            let (namespace, name) =
                (target.unique_name("appended"), format!("by_{clients}_{round}"));
            workload(target, (namespace, name), 0, clients, columns, false)
        });
        step.with_clients(clients)
    });
    steps.collect()
}

/// Returns `clients` clients that append to a table with this number of snapshots. With `gzip`, the
/// table's metadata files are compressed, and the clients accept compressed responses.
pub(super) async fn workload(
    target: Target,
    (namespace, name): (String, String),
    snapshots: usize,
    clients: usize,
    columns: usize,
    gzip: bool,
) -> Result<Workload, TargetError> {
    let path =
        prepare::table_with_snapshots(&target, &namespace, &name, snapshots, columns).await?;
    if gzip {
        target.request(Call::post(&path, bodies::compress_metadata_files())).await?;
    }
    let head = Head::read(&target.request(Call::get(&path)).await?.body)?;
    let journal = SharedJournal::default();
    let appender = || {
        let journal = SharedJournal::clone(&journal);
        Appender::new(path.clone(), head.clone(), journal).accepting_gzip(gzip)
    };
    let callers: Callers = (0..clients).map(|_| Box::new(appender()) as Box<dyn Caller>).collect();
    let check = async move { append::check(&target, &path, &journal).await };
    Ok(Workload { callers, extra: json!({}), finish: Some(Box::new(|_| check.boxed())) })
}
