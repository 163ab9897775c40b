//! `slateberg restore`: restores the catalog to a checkpoint, while no server uses it.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::exit::Outcome;
use super::output::{GLOBAL, OUTPUT_HELP, Output, json_text, table};
use super::{Common, print, walked};
use crate::app::build::Seams;
use crate::app::stopped::{Restored, StoppedCatalog, StoppedError, Wanted, preview};
use crate::config::Settings;
use slateberg_base::rfc3339;
use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::restore::{Counts, Told};

/// Restore the catalog to a checkpoint, while no server uses it. Without --yes, only print the changes.
#[derive(Debug, Args)]
pub struct Restore {
    /// Checkpoint (name or id), or a time such as 2026-11-22T05:04:21Z for the newest checkpoint up to then
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    to: String,
    /// Apply the changes instead of only printing them
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Restore {
    /// Does it, and says what has changed; or says what would.
    pub fn run(self) -> Outcome {
        self.common.work(async |settings| self.work(settings).await)
    }

    async fn work(&self, settings: &Settings) -> Outcome {
        let wanted = Wanted::parse(&self.to);
        // A checkpoint that is not there, or a plan that cannot be made, is found out without taking the
        // store.
        let (to, told) = preview(settings, &Seams::default(), &wanted).await?;
        if !self.yes {
            print(&self.foretold(&to, &told));
            return Ok(ExitCode::SUCCESS);
        }
        let done = restore(settings, &wanted).await?;
        print(&self.told(&done));
        walked(&done.report)
    }

    fn foretold(&self, to: &Checkpoint, told: &Told) -> String {
        if self.output == Output::Json {
            let told = json!({ "done": false, "to": shown(to), "changes": told });
            return json_text(&told);
        }
        format!(
            "checkpoint {}\n\n{}\nNothing was changed. Stop the server, and say --yes to restore.\n",
            called(to),
            changes(told)
        )
    }

    fn told(&self, done: &Restored) -> String {
        let Restored { to, undo, told, report } = done;
        if self.output == Output::Json {
            let told = json!({
                "done": true, "to": shown(to), "undo": shown(undo), "changes": told,
                "broken": report.broken,
            });
            return json_text(&told);
        }
        let broken: String = report.broken.iter().map(|it| format!("broken: {it}\n")).collect();
        format!(
            "restored to checkpoint {}\n\n{}\n{broken}{}\n\
             To undo it: slateberg restore --yes --to {}\n",
            called(to),
            changes(told),
            report.summary(),
            undo.name.as_deref().unwrap_or_default()
        )
    }
}

async fn restore(settings: &Settings, wanted: &Wanted) -> Result<Restored, StoppedError> {
    let catalog = StoppedCatalog::open(settings, &Seams::default()).await?;
    let done = catalog.restore(wanted).await;
    let closed = catalog.close().await;
    let done = done?;
    closed.map(|()| done)
}

fn shown(checkpoint: &Checkpoint) -> serde_json::Value {
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

/// What comes back, changes and goes, kind by kind.
fn changes(told: &Told) -> String {
    let row = |what: &str, counts: Counts| {
        let Counts { returning, changing, going } = counts;
        [what.to_owned(), returning.to_string(), changing.to_string(), going.to_string()]
    };
    let rows = [
        row("warehouses", told.warehouses),
        row("namespaces", told.namespaces),
        row("tables", told.tables),
        row("views", told.views),
        row("policies", told.policies),
        row("grants", told.grants),
    ];
    let mut text = table(["", "COME BACK", "CHANGE", "GO"], &rows);
    if told.purged > 0 {
        text += &format!(
            "{} of the tables that come back were purged: their data files may be gone.\n",
            told.purged
        );
    }
    if told.is_empty() {
        text += "All is as it was.\n";
    }
    text
}
