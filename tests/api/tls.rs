//! Encrypted connections: protocols, reloaded files, and slow clients.

use std::time::{Duration, Instant};

use rcgen::date_time_ymd;
use reqwest::{Client, Version};
use slateberg::app::run;
use slateberg_config::server::tls::TlsSettings;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::app::{TestApp, memory_settings};
use crate::support::certificates::{TestCa, TlsFiles};
use crate::support::served_app::ServedApp;

async fn encrypted(tls: TlsSettings) -> ServedApp {
    ServedApp::start(TestApp::with_settings(|settings| settings.server.tls = tls).await).await
}

/// Whether the server presents a certificate of this CA to a new connection.
async fn shows_one_of(server: &ServedApp, ca: &TestCa) -> bool {
    ServedApp::client(ca, None).get(format!("{}/health", server.uri)).send().await.is_ok()
}

/// Returns a TLS metric of the server.
async fn measured(server: &ServedApp, ca: &TestCa, name: &str) -> f64 {
    let client = ServedApp::client(ca, None);
    let answer = client.get(format!("{}/metrics", server.uri)).send().await.expect("it answers");
    let text = answer.text().await.expect("text");
    let name = format!("slateberg_tls_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name)).expect("it is there");
    value.parse().expect("a number")
}

async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect(what);
}

#[tokio::test]
async fn clients_use_http_1_or_http_2() {
    let ca = TestCa::new();
    let files = TlsFiles::of(&ca.server());
    let server = encrypted(files.settings()).await;
    let version = async |client: Client| {
        let answer = client.get(format!("{}/v1/config", server.uri)).send().await;
        answer.expect("it answers").version()
    };
    assert_eq!(version(ServedApp::client(&ca, None)).await, Version::HTTP_2);
    let old = ServedApp::client_with(&ca, None, |client| client.http1_only());
    assert_eq!(version(old).await, Version::HTTP_11);
    // Unencrypted requests get no response.
    let plain = Client::new().get(server.uri.replace("https", "http")).send().await;
    assert!(plain.is_err());
    // Clients reject a certificate of another CA.
    assert!(!shows_one_of(&server, &TestCa::new()).await);
}

#[tokio::test]
async fn slow_handshake_does_not_block_other_clients() {
    let ca = TestCa::new();
    let files = TlsFiles::of(&ca.server());
    let few = TlsSettings { handshake_seconds_max: 2, handshakes_max: 8, ..files.settings() };
    let server = encrypted(few).await;
    let address = server.uri.strip_prefix("https://").expect("it is encrypted").to_owned();
    let mut idle = Vec::new();
    for _ in 0..7 {
        idle.push(TcpStream::connect(&address).await.expect("it listens"));
    }
    let begun = Instant::now();
    assert!(shows_one_of(&server, &ca).await);
    assert!(begun.elapsed() < Duration::from_secs(2), "a client waited for {:?}", begun.elapsed());
    // After some time, the server closes the silent connections.
    for mut stream in idle {
        let ended = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut [0; 1])).await;
        assert_eq!(ended.expect("it is closed").unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn certificates_are_reloaded_atomically_without_a_restart() {
    let (old, new) = (TestCa::new(), TestCa::new());
    let files = TlsFiles::of(&old.server());
    let server = encrypted(files.settings()).await;
    let client = ServedApp::client(&old, None);
    let ready = async || {
        let answer = client.get(format!("{}/ready", server.uri)).send().await;
        answer.expect("it answers").status().as_u16()
    };
    assert_eq!(ready().await, 200);
    assert_eq!(measured(&server, &old, "last_reload_successful").await, 1.0);

    // A partial update: the certificate is new, but the key is still the old one.
    let (begins, ends) = (date_time_ymd(2026, 1, 1), date_time_ymd(2126, 1, 1));
    let next = new.server_with(|params| {
        params.not_before = begins;
        params.not_after = ends;
    });
    files.write("server.pem", &next.certificate.pem());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(shows_one_of(&server, &old).await, "invalid files change nothing");
    assert_eq!(measured(&server, &old, "last_reload_successful").await, 0.0);
    // The certificate file is invalid, then missing.
    files.write("server.pem", "not a certificate");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(shows_one_of(&server, &old).await);
    std::fs::remove_file(files.path("server.pem")).expect("it is there");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(shows_one_of(&server, &old).await);

    files.write_server(&next);
    soon("the new certificate is served", async || shows_one_of(&server, &new).await).await;
    assert!(!shows_one_of(&server, &old).await);
    assert_eq!(measured(&server, &new, "last_reload_successful").await, 1.0);
    for (name, date) in [("not_before", begins), ("expiration", ends)] {
        let message =
            measured(&server, &new, &format!("certificate_{name}_timestamp_seconds")).await;
        assert_eq!(message, date.unix_timestamp() as f64);
    }
    // Existing connections continue.
    assert_eq!(ready().await, 200);
}

#[tokio::test]
async fn start_fails_with_the_name_of_an_invalid_tls_file() {
    let ca = TestCa::new();
    let files = TlsFiles::of(&ca.server());
    let good = files.settings();
    files.write("empty.pem", "");
    files.write("text.pem", "not a certificate");
    files.write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    files.write("other.pem", &ca.server().pem());
    let rejection = async |change: &dyn Fn(&mut TlsSettings)| {
        let mut settings = memory_settings();
        settings.server.listen.set_port(0);
        settings.server.tls = good.clone();
        change(&mut settings.server.tls);
        run::bind(&settings).await.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(rejection(&|_| {}).await, "");
    for (name, output_text) in [
        ("missing.pem", "No such file"),
        ("empty.pem", "contains no certificate"),
        ("text.pem", "contains no certificate"),
        ("cut.pem", ""),
    ] {
        let error = rejection(&|tls| tls.certificate_file = files.path(name)).await;
        assert!(error.starts_with("server.tls.certificate_file: "), "{error}");
        assert!(error.contains(name) && error.contains(output_text), "{error}");
    }
    for (name, output_text) in [
        ("missing.pem", "No such file"),
        ("text.pem", "contains no private key"),
        ("server.pem", "contains no private key"),
        ("other.pem", "not the key of the certificate_file"),
    ] {
        let error = rejection(&|tls| tls.key_file = files.path(name)).await;
        assert!(error.starts_with("server.tls.key_file: "), "{error}");
        assert!(error.contains(name) && error.contains(output_text), "{error}");
    }
}

#[tokio::test]
async fn long_responses_and_many_requests_succeed_over_tls() {
    let ca = TestCa::new();
    let files = TlsFiles::of(&ca.server());
    let server = encrypted(files.settings()).await;
    let client = ServedApp::client(&ca, None);
    let body = serde_json::json!({
        "namespace": ["long"], "properties": { "text": "x".repeat(500_000) },
    });
    let created = client.post(format!("{}/v1/namespaces", server.uri)).json(&body).send().await;
    assert_eq!(created.expect("it answers").status(), 200);
    let loads = (0..20).map(async |_| {
        let answer = client.get(format!("{}/v1/namespaces/long", server.uri)).send().await;
        answer.expect("it answers").bytes().await.expect("a body").len()
    });
    for length in futures::future::join_all(loads).await {
        assert!(length > 500_000, "{length}");
    }
}
