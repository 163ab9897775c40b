//! `slateberg restore`: restores the catalog to a checkpoint.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::Common;
use super::exit::Outcome;
use super::exit::walked;
use super::ls::joined;
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, grouped, json_text, table};
use super::progress::progress;
use slateberg_base::progress::Progress;
use slateberg_base::rfc3339;
use slateberg_config::Settings;
use slateberg_runtime::preview::{check_unused, preview};
use slateberg_runtime::seams::Seams;
use slateberg_runtime::stopped::{Restored, StoppedCatalog, StoppedError, Wanted};
use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::restore::{Counts, Object, Objects, Told};

/// Maximum number of objects per kind of change in the table. JSON contains all of them.
const NAMES_MAX: usize = 50;

/// Restore the catalog to a checkpoint. Without --yes, only print the changes, also while a server
/// runs.
#[derive(Debug, Args)]
pub struct Restore {
    /// Checkpoint (name or id), or a time such as 2026-11-22T05:04:21Z for the newest checkpoint up
    /// to then
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    to: String,
    /// Apply the changes. No server may run
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
        self.common.work(async |settings| self.work(settings).await)
    }

    async fn work(&self, settings: &Settings) -> Outcome {
        let wanted = Wanted::parse(&self.to);
        let progress = progress();
        if self.yes {
            check_unused(settings)?;
        }
        // Opening a store in a bucket fences its server. Therefore look for the checkpoint first,
        // and report a missing one.
        let (to, told) = preview(settings, &Seams::default(), &wanted, &progress).await?;
        if !self.yes {
            print(&self.foretold(&to, &told));
            return Ok(ExitCode::SUCCESS);
        }
        let done = restore(settings, &wanted, &progress).await?;
        print(&self.told(&done));
        walked(&done.report)
    }

    fn foretold(&self, to: &Checkpoint, told: &Told) -> String {
        if self.output == Output::Json {
            let told = json!({ "done": false, "to": shown(to), "changes": changes_json(told) });
            return json_text(&told);
        }
        format!(
            "checkpoint {}\n\n{}\nDry run: nothing was changed. Stop the server and add --yes to apply the changes.\n",
            called(to),
            changes(told)
        )
    }

    fn told(&self, done: &Restored) -> String {
        let Restored { to, undo, told, report } = done;
        if self.output == Output::Json {
            let told = json!({
                "done": true, "to": shown(to), "undo": shown(undo), "changes": changes_json(told),
                "broken": report.broken,
            });
            return json_text(&told);
        }
        let broken: String = report.broken.iter().map(|it| format!("broken: {it}\n")).collect();
        format!(
            "restored to checkpoint {}\n\n{}\n{broken}{}\n\
             To undo the restore: slateberg restore --yes --to {}\n",
            called(to),
            changes(told),
            report.summary(),
            undo.name.as_deref().unwrap_or_default()
        )
    }
}

async fn restore(
    settings: &Settings,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<Restored, StoppedError> {
    let opening = progress.phase("opening the store", None);
    let catalog = StoppedCatalog::open(settings, &Seams::default()).await?;
    drop(opening);
    let done = catalog.restore(wanted, progress).await;
    let closed = catalog.close().await;
    let done = done?;
    closed.map(|()| done)
}

fn shown(checkpoint: &Checkpoint) -> Value {
    json!({
        "id": checkpoint.id,
        "name": checkpoint.name,
        "created-at-ms": checkpoint.created_ms,
    })
}

fn called(checkpoint: &Checkpoint) -> String {
    let name = checkpoint.called();
    format!("{name} of {}", rfc3339::format(checkpoint.created_ms))
}

/// Renders counts per kind and the names of all objects as JSON.
fn changes_json(told: &Told) -> Value {
    let mut changes = json!(told);
    let named = |objects: &[Object]| -> Vec<Value> {
        let object = |object: &Object| {
            let mut value = json!({ "kind": object.kind, "name": joined(&object.name) });
            if let Some(before) = &object.renamed_from {
                value["renamed-from"] = joined(before).into();
            }
            value
        };
        objects.iter().map(object).collect()
    };
    let Objects { restored, changed, removed } = &told.objects;
    changes["objects"] = json!({
        "restored": named(restored), "changed": named(changed), "removed": named(removed),
    });
    changes
}

/// Formats counts per kind, and the first names per kind of change.
fn changes(told: &Told) -> String {
    let row = |what: &str, counts: Counts| {
        let counts = [counts.restored, counts.changed, counts.removed];
        let [restored, changed, removed] = counts.map(|count| grouped(count as u64));
        [what.to_owned(), restored, changed, removed]
    };
    let rows = [
        row("warehouses", told.warehouses),
        row("namespaces", told.namespaces),
        row("tables", told.tables),
        row("views", told.views),
        row("policies", told.policies),
        row("grants", told.grants),
    ];
    let mut text = table(["", "RESTORED", "CHANGED", "REMOVED"], &rows);
    let Objects { restored, changed, removed } = &told.objects;
    for (heading, objects) in [("RESTORED", restored), ("CHANGED", changed), ("REMOVED", removed)] {
        text += &names(heading, objects);
    }
    if told.purged > 0 {
        text += &format!(
            "\nPurged since, of the restored tables: {}. Their data files may be gone.\n",
            grouped(told.purged as u64)
        );
    }
    if told.is_empty() {
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
