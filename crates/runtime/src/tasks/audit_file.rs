//! Reopens the audit log file on `SIGHUP`. Log rotation sends this signal after it has moved the
//! file.

use tokio::sync::watch;

use super::sighup::Sighup;
use slateberg_catalog::Catalog;

/// Reopens the file on each `SIGHUP`.
pub(super) async fn reopen_on_sighup(
    catalog: Catalog,
    mut hangups: Sighup,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = hangups.next() => {}
        }
        match catalog.access().reopen_audit() {
            Ok(()) => tracing::info!("SIGHUP: audit log reopened"),
            Err(error) => {
                tracing::error!(%error, "SIGHUP: cannot reopen the audit log: lines go to the previous file")
            }
        }
    }
}
