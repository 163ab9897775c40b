//! Appends, by many clients to one table: who meets a conflict looks at what is there and tries again.
//!
//! Each round has a table of its own, so that all begin with the same. When a round is over the table
//! is read back, and what the server said is held against it.

use futures::FutureExt;
use serde_json::json;

use super::Sizes;
use crate::append::{self, Appender, SharedJournal};
use crate::bodies::Head;
use crate::connection::Call;
use crate::load::{Caller, Callers};
use crate::plan::{Cast, Step};
use crate::prepare;
use crate::target::{Target, TargetError};

/// Each number of clients.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    let (time, columns) = (sizes.timed(), sizes.columns);
    let steps = sizes.clients.iter().map(|&clients| {
        let parameter = json!({ "operation": "commit_append" });
        let step = Step::new("append-one", parameter, time, move |target, round| {
            let (namespace, name) = (target.named("appended"), format!("by_{clients}_{round}"));
            cast(target, namespace, name, 0, clients, columns)
        });
        step.by(clients)
    });
    steps.collect()
}

/// So many clients that append to a table which has so many snapshots before the first of them does.
pub(super) async fn cast(
    target: Target,
    namespace: String,
    name: String,
    snapshots: usize,
    clients: usize,
    columns: usize,
) -> Result<Cast, TargetError> {
    let path =
        prepare::table_with_snapshots(&target, &namespace, &name, snapshots, columns).await?;
    let head = Head::read(&target.ask(Call::get(&path)).await?.body)?;
    let journal = SharedJournal::default();
    let appender = || Appender::new(path.clone(), head.clone(), SharedJournal::clone(&journal));
    let callers: Callers = (0..clients).map(|_| Box::new(appender()) as Box<dyn Caller>).collect();
    let check = async move { append::check(&target, &path, &journal).await };
    Ok(Cast { callers, extra: json!({}), finish: Some(Box::new(|_| check.boxed())) })
}
