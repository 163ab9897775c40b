//! `slateberg clone`: creates a second catalog that shares the stored objects of its parent.

use clap::Args;
use serde_json::json;

use super::arguments::Common;
use super::exit::Outcome;
use super::exit::walk_outcome;
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use super::progress::progress;
use slateberg_base::rfc3339;
use slateberg_runtime::clone::{Cloned, clone_catalog};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline_writer::RestoreTarget;
use slateberg_store::records::CloneOf;

/// Clone the catalog without copying its data, for example to test a change. Afterwards, the two
/// catalogs are independent of each other.
#[derive(Debug, Args)]
pub struct CloneCommand {
    /// Data directory or state URL of the clone, in the same bucket or on the same machine
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// Name or ID of the checkpoint to clone, or a time, which selects the newest checkpoint up to
    /// that time. A checkpoint can be cloned while the server runs. [default: the current state,
    /// which requires a local directory that no server uses]
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    checkpoint: Option<String>,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl CloneCommand {
    /// Creates the clone. Prints how to serve the clone and how to delete it.
    pub fn run(self) -> Outcome {
        self.common.run_offline(async |settings| {
            let selector = self.checkpoint.as_deref().map(RestoreTarget::parse);
            let dependencies = Dependencies::default();
            let cloned =
                clone_catalog(settings, &dependencies, selector.as_ref(), &self.to, &progress())
                    .await?;
            match self.output {
                Output::Json => print_json(&clone_json(&cloned)),
                Output::Table => print(&text(&cloned)),
            }
            walk_outcome(&cloned.report)
        })
    }
}

/// Describes the parent of a clone and the cloned state.
pub(super) fn describe_origin(clone: &CloneOf) -> String {
    let as_of = rfc3339::format(clone.as_of_ms);
    let checkpoint = clone.checkpoint.as_ref().map(|name| format!(", checkpoint {name}"));
    format!("of {} at {as_of}{}", clone.parent_url, checkpoint.unwrap_or_default())
}

fn clone_json(cloned: &Cloned) -> serde_json::Value {
    let Cloned { url, data_dir, of, report } = cloned;
    json!({
        "state": url,
        "data-dir": data_dir,
        "clone-of": {
            "state": of.parent_url,
            "checkpoint": of.checkpoint,
            "as-of-ms": of.as_of_ms,
            "pin": { "id": of.pin, "name": of.pin_name },
        },
        "broken": report.broken,
    })
}

fn text(cloned: &Cloned) -> String {
    let Cloned { url, data_dir, of, report } = cloned;
    let broken: String = report.broken.iter().map(|it| format!("broken: {it}\n")).collect();
    let (serve, delete) = match data_dir {
        Some(directory) => {
            let directory = directory.display();
            (
                format!("slateberg serve --data-dir {directory} --listen 127.0.0.1:8281"),
                format!("rm -r {directory}"),
            )
        }
        None => (
            format!(
                "slateberg serve, with state.url = \"{url}\", no state.wal_url, and a port of its own"
            ),
            format!("delete all objects below {url}"),
        ),
    };
    format!(
        "{url} is a clone {}\n\n\
         {broken}{}\n\n\
         A clone never deletes table files. Checkpoint {} of the parent keeps the shared data.\n\
         To serve it:   {serve}\n\
         To delete it:  stop its server, {delete}, and then, in the parent, slateberg checkpoint delete {}\n",
        describe_origin(of),
        report.summary(),
        of.pin_name,
        of.pin_name,
    )
}
