//! `slateberg clone`: a second catalog that begins as a state of this one, and shares its objects.

use clap::Args;
use serde_json::json;

use super::exit::Outcome;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use super::{Common, print, walked};
use crate::app::build::Seams;
use crate::app::clone::{Cloned, clone_catalog};
use crate::app::stopped::Wanted;
use crate::base::rfc3339;
use crate::store::records::CloneOf;

/// Make a second catalog that begins as a state of this one, without a copy, to try something out.
#[derive(Debug, Args)]
pub struct Clone {
    /// Where it goes: a data directory, or the URL of a state; in the same bucket, or on the same machine
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// A checkpoint's name or id, or a time: that state, also while a server runs [default: the state as it
    /// is, of a local directory on which no server runs]
    #[arg(long, value_name = "CHECKPOINT|TIME")]
    checkpoint: Option<String>,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
    #[command(flatten)]
    common: Common,
}

impl Clone {
    /// Makes the clone, and says how to serve it and how to be rid of it.
    pub fn run(self) -> Outcome {
        self.common.work(async |settings| {
            let wanted = self.checkpoint.as_deref().map(Wanted::parse);
            let seams = Seams::default();
            let done = clone_catalog(settings, &seams, wanted.as_ref(), &self.to).await?;
            match self.output {
                Output::Json => print_json(&shown(&done)),
                Output::Table => print(&text(&done)),
            }
            walked(&done.report)
        })
    }
}

/// Of what something is a clone, in words.
pub(super) fn told(clone: &CloneOf) -> String {
    let as_of = rfc3339::format(clone.as_of_ms);
    let checkpoint = clone.checkpoint.as_ref().map(|name| format!(", checkpoint {name}"));
    format!("of {} as of {as_of}{}", clone.parent_url, checkpoint.unwrap_or_default())
}

fn shown(done: &Cloned) -> serde_json::Value {
    let Cloned { url, data_dir, of, report } = done;
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

fn text(done: &Cloned) -> String {
    let Cloned { url, data_dir, of, report } = done;
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
         It deletes no file of a table. Checkpoint {} of the parent keeps what the two share.\n\
         To serve it:      {serve}\n\
         To be rid of it:  stop its server, {delete}, and then, in the parent, slateberg checkpoint delete {}\n",
        told(of),
        report.summary(),
        of.pin_name,
        of.pin_name,
    )
}
