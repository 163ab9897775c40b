//! Client certificates: the principals in them, requests that also have another credential, and
//! reloads of the certificate files.

use std::time::Duration;

use rcgen::{CertificateParams, DnType, SanType, date_time_ymd};
use reqwest::Client;
use serde_json::{Value, json};
use slateberg_authn::settings::{NameFrom, SubjectKind, SubjectSettings};
use slateberg_config::Settings;
use slateberg_config::server::tls::{ClientCertificates, TlsSettings};

use crate::support::app::TestApp;
use crate::support::certificates::{TestCa, TestCertificate, TlsFiles};
use crate::support::served_app::ServedApp;

/// A server that requests client certificates of the CA `clients`. Its own certificate is from the
/// CA `own`.
struct Scene {
    server: ServedApp,
    own: TestCa,
    clients: TestCa,
    files: TlsFiles,
}

impl Scene {
    async fn start(asks: ClientCertificates, change: impl FnOnce(&mut Settings)) -> Self {
        let (own, clients) = (TestCa::new(), TestCa::new());
        let files = TlsFiles::of(&own.server());
        let tls = files.asking(&clients, asks);
        Self::start_with(own, clients, files, tls, change).await
    }

    async fn start_with(
        own: TestCa,
        clients: TestCa,
        files: TlsFiles,
        tls: TlsSettings,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let app = TestApp::with_settings(|settings| {
            settings.authn.insecure_no_auth = false;
            settings.authn.failures_before_delay = u32::MAX;
            settings.server.tls = tls;
            change(settings);
        })
        .await;
        Self { server: ServedApp::start(app).await, own, clients, files }
    }

    fn client(&self, shows: Option<&TestCertificate>) -> Client {
        ServedApp::client(&self.own, shows)
    }

    /// Returns the response of `whoami` over a connection of this client. `None` if the connection
    /// failed.
    async fn whoami_with(&self, client: &Client, credential: &str) -> Option<(u16, Value)> {
        let mut request = client.get(format!("{}/management/v1/whoami", self.server.uri));
        if !credential.is_empty() {
            request = request.bearer_auth(credential);
        }
        let answer = request.send().await.ok()?;
        Some((answer.status().as_u16(), answer.json().await.expect("JSON")))
    }

    async fn whoami(&self, shows: &TestCertificate) -> Option<(u16, Value)> {
        self.whoami_with(&self.client(Some(shows)), "").await
    }

