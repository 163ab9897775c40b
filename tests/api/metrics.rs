//! The metrics of the server.

use std::time::Duration;

use serde_json::json;

use crate::support::app::TestApp;
use crate::support::issuer::{TestIssuer, TestKey};
use crate::support::served_app::ServedApp;
use crate::support::table::set_property;

/// Returns the value of a metric.
async fn metric(app: &TestApp, name: &str) -> u64 {
    let metrics = app.get("/metrics").await.expect(200);
    let text = metrics.body.as_str().expect("text").to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
    line.trim().parse().expect("a number")
}

/// Returns the hits and misses of a cache.
async fn hits_and_misses(app: &TestApp, cache: &str) -> (u64, u64) {
    let name = |result| format!("slateberg_{cache}_cache_requests_total{{result=\"{result}\"}}");
    (metric(app, &name("hit")).await, metric(app, &name("miss")).await)
}

#[tokio::test]
async fn load_of_a_recently_used_table_hits_the_caches() {
    let app = TestApp::with_table().await;
    app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    let (hits, misses) = hits_and_misses(&app, "record").await;
    for _ in 0..9 {
        app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    }
    assert_eq!(hits_and_misses(&app, "answer").await, (9, 1));
    assert_eq!(hits_and_misses(&app, "version").await, (1, 0), "the creation caches the version");
    // Each load reads four records: the names of the namespace and of the table, the table, and its
    // labels.
    assert_eq!(hits_and_misses(&app, "record").await, (hits + 36, misses));
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    assert_eq!(loaded.body["metadata"]["properties"]["a"], "1", "a cached value is outdated");
    assert_eq!(hits_and_misses(&app, "answer").await, (9, 2));
    let (_, misses) = hits_and_misses(&app, "version").await;
    assert_eq!(misses, 0, "a commit caches the version that it writes");
    for cache in ["answer", "version", "record"] {
        assert!(metric(&app, &format!("slateberg_{cache}_cache_bytes")).await > 500, "{cache}");
    }
}

