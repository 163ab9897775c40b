//! [`Server`]: the real binary on a directory, or on a bucket if configured, started and killed.
#![allow(dead_code, reason = "each test crate uses only a part of this module")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::bucket::server_environment;

/// Time limit for a server to start, or for a process to end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server. Dropping this kills it.
pub struct Server {
    child: Child,
    /// Its URL: `http://127.0.0.1:PORT`.
    pub uri: String,
}

/// Returns the command in a directory without settings.
fn slateberg(data_dir: &Path, subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    command.args(subcommand.split(' ')).arg("--data-dir").arg(data_dir).current_dir(data_dir);
    command.envs(server_environment(data_dir));
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

fn serving(data_dir: &Path) -> Command {
    let mut command = serving_secured(data_dir);
    command.arg("--insecure-no-auth");
    command
}

fn serving_secured(data_dir: &Path) -> Command {
    let mut command = slateberg(data_dir, "serve");
    command.args(["--listen", "127.0.0.1:0"]);
    command
}

impl Server {
    /// Starts a server, and waits until it reports that it is ready.
    pub fn start(data_dir: &Path) -> Self {
        Self::spawn_server(serving(data_dir), data_dir).0
    }

    /// Like [`start`](Self::start), with additional environment variables.
    pub fn start_with(data_dir: &Path, environment: &[(&str, &str)]) -> Self {
        let mut command = serving(data_dir);
        command.envs(environment.iter().copied());
        Self::spawn_server(command, data_dir).0
    }

    /// Like [`start`](Self::start), with a limit of open files that it cannot raise.
    pub fn start_with_open_files(
        data_dir: &Path,
        open_files_max: u32,
        environment: &[(&str, &str)],
    ) -> Self {
        let requested = serving(data_dir);
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -n {open_files_max}; exec \"$0\" \"$@\""));
        command.arg(requested.get_program()).args(requested.get_args()).current_dir(data_dir);
        let set = requested.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set).envs(environment.iter().copied()).stdin(Stdio::null());
        Self::spawn_server(command, data_dir).0
    }

    /// Starts a server that requires credentials. Also returns the admin key if it printed one.
    pub fn start_secured(data_dir: &Path) -> (Self, Option<String>) {
        Self::spawn_server(serving_secured(data_dir), data_dir)
    }

    fn spawn_server(mut command: Command, data_dir: &Path) -> (Self, Option<String>) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(data_dir.join("test-server.log"))
            .expect("the log can be written");
        let child = command.stdout(Stdio::piped()).stderr(log).spawn();
        let mut server =
            Self { child: child.expect("the server can be started"), uri: String::new() };
        let stdout = server.child.stdout.take().expect("stdout is piped");
        let (ready, is_ready) = std::sync::mpsc::channel();
        // The thread ends with the server, whose end closes the pipe.
        std::thread::spawn(move || {
            let mut found = None;
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, uri)) = line.split_once(" is ready at ") {
                    found = Some(uri.trim().to_owned());
                }
                // A standby of a cluster has no line about access: its last line is about the cluster.
                let last = ["access ", "cluster "];
                let is_last = last.iter().any(|start| line.trim().starts_with(start));
                if let (Some(uri), true) = (&found, is_last) {
                    let key =
                        line.split_once("admin key ").filter(|(_, key)| key.starts_with("sb_"));
                    let key = key.map(|(_, key)| key.trim().to_owned());
                    let _ = ready.send((uri.clone(), key));
                }
            }
        });
        match is_ready.recv_timeout(TIMEOUT) {
            Ok((uri, key)) => {
                server.uri = uri;
                (server, key)
            }
            Err(error) => {
                let log = std::fs::read_to_string(data_dir.join("test-server.log"));
                panic!("the server did not start: {error}\n{}", log.unwrap_or_default());
            }
        }
    }

    /// Starts a server and kills it soon after, at an arbitrary point of its start.
    pub fn start_and_kill(data_dir: &Path, after: Duration) {
        let child = serving(data_dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("the server can be started");
        std::thread::sleep(after);
        Self { child, uri: String::new() }.kill();
    }

    /// Returns its process id.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Sends `kill -9` immediately.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Sends a termination signal.
    pub fn terminate(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill is there").success(), "SIGTERM is sent");
    }

    /// Stops the server in an orderly way.
    #[track_caller]
    pub fn stop(self) {
        self.terminate();
        assert_eq!(self.wait_for_exit().code(), Some(0));
    }

    /// Waits until the server has ended by itself.
    pub fn wait_for_exit(mut self) -> ExitStatus {
        wait_for_exit(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let since = Instant::now();
    while since.elapsed() < TIMEOUT {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("the process did not end within {TIMEOUT:?}");
}

/// Runs `slateberg fsck`. Returns its exit code and output.
pub fn fsck(data_dir: &Path) -> (Option<i32>, String) {
    exit_code_and_output(slateberg(data_dir, "fsck").output().expect("fsck can be started"))
}

/// Runs another subcommand. Returns its exit code and output.
pub fn run(data_dir: &Path, subcommand: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = slateberg(data_dir, subcommand);
    exit_code_and_output(command.args(arguments).output().expect("it can be started"))
}

/// Starts a subcommand and kills it soon after, at an arbitrary point.
pub fn run_and_kill(data_dir: &Path, subcommand: &str, arguments: &[&str], after: Duration) {
    let mut command = slateberg(data_dir, subcommand);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("it can be started");
    std::thread::sleep(after);
    // The process may have ended by itself.
    drop(Server { child, uri: String::new() });
}

/// Starts a server that must fail. Returns its exit code and output.
pub fn serve_expecting_failure(data_dir: &Path) -> (Option<i32>, String) {
    serve_expecting_failure_with(data_dir, &[])
}

/// Like [`serve_expecting_failure`], with additional environment variables.
pub fn serve_expecting_failure_with(
    data_dir: &Path,
    environment: &[(&str, &str)],
) -> (Option<i32>, String) {
    let mut command = serving(data_dir);
    command.envs(environment.iter().copied());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the server can be started");
    wait_for_exit(&mut child);
    exit_code_and_output(child.wait_with_output().expect("it has ended"))
}

fn exit_code_and_output(output: Output) -> (Option<i32>, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Asserts that `slateberg fsck` reports no problem.
pub fn assert_sound(data_dir: &Path, when: &str) {
    let (code, output_text) = fsck(data_dir);
    assert_eq!(code, Some(0), "fsck {when}: {output_text}");
}
