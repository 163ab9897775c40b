//! What is measured: the operations of a catalog one by one, and its throughput under many clients.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::connection::{Answer, Call};
use super::load::{Caller, Length, Measured, drive};
use super::target::{Target, TargetError};

/// Columns of the tables that are measured.
const COLUMNS: usize = 30;
/// Snapshots that one commit of the preparation adds.
const SNAPSHOTS_PER_COMMIT: u64 = 100;

/// A scenario's name, its clients, and what came of it.
pub struct Outcome {
    /// The scenario.
    pub scenario: String,
    /// How many clients at once.
    pub clients: usize,
    /// What was measured.
    pub measured: Measured,
}

/// A caller that makes its requests out of a growing number.
struct Numbered<F> {
    next: u64,
    make: F,
}

impl<F: FnMut(u64) -> Call + Send + 'static> Caller for Numbered<F> {
    fn next(&mut self) -> Call {
        let number = self.next;
        self.next += 1;
        (self.make)(number)
    }
}

fn numbered(make: impl FnMut(u64) -> Call + Send + 'static) -> Box<dyn Caller> {
    Box::new(Numbered { next: 0, make })
}

/// The operations of a catalog, each so many times by one client.
pub async fn operations(
    target: &Target,
    run: &str,
    iterations: u64,
    mut done: impl FnMut(Outcome),
) -> Result<(), TargetError> {
    let outer = format!("bench_{run}");
    create_namespace(target, &outer).await?;
    for table in ["one", "two", "kept"] {
        create_table(target, &outer, table).await?;
    }
    for (scenario, caller) in steps(target, &outer, run) {
        let measured = drive(target, vec![caller], Length::Requests(iterations)).await?;
        done(Outcome { scenario: scenario.to_owned(), clients: 1, measured });
    }
    Ok(())
}

/// The steps in an order in which each finds what it needs.
fn steps(target: &Target, outer: &str, run: &str) -> Vec<(&'static str, Box<dyn Caller>)> {
    let t = target.clone();
    let (namespaces, tables) = (t.namespaces(), t.tables(outer));
    let numbered_namespace = {
        let (t, run) = (t.clone(), run.to_owned());
        move |n: u64| t.namespace(&format!("bench_{run}_{n}"))
    };
    let numbered_table = {
        let (t, outer) = (t.clone(), outer.to_owned());
        move |n: u64, name: &str| t.table(&outer, &format!("{name}_{n}"))
    };
    let (get_namespace, drop_namespace) = (numbered_namespace.clone(), numbered_namespace);
    let (load, exists, drop) = (numbered_table.clone(), numbered_table.clone(), numbered_table);
    let (create_run, kept) = (run.to_owned(), t.table(outer, "kept"));
    let (rename_outer, transaction_outer) = (outer.to_owned(), outer.to_owned());
    let (rename, transaction) =
        (format!("{}/tables/rename", t.base), format!("{}/transactions/commit", t.base));
    let (append_path, list) = (kept.clone(), format!("{namespaces}?pageToken=&pageSize=100"));
    vec![
        (
            "create_namespace",
            numbered(move |n| {
                let name = format!("bench_{create_run}_{n}");
                Call::post(&namespaces, &json!({ "namespace": [name], "properties": {} }))
            }),
        ),
        ("list_namespaces", numbered(move |_| Call::new(Method::GET, &list))),
        ("get_namespace", numbered(move |n| Call::new(Method::GET, get_namespace(n)))),
        ("drop_namespace", numbered(move |n| Call::new(Method::DELETE, drop_namespace(n)))),
        ("create_table", numbered(move |n| Call::post(&tables, &table_body(&format!("t_{n}"))))),
        ("load_table", numbered(move |n| Call::new(Method::GET, load(n, "t")))),
        ("table_exists", numbered(move |n| Call::new(Method::HEAD, exists(n, "t")))),
        (
            "rename_table",
            numbered(move |n| {
                let ident = |name: &str| json!({ "namespace": [rename_outer], "name": name });
                let (from, to) = (format!("t_{n}"), format!("r_{n}"));
                Call::post(&rename, &json!({ "source": ident(&from), "destination": ident(&to) }))
            }),
        ),
        ("commit_properties", numbered(move |n| Call::post(&kept, &set_property(n)))),
        (
            "commit_append",
            Box::new(Appender { path: append_path, next: 1, parent: None }) as Box<dyn Caller>,
        ),
        (
            "commit_transaction",
            numbered(move |n| {
                let change = |table: &str| {
                    let mut change = set_property(n);
                    change["identifier"] =
                        json!({ "namespace": [transaction_outer], "name": table });
                    change
                };
                Call::post(
                    &transaction,
                    &json!({ "table-changes": [change("one"), change("two")] }),
                )
            }),
        ),
        ("drop_table", numbered(move |n| Call::new(Method::DELETE, drop(n, "r")))),
    ]
}

