//! [`Status`]: what SlateDB reports about itself.
//!
//! `Db::status` copies the manifest at each call, so it takes the longer, the more files the store
//! has. And a task that waits for the end of the store would be woken up by each commit, because
//! SlateDB reports both in the same channel. So there is one such task for all that wait.

use slatedb::{CloseReason, Db, DbStatus};
use tokio::sync::watch;

/// The current status of a store.
#[derive(Clone)]
pub(super) struct Status {
    database: watch::Receiver<DbStatus>,
    close_reason: watch::Receiver<Option<CloseReason>>,
}

impl Status {
    pub(super) fn new(db: &Db) -> Self {
        let database = db.subscribe();
        let (reason, close_reason) = watch::channel(None);
        tokio::spawn(report_close(database.clone(), reason));
        Self { database, close_reason }
    }

    /// Returns the sequence number of the last durable transaction.
    pub(super) fn durable_sequence(&self) -> u64 {
        self.database.borrow().durable_seq
    }

    /// Returns the reason why the store is closed. `None` if it is open.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.database.borrow().close_reason
    }

    /// Waits until the store is closed. `None` if it was dropped.
    pub(super) async fn closed(&self) -> Option<CloseReason> {
        let mut reason = self.close_reason.clone();
        reason.wait_for(Option::is_some).await.ok().and_then(|reason| *reason)
    }
}

/// Reports when the store is closed. Ends at the latest when the database is dropped.
async fn report_close(
    mut database: watch::Receiver<DbStatus>,
    reason: watch::Sender<Option<CloseReason>>,
) {
    if let Ok(status) = database.wait_for(|status| status.close_reason.is_some()).await {
        reason.send_replace(status.close_reason);
    }
}

/// Waits until everything up to a sequence number is durable. Returns `false` if the store is closed
/// before.
pub(super) async fn durable_up_to(db: &Db, sequence: u64) -> bool {
    let is_done =
        |status: &DbStatus| status.durable_seq >= sequence || status.close_reason.is_some();
    let mut status = db.subscribe();
    status.wait_for(is_done).await.is_ok_and(|status| status.durable_seq >= sequence)
}
