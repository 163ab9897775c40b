//! `slateberg restore`: restores the catalog to a checkpoint.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::arguments::Common;
use super::exit::Outcome;
use super::exit::walk_outcome;
use super::ls::joined;
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, grouped, json_text, table};
use super::progress::progress;
use slateberg_base::progress::Progress;
use slateberg_base::rfc3339;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline_writer::{OfflineError, OfflineWriter, RestoreTarget, Restored};
use slateberg_runtime::preview::{check_unused, preview};
use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::restore::{Counts, Object, ObjectKind, Objects, RestoreSummary};
use uuid::Uuid;

/// Maximum number of objects per kind of change in the printed table. JSON contains all objects.
const NAMES_MAX: usize = 50;

/// Restore the catalog to a checkpoint. Without --yes, only print the changes, which also works
/// while the server runs.
#[derive(Debug, Args)]
pub struct Restore {
    /// Name or ID of a checkpoint, or a time such as 2026-11-22T05:04:21Z, which selects the newest
    /// checkpoint up to that time
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    to: String,
    /// Apply the changes instead of only printing them. The server must be stopped
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Restore {
    /// Restores the catalog and prints the changes. Without `--yes`, only prints them.
    pub fn run(self) -> Outcome {
        self.common.run_offline(async |settings| self.run_offline(settings).await)
    }

    async fn run_offline(&self, settings: &Settings) -> Outcome {
        let selector = RestoreTarget::parse(&self.to);
        let progress = progress();
        if self.yes {
            check_unused(settings)?;
        }
        // Opening a store in a bucket fences its server. Therefore, find the checkpoint before
        // that, and fail if it does not exist.
        let (to, summary) =
            preview(settings, &Dependencies::default(), &selector, &progress).await?;
        if !self.yes {
            print(&self.preview_text(&to, &summary));
            return Ok(ExitCode::SUCCESS);
        }
        let restored = restore(settings, &selector, &progress).await?;
        print(&self.result_text(&restored));
        walk_outcome(&restored.report)
    }

    fn preview_text(&self, to: &Checkpoint, summary: &RestoreSummary) -> String {
        if self.output == Output::Json {
            return json_text(&Report::of_preview(to, summary));
        }
        format!(
            "checkpoint {}\n\n{}\nDry run: nothing was changed. Stop the server and add --yes to apply the changes.\n",
            checkpoint_label(to),
            changes(summary)
        )
    }

    fn result_text(&self, restored: &Restored) -> String {
        let Restored { to, undo, summary, report } = restored;
        if self.output == Output::Json {
            return json_text(&Report {
                done: true,
                undo: Some(CheckpointName::new(undo)),
                broken: Some(&report.broken),
                ..Report::of_preview(to, summary)
            });
        }
        let broken: String = report.broken.iter().map(|it| format!("broken: {it}\n")).collect();
        format!(
            "restored to checkpoint {}\n\n{}\n{broken}{}\n\
             To undo the restore: slateberg restore --yes --to {}\n",
            checkpoint_label(to),
            changes(summary),
            report.summary(),
            undo.name.as_deref().unwrap_or_default()
        )
    }
}

async fn restore(
    settings: &Settings,
    selector: &RestoreTarget,
    progress: &Progress,
) -> Result<Restored, OfflineError> {
    let opening = progress.phase("opening the store", None);
    let catalog = OfflineWriter::open(settings, &Dependencies::default()).await?;
    drop(opening);
    let restored = catalog.restore(selector, progress).await;
    let closed = catalog.close().await;
    let restored = restored?;
    closed.map(|()| restored)
}

fn checkpoint_label(checkpoint: &Checkpoint) -> String {
    let name = checkpoint.name_or_id();
    format!("{name} of {}", rfc3339::format(checkpoint.created_ms))
}

/// The changes of a restore as printed JSON.
#[derive(Serialize)]
struct Report<'a> {
    /// Whether the changes were applied.
    done: bool,
    to: CheckpointName<'a>,
    /// The checkpoint that undoes the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<CheckpointName<'a>>,
    changes: Changes<'a>,
    /// Broken invariants of the restored state.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<&'a [String]>,
}

