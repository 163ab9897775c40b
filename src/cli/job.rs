//! `slateberg job`: the background jobs of a running server.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path, parse};
use super::duration::{duration, seconds};
use super::exit::Outcome;
use super::output::{Output, json_text, lines_of, principal, table, time};
use slateberg_base::rfc3339;
use slateberg_management::jobs::{self as wire, JobList, StartJobRequest, StartableJob};
use slateberg_management::manifests::{ManifestRewrite, RewriteManifestsRequest};
use slateberg_management::snapshots::{ExpireSnapshotsRequest, SnapshotExpiry};

const PATH: &str = "/management/v1/jobs";
/// Number of expired snapshots in the output.
const SNAPSHOTS_SHOWN: usize = 20;

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
    /// Show a job. If `remove-orphans` ran without --delete, also show the files that it found
    Show(JobArgs),
    /// Find the orphan files of a table, which no metadata references. With --delete, delete them
    RemoveOrphans(RemoveOrphans),
    /// List the expired snapshots of a table. With --delete, remove them and the files that only
    /// they need
    ExpireSnapshots(ExpireSnapshots),
    /// Show how many small manifests of a table can be merged. With --rewrite, merge them
    RewriteManifests(RewriteManifests),
    /// Cancel a job. It does not restore files that it has already deleted
    Cancel(JobArgs),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct JobArgs {
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
    /// Skip files that are younger than this, such as 7d or 24h [default: the server's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "older_than", value_parser = seconds)]
    older_than_seconds: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct ExpireSnapshots {
    /// Table, as table:WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    resource: String,
    /// Remove the snapshots instead of listing them
    #[arg(long)]
    delete: bool,
    /// Retain snapshots younger than this, such as 7d or 24h [default: the table property
    /// history.expire.max-snapshot-age-ms, or 5d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<Duration>,
    /// Retain at least this number of snapshots of each branch [default: the table property
    /// history.expire.min-snapshots-to-keep, or 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    retain_last: Option<u32>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct RewriteManifests {
    /// Table, as table:WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    resource: String,
    /// Merge the manifests instead of counting them
    #[arg(long)]
    rewrite: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Job {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Show(arguments) => arguments.show().await,
                Command::RemoveOrphans(removal) => removal.run().await,
                Command::ExpireSnapshots(expiry) => expiry.run().await,
                Command::RewriteManifests(rewrite) => rewrite.run().await,
                Command::Cancel(arguments) => arguments.cancel().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        self.connection.render(listed, |listed: JobList| {
            let rows: Vec<_> = listed.jobs.iter().map(row).collect();
            table(["ID", "KIND", "STATE", "FILES", "ON", "LAST ERROR"], &rows)
        })
    }
}

fn row(job: &wire::Job) -> [String; 6] {
    let mut error = job.last_error.clone().unwrap_or_default();
    if let Some((end, _)) = error.char_indices().nth(60) {
        error.truncate(end);
        error.push_str("...");
    }
    let resource = job.resource.clone().unwrap_or_default();
    [job.id.clone(), kind(job), job.state.as_str().to_owned(), files(job), resource, error]
}

fn kind(job: &wire::Job) -> String {
    let dry_run = if job.dry_run == Some(true) { " (dry run)" } else { "" };
    format!("{}{dry_run}", job.kind.as_str())
}

fn files(job: &wire::Job) -> String {
    match job.files.total {
        None => job.files.done.to_string(),
        Some(total) => format!("{}/{total}", job.files.done),
    }
}

impl JobArgs {
    async fn show(self) -> Result<String, ClientError> {
        let Self { id, connection } = self;
        let job = connection.send("GET", &child_path(PATH, &id), &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&job),
            Output::Table => lines(&parse(job)?),
        })
    }

    async fn cancel(self) -> Result<String, ClientError> {
        let Self { id, connection } = self;
        let path = format!("{}/cancel", child_path(PATH, &id));
        let job = connection.send("POST", &path, &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&job),
            Output::Table => {
                let job: wire::Job = parse(job)?;
                format!("cancelled job {id} after {} files\n", files(&job))
            }
        })
    }
}