    async fn soon(&self, client: &Client, status: u16) {
        let waiting = async {
            while self.whoami_with(client, "").await.map(|(status, _)| status) != Some(status) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("a reload in time");
    }
}

fn subject(roles: &[&str]) -> SubjectSettings {
    SubjectSettings {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..SubjectSettings::default()
    }
}

#[tokio::test]
async fn identity_comes_from_the_certificate_and_roles_from_the_settings() {
    let scene = Scene::start(ClientCertificates::Optional, |settings| {
        let subjects = &mut settings.authn.client_certificates.subjects;
        subjects.insert("root".to_owned(), subject(&["admin"]));
        let alice = SubjectSettings {
            kind: SubjectKind::User,
            groups: ["analysts".to_owned()].into(),
            warehouses: Some(["default".to_owned()].into()),
            ..subject(&["reader"])
        };
        subjects.insert("alice".to_owned(), alice);
    })
    .await;
    let who = async |name: &str| {
        let output = scene.clients.client(name);
        scene.whoami(&output).await.expect("there is a connection")
    };
    assert_eq!(
        who("alice").await,
        (
            200,
            json!({
                "kind": "user", "id": "mtls/alice", "name": "alice", "groups": ["analysts"],
                "roles": ["reader"], "warehouses": ["default"], "method": "mtls",
            })
        )
    );
    // A principal without any mapping is authenticated, and has no permissions.
    assert_eq!(
        who("etl").await,
        (
            200,
            json!({
                "kind": "service-account", "id": "mtls/etl", "name": "etl", "groups": [],
                "roles": [], "warehouses": null, "method": "mtls",
            })
        )
    );
    let keys = async |name: &str| {
        let client = scene.client(Some(&scene.clients.client(name)));
        let answer = client.get(format!("{}/management/v1/api-keys", scene.server.uri)).send();
        answer.await.expect("it answers").status().as_u16()
    };
    let creates = async |name: &str| {
        let client = scene.client(Some(&scene.clients.client(name)));
        let request = client.post(format!("{}/v1/namespaces", scene.server.uri));
        let answer = request.json(&json!({ "namespace": [name] })).send().await;
        answer.expect("it answers").status().as_u16()
    };
    assert_eq!(creates("root").await, 200);
    assert_eq!(creates("alice").await, 403);
    // The certificate of a principal without permissions is accepted, but the request of this
    // principal gets 403.
    assert_eq!(creates("etl").await, 403);
    assert_eq!(keys("root").await, 200);
    assert_eq!(keys("etl").await, 403);
}

#[tokio::test]
async fn identity_comes_from_the_configured_certificate_field() {
    let dns = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let uri = |name: &str| SanType::URI(name.try_into().expect("a name"));
    let with = |params: &mut CertificateParams, names: Vec<SanType>| {
        params.subject_alt_names = names;
    };
    let spiffe = "spiffe://example.com/etl";
    for (name_from, expected) in [
        (NameFrom::CommonName, ["mtls/cn", "mtls/cn", "mtls/cn", "mtls/cn", ""]),
        (NameFrom::DnsName, ["", "mtls/a.example.com", "", "mtls/a.example.com", ""]),
        (NameFrom::Uri, ["", "", "mtls/spiffe://example.com/etl", "", ""]),
    ] {
        let scene = Scene::start(ClientCertificates::Optional, |settings| {
            settings.authn.client_certificates.name_from = name_from;
        })
        .await;
        let two_uris = vec![dns("A.example.com"), uri(spiffe), uri("spiffe://example.com/b")];
        let output = [
            scene.clients.client("cn"),
            scene.clients.client_with("cn", 3, |params| with(params, vec![dns("a.example.com")])),
            scene.clients.client_with("cn", 4, |params| {
                let names = vec![dns("a.example.com"), dns("b.example.com"), uri(spiffe)];
                with(params, names);
            }),
            scene.clients.client_with("cn", 5, |params| with(params, two_uris)),
            scene.clients.client_with("", 6, |params| {
                params.distinguished_name.push(DnType::OrganizationName, "nobody");
            }),
        ];
        for (output, expected) in output.iter().zip(expected) {
            let (status, who) = scene.whoami(output).await.expect("there is a connection");
            let requested = if expected.is_empty() { 401 } else { 200 };
            assert_eq!(status, requested, "{name_from:?} {expected}: {who}");
            assert_eq!(who["id"].as_str().unwrap_or_default(), expected, "{name_from:?}");
        }
    }
}

#[tokio::test]
async fn credential_of_a_request_takes_precedence_over_the_certificate() {
    let scene = Scene::start(ClientCertificates::Optional, |_| {}).await;
    let certified = scene.client(Some(&scene.clients.client("etl")));
    let bare = scene.client(None);
    let key = scene.server.app.credential();
    let (status, who) = scene.whoami_with(&certified, key).await.expect("a connection");
    assert_eq!((status, &who["method"]), (200, &json!("api-key")));
    // A certificate does not make an invalid credential valid.
    for (client, credential, status) in
        [(&certified, "sb_nonsense", 401), (&bare, "", 401), (&bare, key, 200)]
    {
        let (answered, _) = scene.whoami_with(client, credential).await.expect("a connection");
        assert_eq!(answered, status, "{credential}");
    }
    let (status, who) = scene.whoami_with(&certified, "").await.expect("a connection");
    assert_eq!((status, &who["id"]), (200, &json!("mtls/etl")));
    // Public routes need no certificate.
    let health = bare.get(format!("{}/health", scene.server.uri)).send().await;
    assert_eq!(health.expect("it answers").status(), 200);
}

#[tokio::test]
async fn connection_without_a_required_certificate_is_rejected() {
    let scene = Scene::start(ClientCertificates::Required, |_| {}).await;
    let key = scene.server.app.credential();
    assert_eq!(scene.whoami_with(&scene.client(None), key).await, None);
    assert!(scene.whoami(&scene.clients.client("etl")).await.is_some());
}

#[tokio::test]
async fn invalid_certificates_fail_the_handshake() {
    let scene = Scene::start(ClientCertificates::Optional, |_| {}).await;
    let of_its_time = |from: i32, to: i32| {
        scene.clients.client_with("etl", 3, |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        })
    };
    assert!(scene.whoami(&of_its_time(2020, 2099)).await.is_some());
    assert_eq!(scene.whoami(&of_its_time(2020, 2021)).await, None);
    assert_eq!(scene.whoami(&of_its_time(2098, 2099)).await, None);
    // A CA with the same name but another key is not accepted.
    assert_eq!(scene.whoami(&TestCa::new().client("etl")).await, None);
    // The server's own CA is not a client CA.
    assert_eq!(scene.whoami(&scene.own.client("etl")).await, None);
    // A server certificate is not valid for clients.
    assert_eq!(scene.whoami(&scene.clients.server()).await, None);
}

