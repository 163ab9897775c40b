//! Memory: the sizes of caches, the budget that they share, and the number of threads.

use std::process::Command;

use futures::future::join_all;
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;

use crate::support::app::TestApp;
use crate::support::table::set_property;

/// The value of a metric without labels.
async fn metric(app: &TestApp, name: &str) -> f64 {
    let metrics = app.get("/metrics").await.expect(200);
    let text = metrics.body.as_str().expect("text").to_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    found.unwrap_or_else(|| panic!("{name} is missing")).parse().expect("a number")
}

#[tokio::test]
async fn every_cache_reports_its_size_and_its_limit() {
    let app = TestApp::with_table().await;
    app.get("/v1/namespaces/ns/tables").await.expect(200);
    // The records are in a sorted run now, so the next read of the table loads its blocks into the
    // caches.
    app.app.runtime.catalog.flush().await.expect("it is flushed");
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    for cache in ["answer", "version", "record", "page", "block", "meta"] {
        let used = metric(&app, &format!("slateberg_{cache}_cache_bytes")).await;
        let limit = metric(&app, &format!("slateberg_{cache}_cache_limit_bytes")).await;
        assert!(0.0 < used && used <= limit, "{cache}: {used} of {limit} bytes");
    }
    // A server without authentication makes no decisions, warehouses in memory delegate no access,
    // and appends are not rebased by default, so these caches stay empty.
    for cache in ["decision", "delegation", "manifest_list", "listing"] {
        let limit = metric(&app, &format!("slateberg_{cache}_cache_limit_bytes")).await;
        assert!(limit > 0.0, "{cache}");
    }
}

#[tokio::test]
async fn caches_that_share_a_setting_stay_within_it_together() {
    let app = TestApp::with_settings(|settings| {
        settings.server.answer_cache_bytes = 1 << 20;
        settings.catalog.metadata_cache_bytes = 1 << 20;
    })
    .await;
    for caches in [["answer", "delegation"], ["version", "manifest_list"]] {
        let mut sum = 0.0;
        for cache in caches {
            sum += metric(&app, &format!("slateberg_{cache}_cache_limit_bytes")).await;
        }
        assert!((sum - f64::from(1 << 20)).abs() < 1.0, "{caches:?}: {sum} bytes");
    }
}

#[test]
fn parallel_commits_to_a_directory_succeed_with_a_single_blocking_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    let directory = tempfile::tempdir().expect("there is room");
    let data_dir = directory.path().to_owned();
    runtime.block_on(async {
        let mut settings = Settings { data_dir, ..Settings::default() };
        settings.authn.insecure_no_auth = true;
        let app = App::build(settings, Dependencies::default()).await.expect("the catalog opens");
        let app = TestApp::of(app);
        app.create_namespace(&["ns"]).await;
        let tables: Vec<_> = (0..20).map(|number| format!("t{number}")).collect();
        join_all(tables.iter().map(|table| app.create_table("ns", table))).await;
        for value in ["1", "2", "3"] {
            // Two commits for each table, so that commits wait for others to join their group.
            let commits = tables.iter().chain(&tables).map(async |table| {
                let change = vec![set_property("a", value)];
                app.commit("ns", table, vec![], change).await.expect(200);
            });
            join_all(commits).await;
        }
        app.app.runtime.catalog.close().await.expect("it closes");
    });
}

#[tokio::test]
async fn smallest_memory_budget_accepts_a_body_of_the_maximum_size() {
    let app = TestApp::with_settings(|settings| settings.memory_bytes_max = 64 << 20).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let long = "x".repeat(31 << 20);
    for key in ["a", "b"] {
        app.commit("ns", "t", vec![], vec![set_property(key, &long)]).await.expect(200);
    }
    app.app.runtime.catalog.flush().await.expect("it is flushed");
    let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
    let properties = &loaded["metadata"]["properties"];
    assert_eq!(properties["a"].as_str().map(str::len), Some(long.len()));
    assert_eq!(properties["a"], properties["b"]);
}

/// Returns the JSON output of `slateberg config COMMAND` with these variables, and whether it
/// succeeds.
fn config(command: &str, variables: &[(&str, &str)]) -> (bool, Value) {
    let directory = tempfile::tempdir().expect("there is room");
    let mut program = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    program.args(["config", command, "--output", "json"]).current_dir(directory.path());
    let output = program.envs(variables.iter().copied()).output().expect("it runs");
    (output.status.success(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

const BUDGET: &str = "SLATEBERG__MEMORY_BYTES_MAX";
const BLOCK_CACHE: &str = "SLATEBERG__STORE__BLOCK_CACHE_BYTES";

#[test]
fn config_show_prints_the_derived_memory_shares() {
    let (_, output) = config("show", &[(BUDGET, "268435456"), (BLOCK_CACHE, "1048576")]);
    let settings = output["settings"].as_array().expect("a list");
    let setting = |key| settings.iter().find(|it| it["key"] == key).expect("it is shown");
    for key in ["store.meta_cache_bytes", "server.bodies_bytes_max", "authz.decisions_max"] {
        let output = setting(key);
        assert!(output["value"].as_u64() > Some(0), "{output}");
        assert_eq!(output["derived_from"], "memory_bytes_max", "{output}");
    }
    let explicit = json!({
        "key": "store.block_cache_bytes", "value": 1_048_576, "variable": BLOCK_CACHE,
    });
    assert_eq!(setting("store.block_cache_bytes"), &explicit);
}

#[test]
fn config_check_rejects_a_budget_that_is_too_small_and_warns_of_one_that_is_exceeded() {
    let (succeeds, checked) = config("check", &[(BUDGET, "1000000")]);
    assert!(!succeeds);
    assert_eq!(checked["problems"][0]["key"], "memory_bytes_max", "{checked}");
    let (succeeds, checked) = config("check", &[(BUDGET, "268435456"), (BLOCK_CACHE, "268435456")]);
    assert!(succeeds, "{checked}");
    let warning = checked["summary"].as_array().into_iter().flatten().find(|it| it[0] == "warning");
    let warning = warning.and_then(|it| it[1].as_str()).expect("a warning");
    assert!(warning.contains("or lower store.block_cache_bytes"), "{warning}");
}
