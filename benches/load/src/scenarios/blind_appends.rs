//! Appends by many clients to one table that the server rebases. The server must permit this with
//! `catalog.append_rebase`, and the second step needs `catalog.maintenance`.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::json;

use super::Sizes;
use crate::blind_append::{PreparedAppender, SharedTable, WholeAppender};
use crate::bodies;
use crate::connection::Call;
use crate::load::{Caller, Callers, Length};
use crate::plan::{Round, Step, Workload};
use crate::prepare;
use crate::target::{Target, TargetError};

/// Number of appends of all clients in a round of the first step, at most: a table whose appends are
/// rebased has at most 2,000 manifests by default.
const APPENDS: u64 = 2000;
/// Number of appends of each client in its warm-up.
const WARM_UP_APPENDS: u64 = 4;

/// Returns two steps for each number of clients. In the first one, the clients have written their
/// files in advance. In the second one, they write files between their commits, while the server
/// expires snapshots and rewrites manifests.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    sizes.clients.iter().flat_map(|&clients| [prepared(clients), whole(sizes, clients)]).collect()
}

fn prepared(clients: usize) -> Step {
    let appends = (APPENDS / clients as u64).max(1);
    let lengths = (Length::Requests(appends), Length::Requests(WARM_UP_APPENDS));
    let parameter = json!({ "operation": "prepared" });
    let step = Step::new("append-blind", parameter, lengths, move |target, round| async move {
        let table = table(&target, round, &format!("prepared_{clients}"), false).await?;
        let client = |_| PreparedAppender::new(&table, appends).map(boxed);
        let callers = (0..clients).map(client).collect::<Result<Callers, TargetError>>()?;
        Ok(workload(target, table, callers))
    });
    step.with_clients(clients)
}

fn whole(sizes: &Sizes, clients: usize) -> Step {
    let parameter = json!({ "operation": "sustained" });
    let step =
        Step::new("append-blind", parameter, sizes.timed(), move |target, round| async move {
            let table = table(&target, round, &format!("sustained_{clients}"), true).await?;
            let callers = (0..clients).map(|_| boxed(WholeAppender::new(&table))).collect();
            Ok(workload(target, table, callers))
        });
    step.with_clients(clients)
}

fn boxed(caller: impl Caller) -> Box<dyn Caller> {
    Box::new(caller)
}

/// Creates a table with one snapshot.
async fn table(
    target: &Target,
    round: Round,
    name: &str,
    is_maintained: bool,
) -> Result<Arc<SharedTable>, TargetError> {
    let (namespace, name) = (target.unique_name("blind"), format!("{name}_{round}"));
    let path = prepare::table_with_snapshots(target, &namespace, &name, 0, 2).await?;
    let properties = bodies::rebased_appends(is_maintained);
    target.request(Call::post(&path, properties)).await?;
    SharedTable::begin(target, path).await
}

fn workload(target: Target, table: Arc<SharedTable>, callers: Callers) -> Workload {
    let check = async move { table.check(&target).await };
    Workload { callers, extra: json!({}), finish: Some(Box::new(|_| check.boxed())) }
}