/// Formats a job, with the name and the value of one member on each line.
fn lines(job: &wire::Job) -> String {
    let at = |at_ms: Option<i64>| at_ms.map(|at_ms| time(Some(at_ms)));
    let by = job.created_by.as_deref().map(|by| principal(by, job.created_by_name.as_deref()));
    let members = [
        ("kind", Some(kind(job))),
        ("files", Some(files(job))),
        ("kept", Some(job.files.kept.to_string())),
        ("bytes", job.files.bytes.map(|bytes| bytes.to_string())),
        ("created-by", by),
        ("id", Some(job.id.clone())),
        ("state", Some(job.state.as_str().to_owned())),
        ("resource", job.resource.clone()),
        ("older-than-seconds", job.older_than_seconds.map(|seconds| seconds.to_string())),
        ("created-at", at(Some(job.created_at_ms))),
        ("started-at", at(job.started_at_ms)),
        ("ended-at", at(job.ended_at_ms)),
        ("failures", Some(job.failures.to_string())),
        ("last-error", job.last_error.clone()),
        ("warning", job.warning.clone()),
        ("next-try-at", at(job.next_try_at_ms)),
    ];
    let members = members.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let found = job.found.iter().flatten().map(|file| ["found".to_owned(), file.clone()]);
    lines_of(&members.chain(found).collect::<Vec<_>>())
}

impl RemoveOrphans {
    async fn run(self) -> Result<String, ClientError> {
        let Self { resource, delete, older_than, older_than_seconds, connection } = self;
        let request = StartJobRequest {
            kind: StartableJob::OrphanRemoval,
            resource,
            dry_run: !delete,
            older_than_seconds: older_than.or(older_than_seconds).map(|age| age.as_secs()),
        };
        let job = connection.send("POST", PATH, &body(&request)?).await?;
        Ok(match connection.output {
            Output::Json => json_text(&job),
            Output::Table => {
                let wire::Job { id, .. } = parse(job)?;
                format!("Started job {id}. Follow it with: slateberg job show {id}\n")
            }
        })
    }
}

impl ExpireSnapshots {
    async fn run(self) -> Result<String, ClientError> {
        let Self { resource, delete, older_than, retain_last, connection } = self;
        let request = ExpireSnapshotsRequest {
            resource,
            dry_run: !delete,
            older_than_seconds: older_than.map(|age| age.as_secs()),
            retain_last,
        };
        let path = "/management/v1/snapshots/expire";
        let expired = connection.send("POST", path, &body(&request)?).await?;
        connection.render(expired, |expired| expiry_text(&expired, delete))
    }
}

impl RewriteManifests {
    async fn run(self) -> Result<String, ClientError> {
        let Self { resource, rewrite, connection } = self;
        let request = RewriteManifestsRequest { resource, dry_run: !rewrite };
        let path = "/management/v1/manifests/rewrite";
        let rewritten = connection.send("POST", path, &body(&request)?).await?;
        connection.render(rewritten, |rewritten| rewrite_text(&rewritten, rewrite))
    }
}

/// Formats the result of a rewrite of manifests.
fn rewrite_text(rewritten: &ManifestRewrite, rewrite: bool) -> String {
    let ManifestRewrite {
        snapshot_id,
        manifests_created: created,
        manifests_kept: kept,
        manifests_replaced: replaced,
        entries_processed: entries,
    } = rewritten;
    if *replaced == 0 {
        return format!("Nothing to rewrite: {kept} manifests remain\n");
    }
    let (verb, about) = if rewrite { ("Merged", "") } else { ("Would merge", "about ") };
    let into = format!("{replaced} manifests with {entries} files into {about}{created}");
    let snapshot = snapshot_id.map(|id| format!("The new snapshot is {id}\n")).unwrap_or_default();
    format!("{verb} {into}; {kept} manifests remain\n{snapshot}")
}

/// Formats the snapshots that expired or would expire.
fn expiry_text(expiry: &SnapshotExpiry, delete: bool) -> String {
    let SnapshotExpiry { snapshots, refs, remaining, job } = expiry;
    if snapshots.is_empty() && refs.is_empty() {
        return format!("Nothing has expired: {remaining} snapshots remain\n");
    }
    let verb = if delete { "Removed" } else { "Would remove" };
    let mut lines = format!("{verb} {} snapshots; {remaining} remain\n", snapshots.len());
    if !refs.is_empty() {
        lines.push_str(&format!("{verb} the branches and tags: {}\n", refs.join(", ")));
    }
    if let Some(id) = job {
        lines.push_str(&format!(
            "Job {id} deletes their files. Follow it with: slateberg job show {id}\n"
        ));
    }
    if delete {
        return lines;
    }
    let shown = snapshots.iter().rev().take(SNAPSHOTS_SHOWN);
    let rows: Vec<_> = shown
        .map(|it| [it.snapshot_id.to_string(), rfc3339::format_seconds(it.timestamp_ms)])
        .collect();
    lines.push_str(&table(["SNAPSHOT", "CREATED"], &rows));
    if let Some(more) = snapshots.len().checked_sub(SNAPSHOTS_SHOWN + 1) {
        lines.push_str(&format!("and {} older ones (--output json lists all)\n", more + 1));
    }
    lines
}
