//! Commits of properties by many clients: each client to its own table, or all clients to one
//! table.

use serde_json::json;

use super::Sizes;
use crate::bodies;
use crate::connection::Call;
use crate::load::numbered_calls;
use crate::plan::{Step, Workload};
use crate::prepare;

/// Returns the steps with one table per client.
pub fn distinct(sizes: &Sizes) -> Vec<Step> {
    steps(sizes, "commit", false)
}

/// Returns the steps with one table.
pub fn one(sizes: &Sizes) -> Vec<Step> {
    steps(sizes, "commit-one", true)
}

fn steps(sizes: &Sizes, scenario: &'static str, one_table: bool) -> Vec<Step> {
    let (time, columns) = (sizes.timed(), sizes.columns);
    let steps = sizes.clients.iter().map(|&clients| {
        let parameter = json!({ "operation": "commit_properties" });
        let step = Step::new(scenario, parameter, time, move |target, _| async move {
            let namespace = target.unique_name("committed");
            let tables = if one_table { 1 } else { clients };
            prepare::tables(&target, &namespace, tables, columns).await?;
            let callers = (0..clients).map(|client| {
                let path = target.table(&namespace, &format!("t_{}", client % tables));
                numbered_calls(move |n| Call::post(&path, bodies::set_property(n)))
            });
            Ok(Workload::from(callers.collect::<Vec<_>>()))
        });
        step.with_clients(clients)
    });
    steps.collect()
}
