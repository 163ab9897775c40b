//! `slateberg fsck`: exit code 0 if all records are sound, 65 if some are damaged.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::clone::told;
use super::exit::{Exit, Failure, Outcome};
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use super::{Common, print};
use crate::app::build::{OfflineCatalog, Seams};
use crate::app::stopped::StoppedError;
use crate::config::Settings;
use crate::objects::metadata_file;
use crate::store::fsck::{Report, walk};
use crate::store::keys::StoreKey;
use crate::store::read::Read;

/// Check every record of a catalog, without writing, while no server runs on it.
#[derive(Debug, Args)]
pub struct Fsck {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Fsck {
    /// Checks the catalog and prints what is damaged.
    pub fn run(self) -> Outcome {
        self.common.work(async |settings| {
            let report = check(settings, self.output).await?;
            if report.broken.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            Err(Failure::new(Exit::Damaged, "the catalog is damaged: see the output"))
        })
    }
}

async fn check(settings: &Settings, output: Output) -> Result<Report, StoppedError> {
    let catalog = OfflineCatalog::open(settings, &Seams::default()).await?;
    let clone = catalog.store.get(&StoreKey).await?.and_then(|format| format.clone_of);
    if output == Output::Table {
        print(&format!("checking {}\n", catalog.state_url));
        if let Some(clone) = &clone {
            print(&format!("a clone {}\n", told(clone)));
        }
    }
    let mut report = walk(&catalog.store).await?;
    for published in std::mem::take(&mut report.published) {
        let location = &published.metadata_location;
        let (warehouse, text) = (published.warehouse, &published.document.text);
        match metadata_file::holds(&catalog.objects, warehouse, location, text).await {
            Ok(true) => {}
            Ok(false) => report.broken.push(format!("{location} differs from its record")),
            Err(error) => report.broken.push(format!("{location}: {error}")),
        }
    }
    match output {
        Output::Table => {
            for broken in &report.broken {
                print(&format!("broken: {broken}\n"));
            }
            print(&format!("{}\n", report.summary()));
        }
        Output::Json => print_json(&json!({
            "state": catalog.state_url,
            "clone-of": clone.map(|clone| clone.parent_url),
            "records": report.records,
            "namespaces": report.namespaces,
            "tables": report.tables,
            "views": report.views,
            "broken": report.broken,
        })),
    }
    Ok(report)
}