#[tokio::test]
async fn cached_page_is_invalidated_only_by_a_change_of_its_names() {
    let app = TestApp::with_table().await;
    let names = async || {
        let listed = app.get("/v1/namespaces/ns/tables").await.expect(200);
        listed.body["identifiers"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((names().await, names().await), (1, 1));
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    assert_eq!(names().await, 1);
    assert_eq!(hits_and_misses(&app, "page").await, (2, 1));
    app.create_table("ns", "u").await;
    assert_eq!((names().await, names().await), (2, 2));
    assert_eq!(hits_and_misses(&app, "page").await, (3, 2));
}

/// Returns the lines of a metric's series.
async fn series(app: &TestApp, name: &str) -> Vec<String> {
    let metrics = app.get("/metrics").await.expect(200);
    let text = metrics.body.as_str().expect("text").to_owned();
    text.lines().filter(|line| line.starts_with(name)).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn request_metrics_have_method_route_and_status() {
    let app = TestApp::with_table().await;
    for path in ["/v1/namespaces/ns/tables/t", "/v1/default/namespaces/ns/tables/none", "/nowhere"]
    {
        let _answer = app.get(path).await;
    }
    let _answer = app.get("/management/v1/server").await;
    let found = series(&app, "http_server_request_duration_seconds_count{").await.join("\n");
    for (route, status) in [
        ("http_route=\"/v1/namespaces/{namespace}/tables/{table}\",", 200),
        ("http_route=\"/v1/{prefix}/namespaces/{namespace}/tables/{table}\",", 404),
        ("http_route=\"/management/v1/server\",", 200),
        ("", 404),
    ] {
        let line = format!(
            "{{http_request_method=\"GET\",url_scheme=\"http\",{route}http_response_status_code=\"{status}\"}} 1"
        );
        assert!(found.contains(&line), "{line}\n{found}");
    }
    // The only active request is the one that reads the metrics.
    let active = series(&app, "http_server_active_requests{http_request_method=\"GET\"").await;
    assert!(active[0].ends_with(" 1"), "{active:?}");
}

#[tokio::test]
async fn commit_metrics_have_phases_and_outcome() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let stale = json!({
        "requirements": [{ "type": "assert-table-uuid", "uuid": uuid::Uuid::nil() }],
        "updates": [],
    });
    app.post("/v1/namespaces/ns/tables/t", stale).await.expect(409);
    for phase in ["wait", "evaluate", "apply", "wal", "metadata"] {
        let name = format!("slateberg_commit_phase_duration_seconds_count{{phase=\"{phase}\"}} ");
        assert!(metric(&app, &name).await >= 1, "{phase}");
    }
    for outcome in ["done", "conflict"] {
        let name = format!(
            "slateberg_commit_outcomes_total{{action=\"commit_table\",outcome=\"{outcome}\"}} "
        );
        assert_eq!(metric(&app, &name).await, 1, "{outcome}");
    }
    assert!(metric(&app, "slateberg_commit_group_size_count ").await >= 2);
    assert!(metric(&app, "slateberg_store_flush_group_size_count ").await >= 1);
    // The page also contains the metrics of SlateDB.
    assert!(!series(&app, "slatedb_db_").await.is_empty());
    let puts = "slateberg_object_store_request_duration_seconds_count{store=\"warehouse\",operation=\"put\"} ";
    assert!(metric(&app, puts).await >= 2);
}

#[tokio::test]
async fn every_metric_of_slatedb_has_a_description() {
    let app = TestApp::with_table().await;
    let text = app.get("/metrics").await.expect(200).body.as_str().expect("text").to_owned();
    assert!(text.contains("# HELP slatedb_db_l0_sst_count Sorted files of level 0."), "{text}");
    let undescribed: Vec<_> =
        text.lines().filter(|it| it.ends_with("without a description.")).collect();
    assert_eq!(undescribed, Vec::<&str>::new());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn metrics_contain_the_build_and_the_process() {
    let app = TestApp::new().await;
    let program = env!("CARGO_BIN_EXE_slateberg");
    let printed = std::process::Command::new(program).arg("--version").output().expect("it runs");
    let printed = String::from_utf8(printed.stdout).expect("UTF-8");
    let (version, commit) = printed
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("slateberg ")?.strip_suffix(')')?.split_once(" ("))
        .unwrap_or_else(|| panic!("{printed}"));
    let series = format!("slateberg_build_info{{version=\"{version}\",commit=\"{commit}\"}} 1");
    let text = app.get("/metrics").await.expect(200).body.as_str().expect("text").to_owned();
    assert!(text.lines().any(|line| line == series), "{series}\n{text}");
    assert!(metric(&app, "process_resident_memory_bytes").await > 1 << 20);
    assert!(metric(&app, "process_open_fds").await < metric(&app, "process_max_fds").await);
    assert!(metric(&app, "process_start_time_seconds").await > 1_600_000_000);
    for name in ["process_cpu_seconds_total", "process_threads"] {
        metric(&app, name).await;
    }
}

#[tokio::test]
async fn fetches_of_an_issuers_keys_are_counted_by_issuer_and_result() {
    let key = TestKey::eddsa("k");
    let (up, down) = (TestIssuer::start(&[&key]).await, TestIssuer::start(&[&key]).await);
    down.set_down(true);
    let app = TestApp::with_settings(|settings| {
        for (name, issuer) in [("up", &up), ("down", &down)] {
            settings.authn.issuers.insert(name.to_owned(), issuer.settings());
        }
    })
    .await;
    let served = ServedApp::start(app).await;
    let lines = [
        "slateberg_issuer_fetches_total{issuer=\"up\",result=\"done\"} 1",
        "slateberg_issuer_fetches_total{issuer=\"down\",result=\"failed\"} 1",
        "slateberg_issuer_last_successful_fetch_timestamp_seconds{issuer=\"down\"} 0",
    ];
    let both_are_counted = async {
        loop {
            let metrics = served.get("/metrics").send().await.expect("it answers");
            let text = metrics.text().await.expect("text");
            if lines.iter().all(|line| text.lines().any(|it| it == *line)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, both_are_counted).await.expect("both results are counted");
}
