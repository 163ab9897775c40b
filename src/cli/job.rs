//! `slateberg job`: the background jobs of a running server.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask_server;
use super::client::{ClientError, Connection, below};
use super::exit::Outcome;
use super::output::{Output, table, text};

const PATH: &str = "/management/v1/jobs";

/// List, show, start and cancel background jobs of a running server.
#[derive(Debug, Args)]
pub struct Job {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the jobs that one may see: those that have not ended first
    List(List),
    /// Show one, and what a dry run has found
    Show(One),
    /// Tell which files at a table's location no metadata leads to; with --delete, delete them
    RemoveOrphans(RemoveOrphans),
    /// Cancel one: what is deleted is gone, the rest stays
    Cancel(One),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct One {
    /// Its id
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct RemoveOrphans {
    /// The table, as table:WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    resource: String,
    /// Delete them, and do not only tell which they are
    #[arg(long)]
    delete: bool,
    /// Leave files that are younger [default: what the server says]
    #[arg(long, value_name = "SECONDS")]
    older_than_seconds: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

impl Job {
    /// Does it, and says what came of it.
    pub fn run(self) -> Outcome {
        ask_server(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Show(one) => one.show().await,
                Command::RemoveOrphans(wanted) => wanted.run().await,
                Command::Cancel(one) => one.cancel().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        if self.connection.output == Output::Json {
            return Ok(format!("{listed:#}\n"));
        }
        let rows: Vec<_> = listed["jobs"].as_array().into_iter().flatten().map(row).collect();
        Ok(table(["ID", "KIND", "STATE", "FILES", "ON", "LAST ERROR"], &rows))
    }
}

fn row(job: &Value) -> [String; 6] {
    let mut error = text(&job["last-error"]);
    if let Some((end, _)) = error.char_indices().nth(60) {
        error.truncate(end);
        error.push_str("...");
    }
    [text(&job["id"]), kind(job), text(&job["state"]), files(job), text(&job["resource"]), error]
}

fn kind(job: &Value) -> String {
    let dry_run = if job["dry-run"] == true { " (dry run)" } else { "" };
    format!("{}{dry_run}", text(&job["kind"]))
}

fn files(job: &Value) -> String {
    let files = &job["files"];
    match &files["total"] {
        Value::Null => files["done"].to_string(),
        total => format!("{}/{total}", files["done"]),
    }
}

impl One {
    async fn show(self) -> Result<String, ClientError> {
        let Self { id, connection } = self;
        let job = connection.send("GET", &below(PATH, &id), &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => format!("{job:#}\n"),
            Output::Table => lines(&job),
        })
    }

    async fn cancel(self) -> Result<String, ClientError> {
        let Self { id, connection } = self;
        let path = format!("{}/cancel", below(PATH, &id));
        let job = connection.send("POST", &path, &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => format!("{job:#}\n"),
            Output::Table => format!("cancelled job {id} after {} files\n", files(&job)),
        })
    }
}

/// All of a job, in lines of a name and a value.
fn lines(job: &Value) -> String {
    let mut rows = vec![["kind".to_owned(), kind(job)], ["files".to_owned(), files(job)]];
    let mut add = |name: &str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => rows.push([name.to_owned(), text.clone()]),
        Value::Array(all) => rows.extend(all.iter().map(|one| [name.to_owned(), text(one)])),
        other => rows.push([name.to_owned(), other.to_string()]),
    };
    add("kept", &job["files"]["kept"]);
    add("bytes", &job["files"]["bytes"]);
    for name in [
        "id",
        "state",
        "resource",
        "older-than-seconds",
        "created-by",
        "created-at-ms",
        "started-at-ms",
        "ended-at-ms",
        "failures",
        "last-error",
        "next-try-at-ms",
        "found",
    ] {
        add(name, &job[name]);
    }
    table(["", ""], &rows).lines().skip(1).map(|line| format!("{line}\n")).collect()
}

impl RemoveOrphans {
    async fn run(self) -> Result<String, ClientError> {
        let Self { resource, delete, older_than_seconds, connection } = self;
        let mut body =
            json!({ "kind": "orphan-removal", "resource": resource, "dry-run": !delete });
        if let Some(seconds) = older_than_seconds {
            body["older-than-seconds"] = json!(seconds);
        }
        let job = connection.send("POST", PATH, &body).await?;
        Ok(match connection.output {
            Output::Json => format!("{job:#}\n"),
            Output::Table => {
                let id = text(&job["id"]);
                format!("started job {id}: slateberg job show {id} tells what comes of it\n")
            }
        })
    }
}
