//! Operations of a catalog by one client.

use hyper::Method;
use serde_json::json;

use super::load_table::{self, repeated_load};
use super::{Sizes, appends};
use crate::bodies;
use crate::connection::Call;
use crate::load::numbered_calls;
use crate::plan::{Round, Step, Workload};
use crate::prepare;
use crate::target::{Target, TargetError};

const SCENARIO: &str = "operations";
/// Number of names on a page of namespaces.
const NAMESPACES_PAGE: usize = 100;

/// Returns the steps.
pub fn steps(sizes: &Sizes) -> Vec<Step> {
    let mut steps = namespaces(sizes);
    steps.extend(tables(sizes));
    steps.extend(commits(sizes));
    steps.extend(histories(sizes));
    steps
}

/// Returns a step whose requests depend only on their number.
fn simple(
    sizes: &Sizes,
    operation: &str,
    make: impl Fn(&Target, &str, u64) -> Call + Clone + Send + Sync + 'static,
) -> Step {
    let requests = sizes.requests(sizes.iterations);
    Step::new(SCENARIO, json!({ "operation": operation }), requests, move |target, round| {
        let (make, prefix) = (make.clone(), target.unique_name(&round.to_string()));
        async move { Ok(Workload::from(vec![numbered_calls(move |n| make(&target, &prefix, n))])) }
    })
}

fn namespaces(sizes: &Sizes) -> Vec<Step> {
    let page = format!("?pageToken=&pageSize={NAMESPACES_PAGE}");
    vec![
        simple(sizes, "create_namespace", |target, prefix, n| {
            Call::post(target.namespaces(), bodies::namespace(&format!("{prefix}_{n}")))
        }),
        listing(sizes, "list_namespaces", NAMESPACES_PAGE, move |target| {
            format!("{}{page}", target.namespaces())
        }),
        simple(sizes, "get_namespace", |target, prefix, n| {
            Call::get(target.namespace(&format!("{prefix}_{n}")))
        }),
        simple(sizes, "drop_namespace", |target, prefix, n| {
            Call::new(Method::DELETE, target.namespace(&format!("{prefix}_{n}")))
        }),
    ]
}

/// Returns the namespace of all tables of these steps.
fn outer(target: &Target) -> String {
    target.unique_name("operations")
}

fn tables(sizes: &Sizes) -> Vec<Step> {
    let (columns, page) = (sizes.columns, sizes.page);
    let path = |target: &Target, prefix: &str, n: u64| {
        target.table(&outer(target), &format!("{prefix}_{n}"))
    };
    let requests = sizes.requests(sizes.iterations);
    let create = move |target: Target, round: Round| async move {
        let outer = outer(&target);
        prepare::namespace(&target, &outer).await?;
        let (path, prefix) = (target.tables(&outer), target.unique_name(&round.to_string()));
        Ok(Workload::from(vec![numbered_calls(move |n| {
            Call::post(path.clone(), bodies::table(&format!("{prefix}_{n}"), columns))
        })]))
    };
    vec![
        Step::new(SCENARIO, json!({ "operation": "create_table" }), requests, create),
        simple(sizes, "load_table", move |target, prefix, n| Call::get(path(target, prefix, n)))
            .with_bare(|_, target| target.table(&outer(target), &target.unique_name("w_0"))),
        simple(sizes, "table_exists", move |target, prefix, n| {
            Call::new(Method::HEAD, path(target, prefix, n))
        }),
        listing(sizes, "list_tables", sizes.page, move |target| {
            format!("{}?pageToken=&pageSize={page}", target.tables(&target.unique_name("page")))
        }),
        renaming(sizes),
        simple(sizes, "drop_table", move |target, prefix, n| {
            let path = format!("{}?purgeRequested=false", path(target, prefix, n));
            Call::new(Method::DELETE, path)
        }),
    ]
}

