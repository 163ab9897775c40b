//! Reads of one table by many clients: complete responses, and 304 for clients with the current
//! version.

use serde_json::{Value, json};

use super::Sizes;
use crate::connection::Call;
use crate::load::repeated_calls;
use crate::plan::{Step, Workload};
use crate::prepare;
use crate::target::{Target, TargetError};

/// Returns a step for each number of snapshots and connections.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    let (time, columns) = (sizes.timed(), sizes.columns);
    let mut steps = Vec::new();
    for &snapshots in &sizes.snapshots {
        for conditional in [false, true] {
            for &clients in &sizes.connections {
                let parameter = parameter(snapshots, conditional);
                let step = Step::new("load-table", parameter, time, move |target, _| {
                    repeated_load(target, snapshots, conditional, clients, columns)
                });
                steps.push(step.with_clients(clients).with_bare(path_of));
            }
        }
    }
    steps
}

/// Parameters that distinguish the steps.
pub(super) fn parameter(snapshots: usize, conditional: bool) -> Value {
    let operation = if conditional { "load_304" } else { "load_table" };
    json!({ "operation": operation, "snapshots": snapshots })
}

/// Returns the path of the table that a step with these parameters loads.
pub(super) fn path_of(step: &Step, target: &Target) -> String {
    let snapshots = step.parameter["snapshots"].as_u64().unwrap_or_default();
    target.table(&namespace(target), &name(snapshots))
}

fn namespace(target: &Target) -> String {
    target.unique_name("loaded")
}

fn name(snapshots: impl std::fmt::Display) -> String {
    format!("with_{snapshots}")
}

/// Returns clients that load one table repeatedly.
pub(super) async fn repeated_load(
    target: Target,
    snapshots: usize,
    conditional: bool,
    clients: usize,
    columns: usize,
) -> Result<Workload, TargetError> {
    let (namespace, name) = (namespace(&target), name(snapshots));
    let path =
        prepare::table_with_snapshots(&target, &namespace, &name, snapshots, columns).await?;
    let response = target.request(Call::get(&path)).await?;
    let mut call = Call::get(&path);
    if conditional {
        let etag = response.headers.get("etag").cloned();
        let etag =
            etag.ok_or_else(|| TargetError::Unsupported("the server sends no ETag".to_owned()))?;
        call.if_none_match = Some(etag);
        let again = target.request(call.clone()).await?;
        if again.status != 304 {
            let status = again.status;
            return Err(TargetError::Unsupported(format!("status {status} for its own ETag")));
        }
    }
    let callers = (0..clients).map(|_| repeated_calls(call.clone())).collect();
    let bytes = if conditional { 0 } else { response.body.len() };
    Ok(Workload { callers, extra: json!({ "body_bytes": bytes }), finish: None })
}
