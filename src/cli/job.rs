//! `slateberg job`: the background jobs of a running server.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask_server;
use super::client::{ClientError, Connection, below};
use super::duration::{duration, seconds};
use super::exit::Outcome;
use super::output::{Output, json_text, lines_of, principal, table, text, time};

const PATH: &str = "/management/v1/jobs";

/// List, show, start and cancel background jobs.
#[derive(Debug, Args)]
pub struct Job {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the jobs that you may see, unfinished ones first
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a job and the findings of a dry run
    Show(One),
    /// List files under a table's location that no metadata references
    RemoveOrphans(RemoveOrphans),
    /// Cancel a job. Files already deleted stay deleted
    Cancel(One),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct One {
    /// ID of the job, as `list` prints it
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct RemoveOrphans {
    /// Table, as table:WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    resource: String,
    /// Delete the files instead of listing them
    #[arg(long)]
    delete: bool,
    /// Keep files younger than this, such as 7d or 24h [default: the server's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "older_than", value_parser = seconds)]
    older_than_seconds: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

impl Job {
    /// Runs the subcommand and prints the result.
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
            return Ok(json_text(&listed));
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
            Output::Json => json_text(&job),
            Output::Table => lines(&job),
        })
    }

    async fn cancel(self) -> Result<String, ClientError> {
        let Self { id, connection } = self;
        let path = format!("{}/cancel", below(PATH, &id));
        let job = connection.send("POST", &path, &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&job),
            Output::Table => format!("cancelled job {id} after {} files\n", files(&job)),
        })
    }
}

/// A job as lines of a name and a value.
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
    if job["created-by"].is_string() {
        let by = principal(&job["created-by"], &job["created-by-name"]);
        add("created-by", &Value::String(by));
    }
    for name in [
        "id",
        "state",
        "resource",
        "older-than-seconds",
        "created-at-ms",
        "started-at-ms",
        "ended-at-ms",
        "failures",
        "last-error",
        "next-try-at-ms",
        "found",
    ] {
        match (name.strip_suffix("-ms"), &job[name]) {
            (Some(name), at_ms @ Value::Number(_)) => add(name, &Value::from(time(at_ms))),
            (_, value) => add(name, value),
        }
    }
    lines_of(&rows)
}

impl RemoveOrphans {
    async fn run(self) -> Result<String, ClientError> {
        let Self { resource, delete, older_than, older_than_seconds, connection } = self;
        let mut body =
            json!({ "kind": "orphan-removal", "resource": resource, "dry-run": !delete });
        if let Some(age) = older_than.or(older_than_seconds) {
            body["older-than-seconds"] = json!(age.as_secs());
        }
        let job = connection.send("POST", PATH, &body).await?;
        Ok(match connection.output {
            Output::Json => json_text(&job),
            Output::Table => {
                let id = text(&job["id"]);
                format!("Started job {id}. Follow it with: slateberg job show {id}\n")
            }
        })
    }
}
