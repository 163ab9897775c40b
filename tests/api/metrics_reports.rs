//! The metrics reports of clients: which are kept, and who may read them.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::metrics_report::{commit_report, scan_report};
use crate::support::program::slateberg;
use crate::support::served_app::ServedApp;

const REPORTS: &str = "/v1/namespaces/ns/tables/t/metrics";
const KEPT: &str = "/management/v1/tables/metrics-reports?resource=table:default/ns/t";

async fn counted(app: &TestApp) -> String {
    let metrics = app.get("/metrics").await.expect(200);
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4");
    let text = metrics.body.as_str().expect("text").to_owned();
    text.lines().filter(|line| line.contains("_reports_total{")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn metrics_reports_are_counted_by_kind() {
    let app = TestApp::with_table().await;
    let before = app.dump().await;
    for _ in 0..3 {
        assert_eq!(app.post(REPORTS, scan_report()).await.expect(204).body, Value::Null);
    }
    app.post(REPORTS, commit_report()).await.expect(204);
    insta::assert_snapshot!(counted(&app).await, @r#"
    slateberg_metrics_reports_total{report_type="commit-report"} 1
    slateberg_metrics_reports_total{report_type="scan-report"} 3
    "#);
    assert_eq!(app.dump().await, before, "reports wait in memory");
}

#[tokio::test]
async fn invalid_metrics_report_is_rejected_and_not_counted() {
    let app = TestApp::with_table().await;
    let mut weather = scan_report();
    weather["report-type"] = json!("weather");
    let response = app.post(REPORTS, weather).await;
    assert_eq!(
        response.error(),
        (
            400,
            "BadRequestException",
            "Invalid report type: expected scan-report or commit-report, got 'weather'"
        )
    );
    for body in [json!({}), json!([]), json!({ "report-type": "scan-report" })] {
        app.post(REPORTS, body).await.expect_error(400, "BadRequestException");
    }
    let elsewhere = "/v1/namespaces/ns/tables/nope/metrics";
    app.post(elsewhere, scan_report()).await.expect_error(404, "NoSuchTableException");
    insta::assert_snapshot!(counted(&app).await, @r#"
    slateberg_metrics_reports_total{report_type="commit-report"} 0
    slateberg_metrics_reports_total{report_type="scan-report"} 0
    "#);
}

/// Returns the snapshot ids of the kept reports.
fn snapshots(listed: TestResponse) -> Vec<i64> {
    let body = listed.expect(200).body;
    let reports = body["reports"].as_array().expect("reports").iter();
    reports.map(|it| it["report"]["snapshot-id"].as_i64().expect("an id")).collect()
}

async fn send_scans(app: &TestApp, snapshots: std::ops::Range<i64>) {
    for snapshot in snapshots {
        let mut report = scan_report();
        report["snapshot-id"] = json!(snapshot);
        app.post(REPORTS, report).await.expect(204);
    }
}

#[tokio::test]
async fn newest_reports_of_a_table_are_kept_as_sent_across_restarts() {
    let app =
        TestApp::with_settings(|settings| settings.catalog.metrics_reports_kept_max = 3).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    assert_eq!(snapshots(app.get(KEPT).await), Vec::<i64>::new());
    send_scans(&app, 1..3).await;
    app.post(REPORTS, commit_report()).await.expect(204);
    let listed = app.get(KEPT).await.expect(200).body;
    assert_eq!(listed["reports"][0]["report"], commit_report());
    assert_eq!(listed["resource"], "table:default/ns/t");
    assert!(listed["reports"][0]["received-at-ms"].as_i64() > Some(0));
    let app = app.restart().await;
    assert_eq!(app.get(KEPT).await.expect(200).body, listed);
    send_scans(&app, 7..9).await;
    assert_eq!(snapshots(app.get(KEPT).await), [8, 7, 1]);
    let app = app.restart().await;
    assert_eq!(snapshots(app.get(KEPT).await), [8, 7, 1]);
    assert_eq!(snapshots(app.get(&format!("{KEPT}&type=scan-report")).await), [8, 7]);
    assert_eq!(snapshots(app.get(&format!("{KEPT}&type=commit-report")).await), [1]);
}

#[tokio::test]
async fn reports_follow_a_renamed_table_and_end_with_it() {
    let app = TestApp::with_table().await;
    send_scans(&app, 1..2).await;
    let ident = |name: &str| json!({ "namespace": ["ns"], "name": name });
    let rename = json!({ "source": ident("t"), "destination": ident("u") });
    app.post("/v1/tables/rename", rename).await.expect(204);
    let app = app.restart().await;
    let renamed = KEPT.replace("ns/t", "ns/u");
    assert_eq!(snapshots(app.get(&renamed).await), [1]);
    app.get(KEPT).await.expect_error(404, "NoSuchTableException");
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    app.create_table("ns", "u").await;
    assert_eq!(snapshots(app.get(&renamed).await), Vec::<i64>::new());
}

#[tokio::test]
async fn long_reports_are_not_kept() {
    let app = TestApp::with_table().await;
    let mut report = scan_report();
    report["filter"] = json!({ "type": "is-null", "term": "x".repeat(40_000) });
    app.post(REPORTS, report).await.expect(204);
    assert_eq!(snapshots(app.get(KEPT).await), Vec::<i64>::new());
    let metrics = app.get("/metrics").await.expect(200);
    let text = metrics.body.as_str().expect("text").to_owned();
    assert!(text.contains("slateberg_metrics_reports_discarded_total 1"), "{text}");
}

const POLICIES: &str = r#"
@id("reader") permit (principal in Role::"reader", action in [Action::"ReadConfig",
    Action::"List", Action::"DescribeNamespace", Action::"Load", Action::"ReportMetrics"], resource);
@id("auditor") permit (principal in Role::"auditor", action in [Action::"ReadConfig",
    Action::"DescribeNamespace", Action::"Load", Action::"ReadHistory"], resource);
"#;

#[tokio::test]
async fn reports_require_read_history() {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let (reader, auditor) = (app.key_with_role("reader").await, app.key_with_role("auditor").await);
    app.request_as(&reader, Method::POST, REPORTS, &scan_report()).await.expect(204);
    app.get_as(&reader, KEPT).await.expect_error(403, "ForbiddenException");
    let listed = app.get_as(&auditor, KEPT).await.expect(200).body;
    assert_eq!(listed["reports"][0]["reported-by-name"], "reader");
    let none = app.key_with_role("none").await;
    app.get_as(&none, KEPT).await.expect(404);
    for (parameters, status) in [
        ("", 400),
        ("?resource=table:default/ns/t&type=weather", 400),
        ("?resource=view:default/ns/t", 400),
        ("?resource=namespace:default/ns", 400),
        ("?resource=table:default/ns/absent", 404),
    ] {
        let path = format!("/management/v1/tables/metrics-reports{parameters}");
        let response = app.get_as(&auditor, &path).await;
        assert_eq!(response.status.as_u16(), status, "{parameters}: {}", response.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_prints_reports() {
    let app = TestApp::with_table().await;
    app.post(REPORTS, scan_report()).await.expect(204);
    app.post(REPORTS, commit_report()).await.expect(204);
    let served = ServedApp::start(app).await;
    let mut command = slateberg(&std::env::temp_dir(), &["table", "reports", "default/ns/t"]);
    command.env("SLATEBERG_URL", &served.uri);
    let run = move || command.output().expect("it runs");
    let output = tokio::task::spawn_blocking(run).await.expect("it does not panic");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][2..], ["append", "1"]);
    assert_eq!(rows[2][2..], ["scan", "1", "7.0ns", "true"]);
}
