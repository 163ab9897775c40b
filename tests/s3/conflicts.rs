//! A single writer on a store that returns wrong responses to conditional puts.

use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;

use crate::proxy::{Proxy, PutFault};
use crate::support::app::{TestApp, memory_settings};
use crate::support::bucket::{ambient_options, fresh_id, store_url, variable};
use crate::support::table::set_property;

const LOG: &str = "/state/wal/";
const MANIFESTS: &str = "/state/manifest/";
const METADATA_FILES: &str = ".metadata.json";

/// Returns a catalog in a new prefix that accesses the store through this proxy.
async fn catalog(proxy: &Proxy) -> TestApp {
    let base = format!("{}/proxied-{}", store_url().expect("there is a store"), fresh_id());
    let mut settings: Settings = memory_settings();
    settings.ambient_options = ambient_options();
    let options = [("aws_endpoint", proxy.url.as_str()), ("timeout", "1 seconds")];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    settings.state.url = format!("{base}/state");
    settings.state.options = options.clone().into();
    let warehouse = settings.warehouses.get_mut("default").expect("there is one by default");
    warehouse.location = format!("{base}/warehouse");
    warehouse.options = options.into();
    TestApp::of(App::build(settings, Dependencies::default()).await.expect("the catalog opens"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store: make stores"]
async fn no_store_response_fences_the_writer_or_loses_commits() {
    use PutFault::{Conflict, FailAfterwards, LoseResponse};
    let upstream = variable("AWS_ENDPOINT").expect("AWS_ENDPOINT is set");
    let proxy = Proxy::start(&upstream).await;
    let app = catalog(&proxy).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let trials: [&[PutFault]; 6] = [
        &[Conflict],
        &[Conflict, Conflict, Conflict],
        &[LoseResponse],
        &[FailAfterwards],
        &[LoseResponse, Conflict],
        &[FailAfterwards, LoseResponse, Conflict],
    ];
    let mut keys = Vec::new();
    for part in [LOG, METADATA_FILES, MANIFESTS] {
        for (number, faults) in trials.iter().enumerate() {
            let key = format!("{}-{number}", part.trim_matches(|c: char| !c.is_alphabetic()));
            proxy.inject(part, faults);
            app.commit("ns", "t", vec![], vec![set_property(&key, "yes")]).await.expect(200);
            if part == MANIFESTS {
                app.app.runtime.catalog.flush().await.expect("the store is open");
            }
            assert_eq!(proxy.remaining(), 0, "{key}: not all of {faults:?} were injected");
            app.get("/ready").await.expect(200);
            keys.push(key);
        }
    }
    let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    for key in keys {
        assert_eq!(loaded.body["metadata"]["properties"][&key], "yes", "{key}");
    }
    app.app.runtime.catalog.close().await.expect("it closes in order");
}