impl<'a> Report<'a> {
    /// Changes that were not applied.
    fn of_preview(to: &'a Checkpoint, summary: &'a RestoreSummary) -> Self {
        let (to, changes) = (CheckpointName::new(to), Changes::new(summary));
        Self { done: false, to, undo: None, changes, broken: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CheckpointName<'a> {
    id: Uuid,
    name: Option<&'a str>,
    created_at_ms: i64,
}

impl<'a> CheckpointName<'a> {
    fn new(checkpoint: &'a Checkpoint) -> Self {
        Self {
            id: checkpoint.id,
            name: checkpoint.name.as_deref(),
            created_at_ms: checkpoint.created_ms,
        }
    }
}

/// Counts per kind, and the names of all objects.
#[derive(Serialize)]
struct Changes<'a> {
    #[serde(flatten)]
    counts: &'a RestoreSummary,
    objects: ChangedObjects,
}

#[derive(Serialize)]
struct ChangedObjects {
    restored: Vec<ObjectName>,
    changed: Vec<ObjectName>,
    removed: Vec<ObjectName>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ObjectName {
    kind: ObjectKind,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_from: Option<String>,
}

impl<'a> Changes<'a> {
    fn new(summary: &'a RestoreSummary) -> Self {
        let named = |objects: &[Object]| objects.iter().map(ObjectName::new).collect();
        let Objects { restored, changed, removed } = &summary.objects;
        let objects = ChangedObjects {
            restored: named(restored),
            changed: named(changed),
            removed: named(removed),
        };
        Self { counts: summary, objects }
    }
}

impl ObjectName {
    fn new(object: &Object) -> Self {
        Self {
            kind: object.kind,
            name: joined(&object.name),
            renamed_from: object.renamed_from.as_deref().map(joined),
        }
    }
}

/// Formats counts per kind, and the first names per kind of change.
fn changes(summary: &RestoreSummary) -> String {
    let row = |what: &str, counts: Counts| {
        let counts = [counts.restored, counts.changed, counts.removed];
        let [restored, changed, removed] = counts.map(|count| grouped(count as u64));
        [what.to_owned(), restored, changed, removed]
    };
    let rows = [
        row("warehouses", summary.warehouses),
        row("namespaces", summary.namespaces),
        row("tables", summary.tables),
        row("views", summary.views),
        row("functions", summary.functions),
        row("policies", summary.policies),
        row("grants", summary.grants),
    ];
    let mut text = table(["", "RESTORED", "CHANGED", "REMOVED"], &rows);
    let Objects { restored, changed, removed } = &summary.objects;
    for (heading, objects) in [("RESTORED", restored), ("CHANGED", changed), ("REMOVED", removed)] {
        text += &names(heading, objects);
    }
    if summary.purged > 0 {
        text += &format!(
            "\nRestored tables that were purged after the checkpoint: {}. Their data files may be missing.\n",
            grouped(summary.purged as u64)
        );
    }
    if summary.is_empty() {
        text += "\nNo changes.\n";
    }
    text
}

fn names(heading: &str, objects: &[Object]) -> String {
    if objects.is_empty() {
        return String::new();
    }
    let row = |object: &Object| {
        let kind = json!(object.kind).as_str().unwrap_or_default().to_owned();
        let renamed = object.renamed_from.as_ref();
        let renamed = renamed.map(|before| format!(" (now {})", joined(before)));
        [kind, joined(&object.name) + &renamed.unwrap_or_default()]
    };
    let rows: Vec<_> = objects.iter().take(NAMES_MAX).map(row).collect();
    let mut text = format!("\n{}", table([heading, ""], &rows));
    let more = objects.len() - rows.len();
    if more > 0 {
        text += &format!("and {} more\n", grouped(more as u64));
    }
    text
}
