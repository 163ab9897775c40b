//! [`TestMember`]: a member of a cluster in the process of the test.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use slateberg::app::cluster::{self, ClusterError, Member, PrintBanner};
use slateberg::app::run;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_store::records::FORMAT_VERSION;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::app::{bucket_opener, memory_settings};
use crate::support::faults::FaultStore;

/// Time limit for expected events.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Duration of the lease in these tests.
pub const LEASE: Duration = Duration::from_millis(1_500);
/// Pause between two attempts.
pub const PAUSE: Duration = Duration::from_millis(20);

/// A member of a cluster.
pub struct TestMember {
    /// The URL for clients.
    pub uri: String,
    /// The fault injection in front of the bucket.
    pub faults: Arc<FaultStore>,
    client: Client,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), ClusterError>>,
}

/// Returns settings of a member.
pub fn member_settings(name: &str) -> Settings {
    let mut settings = memory_settings();
    settings.server.listen = ([127, 0, 0, 1], 0).into();
    settings.server.drain_seconds_max = 5;
    settings.cluster.enabled = true;
    settings.cluster.listen = ([127, 0, 0, 1], 0).into();
    settings.cluster.name = name.to_owned();
    settings.cluster.lease_ms = LEASE.as_millis() as u64;
    settings.cluster.renew_ms = 200;
    settings.cluster.lease_wait_ms = 300;
    settings.cluster.forward_wait_ms = 15_000;
    settings
}

/// Returns the settings of a member whose lease is much longer than a test waits. So a member that
/// waited for the end of the lease would fail.
pub fn settings_with_long_lease(name: &str) -> Settings {
    let mut settings = member_settings(name);
    settings.cluster.lease_ms = 10 * TIMEOUT.as_millis() as u64;
    settings
}

/// Starts a writer with these settings, and a standby with the name `b`.
pub async fn writer_and_standby(
    bucket: &Arc<dyn ObjectStore>,
    of_writer: Settings,
) -> (TestMember, TestMember) {
    let writer = TestMember::start_with(bucket, of_writer).await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(bucket, "b").await;
    standby.wait_for_role("standby").await;
    (writer, standby)
}

/// Binds the ports of a member. Returns the member and its URL for clients.
pub async fn bind_member(
    settings: Settings,
    dependencies: Dependencies,
    print_banner: PrintBanner,
) -> (Member, String) {
    let bound = run::bind(&settings).await.expect("a port is free");
    let uri = bound.urls().clients;
    let member = Member {
        settings: settings.with_memory_shares(),
        store_format: FORMAT_VERSION,
        dependencies,
        bound,
        traces: None,
        print_banner,
        print_standby: Box::new(|_| {}),
    };
    (member, uri)
}

impl TestMember {
    /// Starts a member on this bucket.
    pub async fn start(bucket: &Arc<dyn ObjectStore>, name: &str) -> Self {
        Self::start_with(bucket, member_settings(name)).await
    }

    /// Starts a member with these settings.
    pub async fn start_with(bucket: &Arc<dyn ObjectStore>, settings: Settings) -> Self {
        Self::start_showing(bucket, settings, Arc::new(|_| {})).await
    }

    /// Starts a member of a version that reads the store up to this format.
    pub async fn start_reading(
        bucket: &Arc<dyn ObjectStore>,
        name: &str,
        store_format: u32,
    ) -> Self {
        Self::launch(bucket, member_settings(name), Arc::new(|_| {}), store_format).await
    }

    /// Starts a member that shows its banner like this when it becomes the writer.
    pub async fn start_showing(
        bucket: &Arc<dyn ObjectStore>,
        settings: Settings,
        print_banner: PrintBanner,
    ) -> Self {
        Self::launch(bucket, settings, print_banner, FORMAT_VERSION).await
    }

    async fn launch(
        bucket: &Arc<dyn ObjectStore>,
        settings: Settings,
        print_banner: PrintBanner,
        store_format: u32,
    ) -> Self {
        let faults = FaultStore::new(Arc::clone(bucket));
        let opener = bucket_opener(Arc::clone(&faults) as _);
        let dependencies = Dependencies { opener, ..Dependencies::default() };
        let (mut member, uri) = bind_member(settings, dependencies, print_banner).await;
        member.store_format = store_format;
        let (stop, stopping) = oneshot::channel::<()>();
        let running = tokio::spawn(cluster::run(member, async move {
            let _ = stopping.await;
        }));
        let client = Client::builder().tls_danger_accept_invalid_certs(true).build();
        let client = client.expect("a client");
        Self { uri, faults, client, stop: Some(stop), running }
    }

