//! The program: the output of a first start, and `slateberg key` against the started server.

use serde_json::Value;

use crate::support::certificates::{TestCa, TlsFiles};
use crate::support::program::slateberg;
pub(crate) use crate::support::program::{Server, output_text};

/// Sends a request to a server with this key. It must succeed.
pub(crate) async fn send(
    server: &Server,
    key: &str,
    method: reqwest::Method,
    path: &str,
    body: Value,
) {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.request(method, format!("{}{path}", server.uri)).bearer_auth(key);
    let response = request.json(&body).send().await.expect("it answers");
    assert!(response.status().is_success(), "{path}: {}", response.status());
}

#[test]
fn a_first_start_prints_a_key_that_works_and_the_command_line_manages_others() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    let keys = server.keys();
    // The banner contains the key three times: once for the operator to store, and once in each of
    // the two snippets, which can be run unchanged.
    assert_eq!(keys.len(), 3, "{}", server.banner);
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert!(server.banner.contains(&format!("token=\"{}\"", keys[0])));
    let admin = keys[0].as_str();

    let process_output = server.run(
        at,
        admin,
        &["key", "create", "etl", "--role", "writer", "--warehouse", "default", "--output", "json"],
    );
    let process_output: Value = serde_json::from_str(&output_text(process_output)).expect("JSON");
    let (id, key) = (
        process_output["id"].as_str().expect("an id"),
        process_output["key"].as_str().expect("a key"),
    );
    let listed = output_text(server.run(at, key, &["key", "list", "--api-key", admin]));
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{listed}");
    assert_eq!(rows[0][..5], ["ID", "NAME", "STATUS", "ROLES", "WAREHOUSES"]);
    assert_eq!(rows[2][..6], [id, "etl", "active", "writer", "default", "never"]);
    assert!(listed.contains(" bootstrap ("), "{listed}");
    assert!(!listed.contains("sb_"), "{listed}");

    let output = server.run(at, key, &["key", "list"]);
    assert_eq!(output.status.code(), Some(77));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ForbiddenException"));
    let misspelled = server.run(at, admin, &["key", "revoke", "elt"]);
    let error = String::from_utf8_lossy(&misspelled.stderr).into_owned();
    assert!(error.contains("no valid API key has the name 'elt'"), "{error}");
    let last = server.run(at, admin, &["key", "revoke", "bootstrap"]);
    let error = String::from_utf8_lossy(&last.stderr).into_owned();
    assert!(error.contains("repeat the request with ?force=true"), "{error}");
    assert_eq!(
        output_text(server.run(at, admin, &["key", "revoke", "etl"])),
        format!("revoked {id}\n")
    );
    let listed = output_text(server.run(at, admin, &["key", "list"]));
    let revoked = listed.lines().find(|line| line.contains(id)).expect("a revoked key is listed");
    assert!(revoked.contains(" revoked ") && revoked.contains("Z by bootstrap ("), "{listed}");
    assert!(!output_text(server.run(at, admin, &["key", "list", "--active"])).contains(id));
    let process_output = server.run(at, admin, &["key", "create", "bob", "--role", "writter"]);
    let warned = String::from_utf8_lossy(&process_output.stderr).into_owned();
    assert!(warned.contains("warning: no policy in force mentions the role 'writter'"), "{warned}");
    output_text(process_output);
    output_text(server.run(at, admin, &["key", "revoke", "bob"]));
    let output = server.run(at, key, &["key", "list"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("NotAuthorizedException"));
    let again = server.run(at, admin, &["key", "revoke", id]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("does not exist"));
    drop(server);

    let later = Server::start(at, &[]);
    assert_eq!(later.keys(), Vec::<String>::new(), "a second start prints a key: {}", later.banner);
    output_text(later.run(at, admin, &["key", "list"]));
    drop(later);

    let further = Server::start(at, &["--new-admin-key"]);
    let keys = further.keys();
    assert_eq!(keys.len(), 3, "{}", further.banner);
    for key in [admin, keys[0].as_str()] {
        output_text(further.run(at, key, &["key", "list"]));
    }
}

#[test]
fn disabled_authentication_is_in_the_banner_and_needs_a_second_flag_on_public_addresses() {
    let directory = tempfile::tempdir().expect("there is room");
    let server = Server::start(directory.path(), &["--insecure-no-auth"]);
    assert!(server.banner.contains("insecure-no-auth") && server.keys().is_empty());
    assert!(!server.banner.contains("token="), "{}", server.banner);
    drop(server);
    let public = ["serve", "--listen", "0.0.0.0:0", "--data-dir", "data", "--insecure-no-auth"];
    let process_output = slateberg(directory.path(), &public).output().expect("it runs");
    let error_output = String::from_utf8_lossy(&process_output.stderr).into_owned();
    assert!(!process_output.status.success());
    assert!(error_output.contains("--insecure-no-auth-on-public-address"), "{error_output}");
}

