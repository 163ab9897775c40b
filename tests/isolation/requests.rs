//! Conversion of operations to requests, and of responses to outcomes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use serde_json::{Value, json};

use super::model::{Name, Namespace, Op, Outcome, Table};
use crate::support::app::{TestApp, TestResponse};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, FaultStore, LOG, METADATA_FILES, Verb};
use crate::support::table::{append, create_table, main_is, set_property};

/// Prefix of the tests' properties.
const PROPERTY: &str = "p";
/// Time limit of one history.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a catalog on an object store in memory, and that store. With `jitter`, each put takes a
/// random time.
pub async fn catalog(jitter: bool) -> (Arc<TestApp>, Arc<dyn ObjectStore>) {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    let app = Arc::new(TestApp::on(Arc::<FaultStore>::clone(&faults)).await);
    if jitter {
        faults.inject(Verb::Put, LOG, Fault::Delay(0..4));
        faults.inject(Verb::Put, METADATA_FILES, Fault::Delay(0..4));
    }
    (app, bucket)
}

fn path_of(namespace: Namespace) -> String {
    format!("/v1/namespaces/{}", namespace.join("%1F"))
}

/// Returns the path of a table.
pub fn table_path((namespace, table): Name) -> String {
    format!("{}/tables/{table}", path_of(namespace))
}

fn identifier((namespace, name): Name) -> Value {
    json!({ "namespace": namespace, "name": name })
}

fn property(number: u32) -> Value {
    set_property(&format!("{PROPERTY}{number}"), "yes")
}

/// Performs an operation.
pub async fn perform(app: &TestApp, op: &Op) -> Outcome {
    let answer = match op {
        Op::CreateNamespace(namespace) => {
            app.post("/v1/namespaces", json!({ "namespace": namespace })).await
        }
        Op::DropNamespace(namespace) => app.delete(&path_of(namespace)).await,
        Op::NamespaceExists(namespace) => app.head(&path_of(namespace)).await,
        Op::Describe(namespace, number) => {
            let body = json!({ "updates": { format!("{PROPERTY}{number}"): "yes" } });
            app.post(&format!("{}/properties", path_of(namespace)), body).await
        }
        Op::LoadNamespace(namespace) => app.get(&path_of(namespace)).await,
        Op::ListTables(namespace) => app.get(&format!("{}/tables", path_of(namespace))).await,
        Op::CreateTable((namespace, table)) => {
            app.post(&format!("{}/tables", path_of(namespace)), create_table(table)).await
        }
        Op::DropTable(name) => app.delete(&table_path(*name)).await,
        Op::Rename(from, to) => {
            let body = json!({ "source": identifier(*from), "destination": identifier(*to) });
            app.post("/v1/tables/rename", body).await
        }
        Op::Exists(name) => app.head(&table_path(*name)).await,
        Op::Load(name) => app.get(&table_path(*name)).await,
        Op::Set(name, number) => {
            let body = json!({ "requirements": [], "updates": [property(*number)] });
            app.post(&table_path(*name), body).await
        }
        Op::Append { table, id, parent, sequence_number } => {
            let updates = append(*id, *parent, *sequence_number);
            let body = json!({ "requirements": [main_is(*parent)], "updates": updates });
            app.post(&table_path(*table), body).await
        }
        Op::Transact { tables, property: number, parent } => {
            let change = |(at, name): (usize, &Name)| {
                let requirements = if at == 0 { vec![main_is(*parent)] } else { Vec::new() };
                json!({
                    "identifier": identifier(*name),
                    "requirements": requirements,
                    "updates": [property(*number)],
                })
            };
            let changes: Vec<_> = tables.iter().enumerate().map(change).collect();
            app.post("/v1/transactions/commit", json!({ "table-changes": changes })).await
        }
    };
    outcome(op, &answer)
}

fn outcome(op: &Op, answer: &TestResponse) -> Outcome {
    match (answer.status.as_u16(), answer.error_type(), op) {
        (200, _, Op::ListTables(_)) => names(&answer.body),
        (200, _, Op::CreateNamespace(_) | Op::Describe(..)) => Outcome::Done,
        (200, _, Op::LoadNamespace(_)) => Outcome::Properties(numbers(&answer.body["properties"])),
        (200, _, _) => Outcome::Table(table(&answer.body["metadata"])),
        (204, _, _) => Outcome::Done,
        (404, "NoSuchNamespaceException", _) => Outcome::NoSuchNamespace,
        (404, "NoSuchTableException", _) => Outcome::NoSuchTable,
        (404, _, Op::NamespaceExists(_)) => Outcome::NoSuchNamespace,
        (404, _, Op::Exists(_)) => Outcome::NoSuchTable,
        (409, "AlreadyExistsException", _) => Outcome::AlreadyExists,
        (409, "NamespaceNotEmptyException", _) => Outcome::NotEmpty,
        (409, "CommitFailedException", _) => Outcome::Conflict,
        (status, _, op) => panic!("{op:?} was answered {status}: {}", answer.body),
    }
}

fn names(body: &Value) -> Outcome {
    let identifiers = body["identifiers"].as_array().expect("a listing has identifiers");
    let name = |it: &Value| it["name"].as_str().expect("tables have names").to_owned();
    Outcome::Names(identifiers.iter().map(name).collect())
}

/// Returns the numbers of the properties that the tests have set.
fn numbers(properties: &Value) -> BTreeSet<u32> {
    let number = |(key, _): (&String, &Value)| key.strip_prefix(PROPERTY)?.parse().ok();
    properties.as_object().into_iter().flatten().filter_map(number).collect()
}

/// Returns the visible state of a table from its metadata.
pub fn table(metadata: &Value) -> Table {
    Table {
        uuid: metadata["table-uuid"].as_str().expect("tables have a uuid").to_owned(),
        properties: numbers(&metadata["properties"]),
        snapshots: snapshot_ids(metadata),
    }
}

/// Returns the ids of a table's snapshots, in order.
pub fn snapshot_ids(metadata: &Value) -> Vec<i64> {
    let snapshots = metadata["snapshots"].as_array().into_iter().flatten();
    snapshots.map(|it| it["snapshot-id"].as_i64().expect("snapshots have ids")).collect()
}
