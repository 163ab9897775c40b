//! `slateberg fsck`: exit code 0 if every invariant holds, 1 if not or if it cannot be told.

use std::process::ExitCode;

use clap::Args;

use super::clone::told;
use super::{Common, EX_CONFIG, fail, print, runtime};
use crate::app::build::{OfflineCatalog, Seams};
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
}

impl Fsck {
    /// Walks the catalog and prints what it found.
    pub fn run(self) -> ExitCode {
        let settings = match self.common.settings() {
            Ok(settings) => settings,
            Err(error) => return fail(EX_CONFIG, error),
        };
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return fail(1, error),
        };
        match runtime.block_on(check(&settings)) {
            Ok(report) if report.broken.is_empty() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => fail(1, error),
        }
    }
}

async fn check(settings: &Settings) -> Result<Report, Box<dyn std::error::Error>> {
    let catalog = OfflineCatalog::open(settings, &Seams::default()).await?;
    print(&format!("checking {}\n", catalog.state_url));
    if let Some(clone) = catalog.store.get(&StoreKey).await?.and_then(|format| format.clone_of) {
        print(&format!("a clone {}\n", told(&clone)));
    }
    let mut report = walk(&catalog.store).await?;
    for published in std::mem::take(&mut report.published) {
        let location = &published.metadata_location;
        let file = metadata_file::read(&catalog.objects, published.warehouse, location).await;
        match file {
            Ok(json) if published.document.text == json => {}
            Ok(_) => report.broken.push(format!("{location} differs from its record")),
            Err(error) => report.broken.push(format!("{location}: {error}")),
        }
    }
    for broken in &report.broken {
        print(&format!("broken: {broken}\n"));
    }
    print(&format!(
        "{} records: {} namespaces, {} tables, {} views; {} broken\n",
        report.records,
        report.namespaces,
        report.tables,
        report.views,
        report.broken.len()
    ));
    Ok(report)
}
