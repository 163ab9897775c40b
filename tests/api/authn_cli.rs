//! The program: output of a first start, and `slateberg key` against it.

use serde_json::Value;

use crate::support::certificates::{TestCa, TlsFiles};
use crate::support::program::slateberg;
pub(crate) use crate::support::program::{Server, said};

#[test]
fn a_first_start_prints_a_key_that_works_and_the_command_line_manages_others() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    let keys = server.keys();
    // The banner contains the key once to be stored, and in both snippets, which work without
    // changes.
    assert_eq!(keys.len(), 3, "{}", server.banner);
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert!(server.banner.contains(&format!("token=\"{}\"", keys[0])));
    let admin = keys[0].as_str();

    let made = server.run(
        at,
        admin,
        &["key", "create", "etl", "--role", "writer", "--warehouse", "default", "--output", "json"],
    );
    let made: Value = serde_json::from_str(&said(made)).expect("JSON");
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    let listed = said(server.run(at, key, &["key", "list", "--api-key", admin]));
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{listed}");
    assert_eq!(rows[0][..5], ["ID", "NAME", "STATUS", "ROLES", "WAREHOUSES"]);
    assert_eq!(rows[2][..6], [id, "etl", "active", "writer", "default", "never"]);
    assert!(listed.contains(" bootstrap ("), "{listed}");
    assert!(!listed.contains("sb_"), "{listed}");

    let refused = server.run(at, key, &["key", "list"]);
    assert_eq!(refused.status.code(), Some(77));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("ForbiddenException"));
    let misspelled = server.run(at, admin, &["key", "revoke", "elt"]);
    let error = String::from_utf8_lossy(&misspelled.stderr).into_owned();
    assert!(error.contains("no valid API key has the name 'elt'"), "{error}");
    let last = server.run(at, admin, &["key", "revoke", "bootstrap"]);
    let error = String::from_utf8_lossy(&last.stderr).into_owned();
    assert!(error.contains("repeat the request with ?force=true"), "{error}");
    assert_eq!(said(server.run(at, admin, &["key", "revoke", "etl"])), format!("revoked {id}\n"));
    let listed = said(server.run(at, admin, &["key", "list"]));
    let revoked = listed.lines().find(|line| line.contains(id)).expect("a revoked key is listed");
    assert!(revoked.contains(" revoked ") && revoked.contains("Z by bootstrap ("), "{listed}");
    assert!(!said(server.run(at, admin, &["key", "list", "--active"])).contains(id));
    let made = server.run(at, admin, &["key", "create", "bob", "--role", "writter"]);
    let warned = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(warned.contains("warning: no policy in force mentions the role 'writter'"), "{warned}");
    said(made);
    said(server.run(at, admin, &["key", "revoke", "bob"]));
    let refused = server.run(at, key, &["key", "list"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("NotAuthorizedException"));
    let again = server.run(at, admin, &["key", "revoke", id]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("does not exist"));
    drop(server);

    let later = Server::start(at, &[]);
    assert_eq!(later.keys(), Vec::<String>::new(), "it is not shown again: {}", later.banner);
    said(later.run(at, admin, &["key", "list"]));
    drop(later);

    let further = Server::start(at, &["--new-admin-key"]);
    let keys = further.keys();
    assert_eq!(keys.len(), 3, "{}", further.banner);
    for key in [admin, keys[0].as_str()] {
        said(further.run(at, key, &["key", "list"]));
    }
}

#[test]
fn letting_everybody_in_is_said_in_the_banner_and_twice_on_public_addresses() {
    let directory = tempfile::tempdir().expect("there is room");
    let server = Server::start(directory.path(), &["--insecure-no-auth"]);
    assert!(server.banner.contains("insecure-no-auth") && server.keys().is_empty());
    assert!(!server.banner.contains("token="), "{}", server.banner);
    drop(server);
    let public = ["serve", "--listen", "0.0.0.0:0", "--data-dir", "data", "--insecure-no-auth"];
    let refused = slateberg(directory.path(), &public).output().expect("it runs");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(told.contains("--insecure-no-auth-on-public-address"), "{told}");
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
    let shown = list().arg("--client-cert").arg(files.path("ops.pem")).output().expect("it runs");
    assert!(said(shown).contains("bootstrap"));
    let shown = list().env("SLATEBERG_CLIENT_CERT", files.path("ops.pem")).output();
    assert!(said(shown.expect("it runs")).contains("bootstrap"));
    let without = list().output().expect("it runs");
    let error = String::from_utf8_lossy(&without.stderr).into_owned();
    assert_eq!(without.status.code(), Some(69), "{error}");
    assert!(error.contains("--client-cert or SLATEBERG_CLIENT_CERT"), "{error}");
    let half = list().arg("--client-cert").arg(files.path("ca.pem")).output().expect("it runs");
    let error = String::from_utf8_lossy(&half.stderr).into_owned();
    assert!(error.contains("ca.pem: no PEM certificate with a key"), "{error}");
}

#[test]
fn an_encrypted_server_says_so_and_is_managed_as_well() {
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
    assert!(said(trusting).contains("bootstrap"));
    let untrusted = list().output().expect("it runs");
    let error = String::from_utf8_lossy(&untrusted.stderr).into_owned();
    assert_eq!(untrusted.status.code(), Some(69), "{error}");
    assert!(error.contains("--ca-cert or SLATEBERG_CA_CERT"), "{error}");
    let plain = list().env("SLATEBERG_URL", server.uri.replace("https", "http")).output();
    let error = String::from_utf8_lossy(&plain.expect("it runs").stderr).into_owned();
    assert!(error.contains("begin the URL with https://"), "{error}");
    let told = list().arg("--ca-cert").arg(files.path("ca.pem")).output().expect("it runs");
    assert!(said(told).contains("bootstrap"));
    let told = list().env("SLATEBERG_CA_CERT", files.path("key.pem")).output().expect("it runs");
    let error = String::from_utf8_lossy(&told.stderr).into_owned();
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
