//! `slateberg fsck`: exit code 0 if every invariant holds, 1 if not or if it cannot be told.

use std::process::ExitCode;

use clap::Args;

use super::clone::told;
use super::{Common, print};
use crate::app::build::{OfflineCatalog, Seams};
use crate::config::Settings;
use crate::objects::metadata_file;
use crate::store::fsck::walk;
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
        self.common.work(check)
    }
}

async fn check(settings: &Settings) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let catalog = OfflineCatalog::open(settings, &Seams::default()).await?;
    print(&format!("checking {}\n", catalog.state_url));
    if let Some(clone) = catalog.store.get(&StoreKey).await?.and_then(|format| format.clone_of) {
        print(&format!("a clone {}\n", told(&clone)));
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
    for broken in &report.broken {
        print(&format!("broken: {broken}\n"));
    }
    print(&format!("{}\n", report.summary()));
    Ok(if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
