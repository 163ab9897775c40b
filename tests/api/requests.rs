//! The number of requests that an idle server and commits send to the object store.

#![expect(clippy::print_stdout, reason = "the counts are for developers with --nocapture")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;

use crate::support::app::{TestApp, memory_settings};
use crate::support::bucket::bucket;
use crate::support::env_numbers::number_from_env;
use crate::support::faults::{FaultStore, Verb};
use crate::support::served_app::ServedApp;
use crate::support::table::set_property;

/// Seconds for which an idle server is observed.
const IDLE_SECONDS: &str = "SLATEBERG_TEST_IDLE_SECONDS";
/// Number of sequential commits.
const COMMITS: &str = "SLATEBERG_TEST_BILLED_COMMITS";

/// Counts the requests so far, by verb and directory.
fn bill(bucket: &FaultStore) -> BTreeMap<String, usize> {
    let mut bill = BTreeMap::new();
    for (verb, path) in bucket.requests() {
        let part = ["manifest", "compactions", "compacted", "wal", "gc", "warehouse"]
            .into_iter()
            .find(|part| path.split('/').any(|step| step == *part))
            .unwrap_or("other");
        *bill.entry(format!("{verb:?} {part}")).or_default() += 1;
    }
    bill
}

/// Returns the requests since `before`, and their sum.
fn since(
    before: &BTreeMap<String, usize>,
    now: &BTreeMap<String, usize>,
) -> (BTreeMap<String, usize>, usize) {
    let more = |(kind, count): (&String, &usize)| {
        (kind.clone(), count - before.get(kind).copied().unwrap_or(0))
    };
    let added: BTreeMap<_, _> = now.iter().map(more).filter(|(_, count)| *count > 0).collect();
    let sum = added.values().sum();
    (added, sum)
}

/// A running server on a catalog with a table, including its background tasks.
async fn served() -> (Arc<FaultStore>, ServedApp) {
    let bucket = FaultStore::new(bucket());
    let app = TestApp::with(Arc::clone(&bucket) as _, memory_settings()).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    (bucket, ServedApp::start(app).await)
}

#[tokio::test]
async fn idle_server_sends_few_requests_to_its_bucket() {
    let seconds = number_from_env(IDLE_SECONDS, 6);
    let (bucket, _served) = served().await;
    // Waits, so that the requests of the start, and most of those after the last change, are not
    // counted.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = bill(&bucket);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (kinds, asked) = since(&before, &bill(&bucket));
    println!("idle for {seconds} s: {asked} requests, {kinds:#?}");
    // The server polls at most twice a second. The rest of the limit is a margin for other
    // requests, such as those for the flush of the last change.
    assert!(asked as u64 <= 3 * seconds + 12, "{asked} requests in {seconds} s: {kinds:?}");
}

#[tokio::test]
async fn commit_costs_two_puts() {
    let commits = usize::try_from(number_from_env(COMMITS, 200)).expect("a number of commits");
    let (bucket, served) = served().await;
    let before = bill(&bucket);
    for number in 0..commits {
        let update = set_property("number", &number.to_string());
        served.app.commit("ns", "t", vec![], vec![update]).await.expect(200);
    }
    let (kinds, asked) = since(&before, &bill(&bucket));
    println!("{commits} commits: {asked} requests, {kinds:#?}");
    assert_eq!(kinds.get("Put wal"), Some(&commits));
    assert_eq!(kinds.get("Put warehouse"), Some(&commits));
    assert!(asked <= 2 * commits + commits / 10 + 20, "{asked} requests: {kinds:?}");
    let of_the_start = bucket.count(Verb::Delete, ".slateberg-probe-");
    assert_eq!(bucket.count(Verb::Delete, ""), of_the_start, "no commit deletes anything");
}

/// Opens a catalog, loads its table, and closes the catalog. Returns the number of requests for
/// sorted runs before the close.
async fn cold_load(bucket: &Arc<FaultStore>, cache: &Path) -> usize {
    let mut settings = memory_settings();
    settings.store.object_cache_dir = cache.to_owned();
    let before = bucket.count(Verb::Get, "/compacted/");
    let app = TestApp::with(Arc::clone(bucket) as _, settings).await;
    app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    let request = bucket.count(Verb::Get, "/compacted/") - before;
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    request
}

#[tokio::test]
async fn restart_reads_cached_objects_from_the_local_disk() {
    let bucket = FaultStore::new(bucket());
    let app = TestApp::on(Arc::clone(&bucket) as _).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    let (none, cache) = (Path::new(""), tempfile::tempdir().expect("a directory"));
    assert!(cold_load(&bucket, none).await > 0);
    assert!(cold_load(&bucket, cache.path()).await > 0, "the cache directory is empty");
    assert_eq!(cold_load(&bucket, cache.path()).await, 0);
    assert!(cold_load(&bucket, none).await > 0, "without a cache, the bucket is read");
}

#[tokio::test]
async fn state_in_a_local_directory_has_no_object_cache() {
    let home = tempfile::tempdir().expect("a directory");
    let mut settings = Settings { data_dir: home.path().to_owned(), ..Settings::default() };
    settings.store.object_cache_dir = home.path().join("cache");
    let error = App::build(settings, Dependencies::default()).await.err().expect("it is refused");
    assert!(error.to_string().starts_with("store.object_cache_dir: "), "{error}");
}
