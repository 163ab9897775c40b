//! A load returns the table that its decision was based on, even if another table takes the name
//! concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::env_numbers::number_from_env;
use crate::support::table::create_table;

const OPEN_UNLESS_PII: &str = r#"
@id("open") permit (principal in Role::"team", action in [Action::"ReadConfig", Action::"Load"], resource)
unless { resource is Table && resource.hasTag("pii") };
"#;
const TABLE: &str = "/v1/default/namespaces/ns/tables/t";
/// Number of tasks that load the table continuously.
const READERS: usize = 4;

async fn set_pii(app: &TestApp, pii: bool) {
    let update = match pii {
        true => json!({ "action": "set-properties", "updates": { "pii": "yes" } }),
        false => json!({ "action": "remove-properties", "removals": ["pii"] }),
    };
    app.post(TABLE, json!({ "requirements": [], "updates": [update] })).await.expect(200);
}

async fn make(app: &TestApp, name: &str, properties: Value) {
    let mut body = create_table(name);
    body["properties"] = properties;
    app.post("/v1/default/namespaces/ns/tables", body).await.expect(200);
}

async fn rename(app: &TestApp, from: &str, to: &str) {
    let ident = |name: &str| json!({ "namespace": ["ns"], "name": name });
    let body = json!({ "source": ident(from), "destination": ident(to) });
    app.post("/v1/default/tables/rename", body).await.expect(204);
}

/// Hides the table `t` from the team in each possible way, and makes it visible again.
async fn open_and_close(app: &TestApp) {
    set_pii(app, true).await;
    set_pii(app, false).await;
    rename(app, "t", "away").await;
    make(app, "t", json!({ "pii": "yes" })).await;
    app.delete(TABLE).await.expect(204);
    rename(app, "closed", "t").await;
    rename(app, "t", "closed").await;
    rename(app, "away", "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn loaded_table_is_the_one_that_policies_permitted() {
    let app = Arc::new(TestApp::with_policies(OPEN_UNLESS_PII, |_| {}).await);
    let team = app.key_with_role("team").await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    make(&app, "t", json!({})).await;
    make(&app, "closed", json!({ "pii": "yes" })).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (app, team, done) = (Arc::clone(&app), team.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut output = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    // A load from the cache never yields, so without this call, this task would not
                    // let other tasks run on its thread.
                    tokio::task::yield_now().await;
                    let response = app.get_as(&team, TABLE).await;
                    if response.status.as_u16() == 404 {
                        continue;
                    }
                    let pii = &response.expect(200).body["metadata"]["properties"]["pii"];
                    assert_eq!(pii, &Value::Null, "a load returned a table that is forbidden");
                    output += 1;
                }
                output
            })
        })
        .collect();
    for _ in 0..number_from_env("RACES_ROUNDS", 100) {
        open_and_close(&app).await;
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.expect("no forbidden table was loaded") > 0, "no load succeeded");
    }
}