    /// Waits until the member is ready, and returns its role.
    pub async fn ready(&self) -> String {
        within("the member is ready", async || {
            let response = self.send(Method::GET, "/ready", None).await.ok()?;
            let is_ready = response.status() == 200;
            let body: Value = response.json().await.ok()?;
            is_ready.then(|| body["role"].as_str().expect("a role").to_owned())
        })
        .await
    }

    /// Waits until the member has this role.
    pub async fn wait_for_role(&self, role: &str) {
        within(role, async || (self.ready().await == role).then_some(())).await;
    }

    /// Waits until the member executes reads on its replica.
    pub async fn wait_for_replica(&self) {
        within("the standby has a replica", async || {
            (self.metric("slateberg_cluster_replica").await == 1).then_some(())
        })
        .await;
    }

    /// Returns the value of a metric without labels.
    pub async fn metric(&self, name: &str) -> u64 {
        let metrics = self.send(Method::GET, "/metrics", None).await.expect("it responds");
        let metrics = metrics.text().await.expect("a body");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let line = line.unwrap_or_else(|| panic!("{name} is missing: {metrics}"));
        line.parse().expect("a whole number")
    }

    /// Sends a request.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<Response> {
        let request = self.client.request(method, format!("{}{path}", self.uri));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        request.send().await
    }

    /// Sends a request, and returns its status and body.
    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let response = self.send(method, path, body).await.expect("the member responds");
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Creates a namespace, and returns the status.
    pub async fn create_namespace(&self, name: &str) -> u16 {
        let body = json!({ "namespace": [name] });
        self.request(Method::POST, "/v1/namespaces", Some(&body)).await.0
    }

    /// Creates a warehouse at run time.
    pub async fn create_warehouse(&self, name: &str) {
        let location = format!("memory:///lake/{name}");
        let body = json!({ "name": name, "storage": { "location": location } });
        let (status, created) =
            self.request(Method::POST, "/management/v1/warehouses", Some(&body)).await;
        assert!(status == 200 || status == 201, "{created}");
    }

    /// Sets a property of a namespace, and returns the status.
    pub async fn set_property(&self, namespace: &str, key: &str, value: &str) -> u16 {
        let path = format!("/v1/namespaces/{namespace}/properties");
        let body = json!({ "updates": { key: value } });
        self.request(Method::POST, &path, Some(&body)).await.0
    }

    /// Returns the properties of a namespace that the test has set.
    pub async fn properties(&self, namespace: &str) -> Value {
        let path = format!("/v1/namespaces/{namespace}");
        let (status, body) = self.request(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{body}");
        let mut properties = body["properties"].clone();
        let location = properties.as_object_mut().and_then(|all| all.remove("location"));
        assert!(location.is_some(), "{properties}");
        properties
    }

    /// Stops the member in order.
    pub async fn stop(mut self) {
        let stop = self.stop.take().expect("it is stopped once");
        stop.send(()).expect("it runs");
        let stopped = tokio::time::timeout(TIMEOUT, &mut self.running).await;
        stopped.expect("it stops in time").expect("no panic").expect("no error");
    }

    /// Waits until the start of the member has failed, and returns the error.
    pub async fn rejection(mut self) -> ClusterError {
        let ended = tokio::time::timeout(TIMEOUT, &mut self.running).await;
        ended.expect("it ends in time").expect("no panic").expect_err("it does not start")
    }

    /// Separates the member from the bucket: all its requests hang.
    pub fn isolate(&self) {
        self.faults.kill();
    }

    /// Connects the member to the bucket again.
    pub fn reconnect(&self) {
        self.faults.lift();
    }
}

impl Drop for TestMember {
    /// A dropped member ends like a crashed process: nothing is released.
    fn drop(&mut self) {
        self.faults.kill();
        self.running.abort();
    }
}

/// Runs the program with the address of a member, and returns what it prints.
pub async fn program(member: &TestMember, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    command.args(arguments).env("SLATEBERG_URL", &member.uri);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the record of the writer in the bucket.
pub async fn writer_record(bucket: &Arc<dyn ObjectStore>) -> Value {
    let record = bucket.get(&Path::from("state/cluster/writer.json")).await.expect("it exists");
    serde_json::from_slice(&record.bytes().await.expect("it is read")).expect("JSON")
}

/// Repeats `attempt` until it returns a value.
pub async fn within<T>(what: &str, attempt: impl AsyncFn() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(value) = attempt().await {
                return value;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let done = tokio::time::timeout(TIMEOUT, attempts).await;
    done.unwrap_or_else(|_| panic!("not within {TIMEOUT:?}: {what}"))
}
