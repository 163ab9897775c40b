//! The program: a running server, and subcommands against it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A running server with the banner that it printed. Its log is the file `log` in its directory.
/// Dropping this kills it.
pub struct Server {
    child: Child,
    /// The URL of the server.
    pub uri: String,
    /// The text that it printed before it was ready.
    pub banner: String,
}

/// Returns the program with these arguments, in a directory, without the variables of the client.
pub fn slateberg(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    for variable in ["SLATEBERG_URL", "SLATEBERG_API_KEY"] {
        command.env_remove(variable);
    }
    command
}

impl Server {
    /// Starts a server on the directory `data`.
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::start_on(directory, "data", arguments)
    }

    /// Starts a server on another data directory.
    pub fn start_on(directory: &Path, data_dir: &str, arguments: &[&str]) -> Self {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir];
        let mut command = slateberg(directory, &[&serve[..], arguments].concat());
        let log = File::create(directory.join("log")).expect("there is room");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut banner = String::new();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            banner += &line;
            banner.push('\n');
            // This word is in the last line of the snippets, which end the banner.
            if line.contains("defaultCatalog") {
                break;
            }
        }
        let (_, uri) = banner.split_once(" is ready at ").expect("the banner says where it is");
        let uri = uri.lines().next().expect("a line").to_owned();
        Self { child, uri, banner }
    }

    /// Returns the keys in the banner, each as often as it occurs.
    pub fn keys(&self) -> Vec<String> {
        let words = self.banner.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("sb_")).map(str::to_owned).collect()
    }

    /// Stops it gracefully, and waits for its end.
    pub fn stop(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.pid()]).status().expect("it runs");
        assert!(sent.success());
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Returns its process id.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Runs a subcommand against it, with a key in the environment.
    pub fn run(&self, directory: &Path, key: &str, arguments: &[&str]) -> Output {
        let mut command = slateberg(directory, arguments);
        command.env("SLATEBERG_URL", &self.uri).env("SLATEBERG_API_KEY", key);
        command.output().expect("it runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the standard output of a subcommand that succeeded.
#[track_caller]
pub fn output_text(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}
