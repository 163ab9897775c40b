//! The file of the audit log is opened anew at `SIGHUP`, once something else has moved the old one away.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::catalog::Catalog;

/// Opens it anew whenever it is asked for.
pub(super) async fn reopen_at_hangup(catalog: Catalog, mut stopping: watch::Receiver<bool>) {
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => {
            tracing::error!(%error, "cannot listen to SIGHUP: the audit log stays in one file");
            return;
        }
    };
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            _ = hangup.recv() => {}
        }
        match catalog.reopen_audit() {
            Ok(()) => tracing::info!("SIGHUP: the audit log is opened anew"),
            Err(error) => tracing::error!(%error, "SIGHUP: the audit log goes on as it was"),
        }
    }
}