#[tokio::test]
async fn revoked_trust_applies_to_open_connections() {
    let scene = Scene::start(ClientCertificates::Optional, |_| {}).await;
    let output = scene.clients.client("etl");
    let client = scene.client(Some(&output));
    scene.soon(&client, 200).await;
    let other = TestCa::new();
    scene.files.write("clients.pem", &other.pem());
    scene.soon(&client, 401).await;
    assert_eq!(scene.whoami(&output).await, None, "a new connection is rejected");
    assert!(scene.whoami(&other.client("etl")).await.is_some());
    // An invalid file changes nothing.
    scene.files.write("clients.pem", "");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(scene.whoami(&other.client("etl")).await.is_some());
    // With both CAs in the file, clients of the old CA are accepted again.
    scene.files.write("clients.pem", &(other.pem() + &scene.clients.pem()));
    scene.soon(&client, 200).await;
    assert!(scene.whoami(&other.client("etl")).await.is_some());
}

#[tokio::test]
async fn certificate_in_the_crl_is_rejected_and_others_are_not() {
    let (own, clients) = (TestCa::new(), TestCa::new());
    let files = TlsFiles::of(&own.server());
    files.write("revoked.pem", &clients.revoke(&[]));
    let tls = TlsSettings {
        client_crl_file: files.path("revoked.pem"),
        ..files.asking(&clients, ClientCertificates::Required)
    };
    let scene = Scene::start_with(own, clients, files, tls, |_| {}).await;
    let (stolen, good) = (
        scene.clients.client_with("stolen", 77, |_| {}),
        scene.clients.client_with("good", 78, |_| {}),
    );
    let thief = scene.client(Some(&stolen));
    scene.soon(&thief, 200).await;
    scene.files.write("revoked.pem", &scene.clients.revoke(&[&stolen]));
    scene.soon(&thief, 401).await;
    assert_eq!(scene.whoami(&stolen).await, None);
    assert!(scene.whoami(&good).await.is_some());
}

#[tokio::test]
async fn page_of_another_origin_cannot_use_the_browsers_certificate() {
    let scene = Scene::start(ClientCertificates::Optional, |settings| {
        let admin = subject(&["admin"]);
        settings.authn.client_certificates.subjects.insert("admin".to_owned(), admin);
    })
    .await;
    let client = scene.client(Some(&scene.clients.client("admin")));
    let create = async |name: &str, origin: Option<&str>| {
        let url = format!("{}/v1/namespaces", scene.server.uri);
        // The request has the type `text/plain` and no custom header, so a web page may send it
        // without a CORS preflight.
        let mut request = client.post(url).header("content-type", "text/plain");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let body = json!({ "namespace": [name] }).to_string();
        request.body(body).send().await.expect("it answers").status().as_u16()
    };
    assert_eq!(create("a", None).await, 200);
    for origin in ["https://evil.example.com", "null"] {
        assert_eq!(create("b", Some(origin)).await, 403, "{origin}");
    }
    assert_eq!(create("b", Some(&scene.server.uri)).await, 200, "a page of the server itself");
}