#[test]
fn the_command_line_shows_a_client_certificate() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let ca = TestCa::new();
    let files = TlsFiles::of(&ca.server());
    files.write("ca.pem", &ca.pem());
    files.write("ops.pem", &ca.client("ops").pem());
    let config = at.join("settings.toml");
    let text = format!(
        r#"
        [server.tls]
        certificate_file = {:?}
        key_file = {:?}
        client_certificates = "required"
        client_ca_file = {ca:?}
        [authn.client_certificates.subjects.ops]
        roles = ["admin"]
        "#,
        files.path("server.pem"),
        files.path("key.pem"),
        ca = files.path("ca.pem"),
    );
    std::fs::write(&config, text).expect("it is written");
    let server = Server::start(at, &["--config", config.to_str().expect("a path")]);
    let list = || {
        let mut command = slateberg(at, &["key", "list"]);
        command.env("SLATEBERG_URL", &server.uri).env("SLATEBERG_CA_CERT", files.path("ca.pem"));
        command
    };
    let process_output =
        list().arg("--client-cert").arg(files.path("ops.pem")).output().expect("it runs");
    assert!(output_text(process_output).contains("bootstrap"));
    let process_output = list().env("SLATEBERG_CLIENT_CERT", files.path("ops.pem")).output();
    assert!(output_text(process_output.expect("it runs")).contains("bootstrap"));
    let without = list().output().expect("it runs");
    let error = String::from_utf8_lossy(&without.stderr).into_owned();
    assert_eq!(without.status.code(), Some(69), "{error}");
    assert!(error.contains("--client-cert or SLATEBERG_CLIENT_CERT"), "{error}");
    let half = list().arg("--client-cert").arg(files.path("ca.pem")).output().expect("it runs");
    let error = String::from_utf8_lossy(&half.stderr).into_owned();
    assert!(error.contains("ca.pem: no PEM certificate with a key"), "{error}");
}

#[test]
fn server_with_tls_prints_an_https_url_and_is_managed_over_it() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let ca = TestCa::new();
    let files = TlsFiles::of(&ca.server());
    let tls = files.settings();
    let config = at.join("settings.toml");
    let text = format!(
        "[server.tls]\ncertificate_file = {:?}\nkey_file = {:?}\n",
        tls.certificate_file, tls.key_file
    );
    std::fs::write(&config, text).expect("it is written");
    files.write("ca.pem", &ca.pem());
    let arguments = ["--config", config.to_str().expect("a path")];
    let server = Server::start(at, &arguments);
    assert!(server.uri.starts_with("https://127.0.0.1:"), "{}", server.uri);
    assert!(server.banner.contains(&format!("uri=\"{}\"", server.uri)), "{}", server.banner);
    let list = || {
        let mut command = slateberg(at, &["key", "list"]);
        command.env("SLATEBERG_URL", &server.uri).env("SLATEBERG_API_KEY", &server.keys()[0]);
        command
    };
    let trusting = list().env("SSL_CERT_FILE", files.path("ca.pem")).output().expect("it runs");
    assert!(output_text(trusting).contains("bootstrap"));
    let untrusted = list().output().expect("it runs");
    let error = String::from_utf8_lossy(&untrusted.stderr).into_owned();
    assert_eq!(untrusted.status.code(), Some(69), "{error}");
    assert!(error.contains("--ca-cert or SLATEBERG_CA_CERT"), "{error}");
    let plain = list().env("SLATEBERG_URL", server.uri.replace("https", "http")).output();
    let error = String::from_utf8_lossy(&plain.expect("it runs").stderr).into_owned();
    assert!(error.contains("begin the URL with https://"), "{error}");
    let process_output =
        list().arg("--ca-cert").arg(files.path("ca.pem")).output().expect("it runs");
    assert!(output_text(process_output).contains("bootstrap"));
    let process_output =
        list().env("SLATEBERG_CA_CERT", files.path("key.pem")).output().expect("it runs");
    let error = String::from_utf8_lossy(&process_output.stderr).into_owned();
    assert!(error.contains("key.pem: no PEM certificates"), "{error}");

    // A start with invalid files fails at once and names the file.
    drop(server);
    files.write("key.pem", "");
    let serve = [&["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"], &arguments[..]];
    let failed = slateberg(at, &serve.concat()).output().expect("it runs");
    assert!(!failed.status.success());
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(error.contains("server.tls.key_file") && error.contains("key.pem"), "{error}");
}
