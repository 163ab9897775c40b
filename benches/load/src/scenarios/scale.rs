//! The same reads and commits while the catalog grows to many tables.
//!
//! The tables have the same names in every run, and a property of a namespace counts them, so that
//! a large catalog is created only once.

use futures::FutureExt;
use serde_json::{Value, json};

use super::Sizes;
use crate::bodies;
use crate::connection::Call;
use crate::load::{Length, numbered_calls, repeated_calls};
use crate::plan::{Step, Workload};
use crate::prepare;
use crate::target::{Target, TargetError};

const SCENARIO: &str = "scale";
/// Number of clients that create tables, and of clients in a measurement.
const CLIENTS: usize = 100;
/// Number of tables that are read and changed.
const HOT: usize = 100;
/// The namespace that counts the tables.
const MARKER: &str = "scale_marker";
/// Property with the number of tables.
const COUNT: &str = "tables";

/// Returns the steps for each size.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    let mut sizes = sizes.clone();
    sizes.tables.sort_unstable();
    sizes.tables.iter().flat_map(|&tables| steps_at(&sizes, tables)).collect()
}

fn steps_at(sizes: &Sizes, tables: usize) -> Vec<Step> {
    let mut steps = vec![grow(sizes, tables)];
    for clients in [1, CLIENTS] {
        steps.push(hot(sizes, tables, clients, "load_table"));
    }
    for clients in [1, CLIENTS] {
        steps.push(hot(sizes, tables, clients, "commit_properties"));
    }
    for page in [100, 1000] {
        steps.push(listing(sizes, tables, page));
    }
    steps
}

fn parameter(operation: &str, tables: usize) -> Value {
    json!({ "operation": operation, "tables": tables })
}

/// Returns the namespace and the name of a table by its number.
fn table_ident(number: usize, page: usize) -> (String, String) {
    (format!("scale_{}", number / page), format!("t_{}", number % page))
}

/// Returns the step that creates the missing tables.
fn grow(sizes: &Sizes, tables: usize) -> Step {
    let (columns, page) = (sizes.columns, sizes.page);
    let length = (Length::Exhaustion, Length::Exhaustion);
    let step =
        Step::new(SCENARIO, parameter("grow", tables), length, move |target, _| async move {
            let existing = count(&target).await?;
            let namespaces = existing / page..tables.div_ceil(page);
            let path = target.namespaces();
            prepare::send_all(&target, namespaces, move |n| {
                Call::post(path.clone(), bodies::namespace(&format!("scale_{n}")))
            })
            .await?;
            let finished = target.clone();
            let callers =
                prepare::shared_callers(CLIENTS, existing.min(tables)..tables, move |n| {
                    let (namespace, name) =
                        table_ident(usize::try_from(n).unwrap_or_default(), page);
                    Call::post(target.tables(&namespace), bodies::table(&name, columns))
                });
            let mark = move |failures| async move {
                if failures == 0 {
                    set_count(&finished, existing.max(tables)).await?;
                }
                Ok(json!({ "tables_before": existing }))
            };
            let finish = Box::new(move |failures| mark(failures).boxed());
            Ok(Workload { finish: Some(finish), ..Workload::from(callers) })
        });
    step.with_clients(CLIENTS).without_warm_up()
}

/// Returns the number of tables that earlier runs created.
async fn count(target: &Target) -> Result<usize, TargetError> {
    target.create(Call::post(target.namespaces(), bodies::namespace(MARKER))).await?;
    let marker = target.request(Call::get(target.namespace(MARKER))).await?;
    let marker: Value = serde_json::from_slice(&marker.body).unwrap_or_default();
    let count = marker["properties"][COUNT].as_str().and_then(|count| count.parse().ok());
    Ok(count.unwrap_or_default())
}

async fn set_count(target: &Target, count: usize) -> Result<(), TargetError> {
    let body = bodies::set_namespace_property(COUNT, &count.to_string());
    let path = format!("{}/properties", target.namespace(MARKER));
    target.request(Call::post(path, body)).await.map(|_| ())
}

/// Returns a step with reads or commits on tables that are far apart.
fn hot(sizes: &Sizes, tables: usize, clients: usize, operation: &'static str) -> Step {
    let page = sizes.page;
    let time = sizes.timed();
    let step =
        Step::new(SCENARIO, parameter(operation, tables), time, move |target, _| async move {
            let hot = HOT.min(tables);
            let path = move |number: usize| {
                let (namespace, name) = table_ident(number % hot * (tables / hot), page);
                target.table(&namespace, &name)
            };
            let callers = (0..clients).map(|client| {
                let path = path.clone();
                if operation == "load_table" {
                    return numbered_calls(move |n| {
                        Call::get(path(client + usize::try_from(n).unwrap_or_default()))
                    });
                }
                let path = path(client);
                numbered_calls(move |n| Call::post(&path, bodies::set_property(n)))
            });
            Ok(Workload::from(callers.collect::<Vec<_>>()))
        });
    step.with_clients(clients)
}

fn listing(sizes: &Sizes, tables: usize, page: usize) -> Step {
    let mut parameter = parameter("list_tables", tables);
    parameter["page"] = json!(page);
    Step::new(SCENARIO, parameter, sizes.timed(), move |target, _| async move {
        let path = format!("{}?pageToken=&pageSize={page}", target.tables("scale_0"));
        let names = bodies::count_names(&target.request(Call::get(&path)).await?.body);
        let callers = vec![repeated_calls(Call::get(&path))];
        Ok(Workload { extra: json!({ "names": names }), ..Workload::from(callers) })
    })
}