/// Returns a step that lists a page and counts its names.
fn listing(
    sizes: &Sizes,
    operation: &str,
    page: usize,
    path: impl Fn(&Target) -> String + Send + Sync + 'static,
) -> Step {
    let (requests, columns) = (sizes.requests(sizes.iterations), sizes.columns);
    let tables = (operation == "list_tables").then_some(page);
    let parameter = json!({ "operation": operation, "page": page });
    Step::new(SCENARIO, parameter, requests, move |target, _| {
        let path = path(&target);
        async move {
            if let Some(tables) = tables {
                prepare::tables(&target, &target.unique_name("page"), tables, columns).await?;
            }
            let names = bodies::count_names(&target.request(Call::get(&path)).await?.body);
            let callers = vec![numbered_calls(move |_| Call::get(&path))];
            Ok(Workload { extra: json!({ "names": names }), ..Workload::from(callers) })
        }
    })
}

/// Returns a step that renames a table repeatedly.
fn renaming(sizes: &Sizes) -> Step {
    let (requests, columns) = (sizes.requests(sizes.iterations), sizes.columns);
    let parameter = json!({ "operation": "rename_table" });
    Step::new(SCENARIO, parameter, requests, move |target, round| async move {
        let (outer, name) = (outer(&target), format!("renamed_{round}"));
        prepare::namespace(&target, &outer).await?;
        prepare::table(&target, &outer, &format!("{name}_0"), columns).await?;
        let path = format!("{}/tables/rename", target.base);
        Ok(Workload::from(vec![numbered_calls(move |n| {
            let (from, to) = (format!("{name}_{n}"), format!("{name}_{}", n + 1));
            Call::post(path.clone(), bodies::rename(&outer, &from, &to))
        })]))
    })
}

fn commits(sizes: &Sizes) -> Vec<Step> {
    let (requests, columns) = (sizes.requests(sizes.iterations), sizes.columns);
    let prepared = move |target: Target| async move {
        let outer = outer(&target);
        prepare::namespace(&target, &outer).await?;
        for table in ["kept", "one", "two"] {
            prepare::table(&target, &outer, table, columns).await?;
        }
        Ok::<_, TargetError>(outer)
    };
    let properties = move |target: Target, _| async move {
        let path = target.table(&prepared(target.clone()).await?, "kept");
        Ok(Workload::from(vec![numbered_calls(move |n| {
            Call::post(&path, bodies::set_property(n))
        })]))
    };
    let transaction = move |target: Target, _| async move {
        let outer = prepared(target.clone()).await?;
        let path = format!("{}/transactions/commit", target.base);
        Ok(Workload::from(vec![numbered_calls(move |n| {
            Call::post(&path, bodies::set_property_of_all(&outer, &["one", "two"], n))
        })]))
    };
    let append = move |target: Target, round: Round| async move {
        let name = format!("appended_{round}");
        let outer = prepared(target.clone()).await?;
        appends::workload(target, (outer, name), 0, 1, columns, false).await
    };
    let operation = |operation| json!({ "operation": operation });
    vec![
        Step::new(SCENARIO, operation("commit_properties"), requests, properties),
        Step::new(SCENARIO, operation("commit_append"), requests, append),
        Step::new(SCENARIO, operation("commit_transaction"), requests, transaction),
    ]
}

/// Returns the steps that depend on the number of a table's snapshots.
fn histories(sizes: &Sizes) -> Vec<Step> {
    let (columns, requests) = (sizes.columns, sizes.requests(sizes.iterations));
    let mut steps = Vec::new();
    for &snapshots in &sizes.loaded_snapshots {
        for conditional in [false, true] {
            let parameter = load_table::parameter(snapshots, conditional);
            let step = Step::new(SCENARIO, parameter, requests, move |target, _| {
                repeated_load(target, snapshots, conditional, 1, columns)
            });
            steps.push(step.with_bare(load_table::path_of));
        }
    }
    for &snapshots in &sizes.appended_snapshots {
        let requests = sizes.requests(sizes.slow_iterations);
        for (operation, gzip) in [("commit_append", false), ("commit_append_gzip", true)] {
            let parameter = json!({ "operation": operation, "snapshots": snapshots });
            steps.push(Step::new(SCENARIO, parameter, requests, move |target, _| {
                let table = (outer(&target), format!("{operation}_after_{snapshots}"));
                appends::workload(target, table, snapshots, 1, columns, gzip)
            }));
        }
    }
    steps
}
