//! The steps of etcd's own benchmark tool, with namespaces instead of keys: a put updates a
//! property of a namespace, and a get loads a namespace. Each worker has its own namespaces.

use hyper::Method;
use hyper::header::HeaderValue;
use serde_json::json;

use super::Sizes;
use crate::bodies;
use crate::connection::Call;
use crate::load::{Caller, numbered_calls};
use crate::plan::{Step, Workload};
use crate::prepare;
use crate::target::Target;

const SCENARIO: &str = "kv";
/// Number of concurrent workers.
const WORKERS: usize = 16;
/// Maximum number of clients, and number of their connections.
const CLIENTS: usize = 1000;
const CONNECTIONS: usize = 100;
/// Size of a value.
const VALUE_BYTES: usize = 256;
/// Consistency of a read that may return old state. A server that is not a slateberg ignores it.
const STALE: HeaderValue = HeaderValue::from_static("bounded; max-staleness-ms=1000");
/// Number of namespaces on a page.
const PAGE: usize = 100;

/// Returns the steps.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    let many = CLIENTS.min(sizes.keys);
    vec![
        step(sizes, "seq_put", 1, Mix::Put),
        step(sizes, "par_put", WORKERS, Mix::Put),
        step(sizes, "put_1000", many, Mix::Put).with_connections(CONNECTIONS.min(many)),
        step(sizes, "seq_get", 1, Mix::Get),
        step(sizes, "par_get", WORKERS, Mix::Get),
        range(sizes),
        step(sizes, "mixed", WORKERS, Mix::Both),
        delete(sizes),
    ]
}

/// Returns the steps for clusters. The last steps are reads that may return old state.
pub fn cluster_steps(sizes: &Sizes) -> Vec<Step> {
    vec![
        step(sizes, "seq_put", 1, Mix::Put),
        step(sizes, "par_put", WORKERS, Mix::Put),
        step(sizes, "seq_get", 1, Mix::Get),
        step(sizes, "par_get", WORKERS, Mix::Get),
        step(sizes, "mixed", WORKERS, Mix::Both),
        step(sizes, "seq_get_stale", 1, Mix::StaleGet),
        step(sizes, "par_get_stale", WORKERS, Mix::StaleGet),
    ]
}

/// Operations of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mix {
    Put,
    Get,
    Both,
    StaleGet,
}

fn step(sizes: &Sizes, operation: &str, workers: usize, mix: Mix) -> Step {
    let keys = sizes.keys.max(workers);
    let parameter = json!({ "operation": operation });
    let step = Step::new(SCENARIO, parameter, sizes.timed(), move |target, _| async move {
        prepare::namespaces(&target, &target.unique_name("kv"), keys).await?;
        let callers = (0..workers).map(|number| worker(&target, number, workers, keys, mix));
        Ok(Workload::from(callers.collect::<Vec<_>>()))
    });
    step.with_clients(workers)
}

/// Returns a worker with its share of the keys.
fn worker(
    target: &Target,
    number: usize,
    workers: usize,
    keys: usize,
    mix: Mix,
) -> Box<dyn Caller> {
    let (target, prefix) = (target.clone(), target.unique_name("kv"));
    let own = (keys - number).div_ceil(workers) as u64;
    numbered_calls(move |n| {
        let key = number as u64 + n % own * workers as u64;
        let path = target.namespace(&format!("{prefix}_{key}"));
        let puts = mix == Mix::Put || mix == Mix::Both && n % 2 == 0;
        if puts {
            let value = format!("{n:0VALUE_BYTES$}");
            let body = bodies::set_namespace_property("value", &value);
            Call::post(format!("{path}/properties"), body)
        } else {
            let consistency = (mix == Mix::StaleGet).then_some(STALE);
            Call { consistency, ..Call::get(path) }
        }
    })
}

fn range(sizes: &Sizes) -> Step {
    let (keys, parameter) = (sizes.keys, json!({ "operation": "range", "page": PAGE }));
    Step::new(SCENARIO, parameter, sizes.timed(), move |target, _| async move {
        prepare::namespaces(&target, &target.unique_name("kv"), keys).await?;
        let path = format!("{}?pageToken=&pageSize={PAGE}", target.namespaces());
        let names = bodies::count_names(&target.request(Call::get(&path)).await?.body);
        let callers = vec![numbered_calls(move |_| Call::get(&path))];
        Ok(Workload { extra: json!({ "names": names }), ..Workload::from(callers) })
    })
}

fn delete(sizes: &Sizes) -> Step {
    let count = usize::try_from(sizes.iterations).unwrap_or(usize::MAX);
    let requests = sizes.requests(sizes.iterations);
    let parameter = json!({ "operation": "delete" });
    Step::new(SCENARIO, parameter, requests, move |target, round| async move {
        let name = target.unique_name(&format!("deleted_{round}"));
        prepare::namespaces(&target, &name, count).await?;
        Ok(Workload::from(vec![numbered_calls(move |n| {
            Call::new(Method::DELETE, target.namespace(&format!("{name}_{n}")))
        })]))
    })
}
