//! Tests of the load generator: runs every scenario with small numbers against a server in memory
//! and against a server that is not a catalog.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Sizes that keep every step short.
const TINY: &str = "--iterations 5 --slow-iterations 2 --rounds 2 --seconds 0.01 \
     --warm-up-seconds 0.005 --connections 2 --clients 3 --snapshots 4 --load-snapshots 2 \
     --append-snapshots 3 --tables 7,9 --page 4 --keys 20 --columns 3";

fn bench(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg-bench"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

/// A server process. Dropping this value kills it.
struct RunningServer {
    child: Child,
    url: String,
}

impl RunningServer {
    fn start(arguments: &str) -> Self {
        let child = bench(arguments).stdout(Stdio::piped()).spawn();
        let mut server = Self { child: child.expect("the server starts"), url: String::new() };
        let stdout = server.child.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.find("http://").map(|at| line[at..].to_owned()));
        server.url = url.expect("the server prints its URL");
        server
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a subcommand that writes lines of JSON, and parses them.
fn run_bench(arguments: &str, directory: &Path) -> (Vec<Value>, String) {
    let file = directory.join("results.json");
    let output = bench(arguments).arg("--json").arg(&file).output().expect("the program starts");
    let terminal_output =
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{terminal_output}");
    let text = std::fs::read_to_string(&file).expect("the results were written");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
    (lines.collect(), terminal_output)
}

#[test]
fn every_scenario_is_measured_on_every_server() {
    let directory = tempfile::tempdir().expect("there is room");
    let ours = RunningServer::start(
        "serve --memory --latency-ms 1 --stall-percent 4 --stall-ms 60 --stall-response \
         --listen 127.0.0.1:0 --insecure-no-auth",
    );
    // The server `none` responds to `GET /v1/config` and has no other endpoint of a catalog.
    let none = RunningServer::start(&format!("bare-read --like {}/v1/config", ours.url));
    let scenarios =
        ["operations", "load-table", "commit", "commit-one", "append-one", "kv", "scale"];
    let scenario_arguments: String =
        scenarios.iter().map(|it| format!(" --scenario {it}")).collect();
    let servers =
        format!("--server ours={},pid={} --server none={}", ours.url, ours.child.id(), none.url);
    let arguments = format!("run {servers}{scenario_arguments} --bare {TINY}");
    let (lines, terminal_output) = run_bench(&arguments, directory.path());

    let of = |server: &'static str| lines.iter().filter(move |line| line["server"] == server);
    let seen: BTreeSet<_> = of("ours").filter_map(|line| line["scenario"].as_str()).collect();
    assert_eq!(seen, BTreeSet::from(scenarios));
    for line in of("ours") {
        assert!(line["requests"].as_u64() > Some(0), "{line}");
        assert_eq!(line["failures"], 0, "{line}");
        for figure in ["throughput", "p50_us", "peak_mib", "rss_mib"] {
            assert!(line[figure].as_f64() > Some(0.0), "{figure}: {line}");
        }
    }
    // The clock of the CPU time ticks every 10 ms, and a short measurement can take less.
    let cpu = of("ours").filter_map(|line| line["cpu_us_per_request"].as_f64());
    assert!(cpu.sum::<f64>() > 0.0);
    let is_append = |line: &&Value| {
        let operation = line["parameter"]["operation"].as_str();
        operation.is_some_and(|operation| operation.starts_with("commit_append"))
    };
    for line in of("ours").filter(is_append) {
        assert_eq!(
            (&line["extra"]["lost"], &line["extra"]["untrue_refusals"]),
            (&0.into(), &0.into())
        );
        let snapshots = line["extra"]["snapshots"].as_u64();
        assert!(snapshots >= line["requests"].as_u64(), "{line}");
    }
    let rounds = |operation: &str| {
        of("ours").filter(|line| line["parameter"]["operation"] == operation).count()
    };
    assert_eq!((rounds("create_table"), rounds("commit_append_gzip"), rounds("grow")), (2, 2, 2));
    assert!(of("bare handler").any(|line| line["scenario"] == "load-table"), "{terminal_output}");
    let unsupported = of("none").find(|line| line["parameter"]["operation"] == "create_namespace");
    let why = unsupported.expect("the step was tried")["not_supported"].to_string();
    assert!(why.contains("405"), "{why}");
    assert!(terminal_output.contains("x p50"), "{terminal_output}");
}

#[test]
fn connections_to_a_cluster_use_all_urls() {
    let directory = tempfile::tempdir().expect("there is room");
    let ours = RunningServer::start("serve --memory --listen 127.0.0.1:0 --insecure-no-auth");
    let none = RunningServer::start(&format!("bare-read --like {}/v1/config", ours.url));
    let (ours, none) = (&ours.url, &none.url);
    let servers = format!("--server cluster={ours}+{ours} --server half={ours}+{none}");
    let (lines, _) =
        run_bench(&format!("run {servers} --scenario cluster-kv {TINY}"), directory.path());

    let of = |server: &'static str| lines.iter().filter(move |line| line["server"] == server);
    let operations: BTreeSet<_> =
        of("cluster").filter_map(|line| line["parameter"]["operation"].as_str()).collect();
    assert!(operations.contains("seq_put") && operations.contains("par_get_stale"));
    assert!(of("cluster").all(|line| line["failures"] == 0), "{lines:?}");
    // The preparation of each step fails, because the second server supports no changes.
    let unsupported = of("half").filter(|line| line["not_supported"].is_string()).count();
    assert_eq!((unsupported, of("half").count()), (operations.len(), operations.len()));
}

#[test]
fn bare_put_deletes_its_objects() {
    let directory = tempfile::tempdir().expect("there is room");
    let store = directory.path().join("store");
    std::fs::create_dir(&store).expect("the directory can be created");
    let arguments = format!(
        "bare-put --store file://{} --bytes 100 --iterations 5 --latency-ms 2 --rounds 1",
        store.display()
    );
    let (lines, _) = run_bench(&arguments, directory.path());
    assert_eq!((lines.len(), &lines[0]["requests"]), (1, &5.into()));
    assert!(lines[0]["p50_us"].as_f64() >= Some(2000.0), "{}", lines[0]);
    let files = std::fs::read_dir(&store).expect("the directory can be read").flatten();
    let left: usize =
        files.map(|folder| std::fs::read_dir(folder.path()).expect("a folder").count()).sum();
    assert_eq!(left, 0);
}
