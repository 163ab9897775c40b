//! The log of a server: access lines, slow requests, rejected credentials, and pure JSON.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A server that logs JSON: the line that it printed on standard output, and its log in a file.
struct JsonServer {
    child: Child,
    ready: Value,
    rest: BufReader<std::process::ChildStdout>,
}

impl JsonServer {
    fn start(directory: &Path, settings: &str) -> Self {
        let file = directory.join("slateberg.toml");
        fs::write(&file, settings).expect("there is room");
        let log = File::create(directory.join("log")).expect("there is room");
        let mut child = Command::new(env!("CARGO_BIN_EXE_slateberg"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--config"])
            .arg(&file)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let mut rest = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        rest.read_line(&mut line).expect("a line");
        let log = || fs::read_to_string(directory.join("log")).unwrap_or_default();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}{}", log()));
        Self { child, ready, rest }
    }

    fn field(&self, name: &str) -> &str {
        self.ready["fields"][name].as_str().unwrap_or_else(|| panic!("{name}: {}", self.ready))
    }

    async fn status(&self, method: reqwest::Method, path: &str, key: &str) -> u16 {
        let url = format!("{}{path}", self.field("url"));
        let request = reqwest::Client::new().request(method, url).bearer_auth(key);
        request.send().await.expect("an answer").status().as_u16()
    }

    /// Stops the server and returns the lines of its log, each of which is a JSON object.
    fn stop(mut self, directory: &Path) -> Vec<Value> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("it runs").success());
        assert!(self.child.wait().expect("it ends").success());
        let mut rest = String::new();
        self.rest.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "standard output has the ready line only");
        let log = fs::read_to_string(directory.join("log")).expect("there is a log");
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        log.lines().map(parse).collect()
    }
}

impl Drop for JsonServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_message<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["fields"]["message"] == message).collect()
}

#[tokio::test]
async fn json_format_makes_every_line_of_output_and_log_a_json_object() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = "[log]\nformat = \"json\"\nlevel = \"info\"\n";
    let server = JsonServer::start(directory.path(), settings);
    assert_eq!(server.ready["fields"]["message"], "ready");
    let key = server.field("admin-key").to_owned();
    assert_eq!(server.status(reqwest::Method::GET, "/v1/config", &key).await, 200);
    let lines = server.stop(directory.path());
    assert!(!lines.is_empty());
    for line in &lines {
        let fields = line["fields"].as_object().expect("fields");
        assert!(!fields.keys().any(|name| name.starts_with("log.")), "{line}");
        assert!(!line.to_string().contains(&key), "the log contains the key");
    }
}

#[tokio::test]
async fn access_log_has_a_line_for_each_request_except_successful_probes() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = "[log]\nformat = \"json\"\naccess = true\nslow_request_ms = 0\n";
    let server = JsonServer::start(directory.path(), settings);
    let key = server.field("admin-key").to_owned();
    assert_eq!(server.status(reqwest::Method::GET, "/ready", &key).await, 200);
    assert_eq!(server.status(reqwest::Method::GET, "/v1/namespaces/x?secret=1", &key).await, 404);
    assert_eq!(server.status(reqwest::Method::GET, "/v1/config", "sb_wrong").await, 401);
    let lines = server.stop(directory.path());
    let access = with_message(&lines, "request");
    let seen: Vec<_> = access
        .iter()
        .map(|line| json!([line["fields"]["path"], line["fields"]["status"]]))
        .collect();
    assert_eq!(seen, [json!(["/v1/namespaces/x", 404]), json!(["/v1/config", 401])]);
    assert_eq!(access[0]["target"], "slateberg::access");
    assert_eq!(access[0]["fields"]["source"], "127.0.0.1");
    let principal = access[0]["fields"]["principal"].as_str().expect("a principal");
    assert_eq!(principal.len(), 36, "the id of the key: {principal}");
    assert_eq!(access[1]["fields"]["principal"], "");
    assert!(with_message(&lines, "slow request").is_empty());
}

#[tokio::test]
async fn slow_requests_are_logged_without_an_access_log() {
    let directory = tempfile::tempdir().expect("a directory");
    // These settings delay every failure, so the response to the first failure is delayed by 50 ms.
    let settings = "[log]\nformat = \"json\"\nslow_request_ms = 50\n\
                    [authn]\nfailures_before_delay = 0\n";
    let server = JsonServer::start(directory.path(), settings);
    assert_eq!(server.status(reqwest::Method::GET, "/v1/config", "sb_wrong").await, 401);
    let lines = server.stop(directory.path());
    let slow = with_message(&lines, "slow request");
    assert_eq!(slow.len(), 1, "{lines:?}");
    assert_eq!(slow[0]["level"], "WARN");
    assert!(slow[0]["fields"]["duration_ms"].as_f64().expect("a number") >= 50.0);
    assert!(with_message(&lines, "request").is_empty());
}

#[tokio::test]
async fn rejected_credentials_are_logged_with_their_reason_and_limited() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = "[log]\nformat = \"json\"\n[authn]\nfailures_before_delay = 1000\n";
    let server = JsonServer::start(directory.path(), settings);
    for _ in 0..40 {
        assert_eq!(server.status(reqwest::Method::GET, "/v1/config", "sb_wrong").await, 401);
    }
    let lines = server.stop(directory.path());
    let rejected = with_message(&lines, "credential rejected");
    assert!((10..40).contains(&rejected.len()), "{}", rejected.len());
    assert_eq!(rejected[0]["level"], "INFO");
    assert_ne!(rejected[0]["fields"]["reason"], "");
    assert_eq!(rejected[0]["fields"]["source"], "127.0.0.1");
    assert!(!rejected[0].to_string().contains("sb_wrong"));
}

#[test]
fn a_start_that_waits_for_its_storage_is_logged_with_its_step() {
    let directory = tempfile::tempdir().expect("there is room");
    // The listener accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let settings = format!(
        "[log]\nformat = \"json\"\n[state]\nurl = \"s3://bucket/state\"\nstart_seconds_max = 12\n[state.options]\n\
         aws_endpoint = {endpoint:?}\naws_allow_http = \"true\"\naws_region = \"us-east-1\"\n\
         aws_access_key_id = \"a\"\naws_secret_access_key = \"b\"\n"
    );
    fs::write(directory.path().join("slateberg.toml"), settings).expect("there is room");
    let mut child = Command::new(env!("CARGO_BIN_EXE_slateberg"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config", "slateberg.toml"])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let log = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let lines = log.lines().map_while(Result::ok);
    // Skips the error at the end of the log, which is not JSON.
    let lines: Vec<Value> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    child.wait().expect("it ends");
    let continues = with_message(&lines, "start in progress");
    let steps: Vec<_> = continues.iter().map(|line| &line["fields"]["step"]).collect();
    assert!(steps.contains(&&json!("connecting to the storage of the state")), "{lines:?}");
}