/// Reads of one table with so many snapshots, by so many clients.
pub async fn load_table(
    target: &Target,
    run: &str,
    snapshots: u64,
    clients: &[usize],
    time: Duration,
    mut done: impl FnMut(Outcome),
) -> Result<(), TargetError> {
    let namespace = format!("bench_{run}_load_{snapshots}");
    create_namespace(target, &namespace).await?;
    create_table(target, &namespace, "t").await?;
    let path = target.table(&namespace, "t");
    add_snapshots(target, &path, snapshots).await?;
    let etag = target.ask(&Call::new(Method::GET, &path)).await?.etag;
    for &clients in clients {
        for conditional in [false, true] {
            let callers = (0..clients).map(|_| {
                let mut call = Call::new(Method::GET, &path);
                call.if_none_match = etag.clone().filter(|_| conditional);
                numbered(move |_| call.clone())
            });
            let measured = drive(target, callers.collect(), Length::Time(time)).await?;
            let what = if conditional { "load_304" } else { "load_table" };
            done(Outcome {
                scenario: format!("{what} ({snapshots} snapshots)"),
                clients,
                measured,
            });
        }
    }
    Ok(())
}

/// Commits of properties, by so many clients: each on a table of its own, or all on one.
pub async fn commits(
    target: &Target,
    run: &str,
    one_table: bool,
    clients: &[usize],
    time: Duration,
    mut done: impl FnMut(Outcome),
) -> Result<(), TargetError> {
    let namespace = format!("bench_{run}_commit_{}", if one_table { "one" } else { "many" });
    create_namespace(target, &namespace).await?;
    let tables = if one_table { 1 } else { clients.iter().copied().max().unwrap_or(1) };
    for table in 0..tables {
        create_table(target, &namespace, &format!("t_{table}")).await?;
    }
    for &clients in clients {
        let callers = (0..clients).map(|client| {
            let table = if one_table { 0 } else { client };
            let path = target.table(&namespace, &format!("t_{table}"));
            numbered(move |n| Call::post(&path, &set_property(n)))
        });
        let measured = drive(target, callers.collect(), Length::Time(time)).await?;
        let where_ = if one_table { "one table" } else { "distinct tables" };
        done(Outcome { scenario: format!("commit ({where_})"), clients, measured });
    }
    Ok(())
}

/// Appends snapshot after snapshot to one table.
struct Appender {
    path: String,
    next: u64,
    parent: Option<u64>,
}

impl Caller for Appender {
    fn next(&mut self) -> Call {
        let mut updates = vec![add_snapshot(self.next, self.parent)];
        updates.push(set_main(self.next));
        let requirement =
            json!({ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": self.parent });
        Call::post(&self.path, &json!({ "requirements": [requirement], "updates": updates }))
    }

    fn seen(&mut self, answer: &Answer) -> bool {
        let committed = answer.status == 200;
        if committed {
            self.parent = Some(self.next);
            self.next += 1;
        }
        committed
    }
}

async fn create_namespace(target: &Target, name: &str) -> Result<(), TargetError> {
    let body = json!({ "namespace": [name], "properties": {} });
    target.ask(&Call::post(target.namespaces(), &body)).await.map(|_| ())
}

async fn create_table(target: &Target, namespace: &str, name: &str) -> Result<(), TargetError> {
    target.ask(&Call::post(target.tables(namespace), &table_body(name))).await.map(|_| ())
}

async fn add_snapshots(target: &Target, path: &str, snapshots: u64) -> Result<(), TargetError> {
    let mut from = 1;
    while from <= snapshots {
        let to = (from + SNAPSHOTS_PER_COMMIT).min(snapshots + 1);
        let mut updates: Vec<Value> =
            (from..to).map(|id| add_snapshot(id, (id > 1).then(|| id - 1))).collect();
        updates.push(set_main(to - 1));
        target.ask(&Call::post(path, &json!({ "requirements": [], "updates": updates }))).await?;
        from = to;
    }
    Ok(())
}

fn table_body(name: &str) -> Value {
    let fields: Vec<Value> = (1..=COLUMNS)
        .map(|id| json!({ "id": id, "name": format!("column_{id}"), "required": false, "type": "string" }))
        .collect();
    json!({ "name": name, "schema": { "type": "struct", "schema-id": 0, "fields": fields } })
}

fn set_property(n: u64) -> Value {
    let updates = json!({ "bench": n.to_string() });
    json!({ "requirements": [], "updates": [{ "action": "set-properties", "updates": updates }] })
}

fn add_snapshot(id: u64, parent: Option<u64>) -> Value {
    let mut snapshot = json!({
        "snapshot-id": id,
        "sequence-number": id,
        "timestamp-ms": 1_700_000_000_000_u64 + id,
        "manifest-list": format!("snap-{id}-1-00000000-0000-0000-0000-000000000000.avro"),
        "summary": {
            "operation": "append", "added-data-files": "1", "added-records": "1000",
            "added-files-size": "123456", "total-records": "1000000", "total-data-files": "1000",
            "total-files-size": "123456789", "total-delete-files": "0",
        },
        "schema-id": 0,
    });
    if let Some(parent) = parent {
        snapshot["parent-snapshot-id"] = json!(parent);
    }
    json!({ "action": "add-snapshot", "snapshot": snapshot })
}

fn set_main(id: u64) -> Value {
    json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id })
}
