//! [`Status`]: what SlateDB reports about itself.
//!
//! `Db::status` copies the manifest at each call, so it takes the longer, the more files the store
//! has. And a task that waits for the end of the store or for a new manifest would be woken up by
//! each commit, because SlateDB reports everything in the same channel. So there is one such task
//! for all that wait.

use slatedb::{CloseReason, Db, DbStatus};
use tokio::sync::watch;

/// The current status of a store.
#[derive(Clone)]
pub(super) struct Status {
    database: watch::Receiver<DbStatus>,
    close_reason: watch::Receiver<Option<CloseReason>>,
    manifest_id: watch::Receiver<u64>,
}

impl Status {
    pub(super) fn new(db: &Db) -> Self {
        let database = db.subscribe();
        let (reason, close_reason) = watch::channel(None);
        let (id, manifest_id) = watch::channel(database.borrow().current_manifest.id());
        tokio::spawn(report(database.clone(), reason, id));
        Self { database, close_reason, manifest_id }
    }

    /// Returns a receiver of the ids of new manifests. It ends when the store is closed.
    pub(super) fn manifest_ids(&self) -> watch::Receiver<u64> {
        self.manifest_id.clone()
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

/// Reports new manifests, and the end of the store. Ends at the latest when the database is dropped.
async fn report(
    mut database: watch::Receiver<DbStatus>,
    reason: watch::Sender<Option<CloseReason>>,
    manifest_id: watch::Sender<u64>,
) {
    loop {
        let (id, close_reason) = {
            let status = database.borrow_and_update();
            (status.current_manifest.id(), status.close_reason)
        };
        manifest_id.send_if_modified(|known| std::mem::replace(known, id) != id);
        if close_reason.is_some() {
            reason.send_replace(close_reason);
            return;
        }
        if database.changed().await.is_err() {
            return;
        }
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
