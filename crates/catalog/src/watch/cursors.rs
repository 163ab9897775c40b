//! Cursors: the positions that consumers of the change feed store in the catalog.
//!
//! A consumer such as `slateberg watch --to` stores its position under a name. When it runs again,
//! anywhere, it continues at this position. Each store names the position that it replaces, so only
//! one of two processes can advance a cursor. The change log contains the creation and the deletion
//! of a cursor, and no other stores: otherwise, each store would cause a new event.

use uuid::Uuid;

use super::Watches;
use super::position::Position;
use crate::checkpoints::checked_name;
use crate::error::{CommitConflict, MissingResource, RuleViolation};
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::{Error, Operation, Result};
use slateberg_authz::action::ManageCursors;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::WatchCursorKey;
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::ChangeAction;
pub(crate) use slateberg_store::watch_cursors::WatchCursor;

/// Maximum number of cursors.
const CURSORS_MAX: usize = 1000;

/// A cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorInfo {
    /// Name of the cursor.
    pub name: String,
    /// The record.
    pub record: WatchCursor,
    /// Number of changes after the position. The consumer may not select all of them. `None` if the
    /// catalog was restored since then.
    pub lag_changes: Option<u64>,
}

/// A request to store the position of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPosition {
    /// Name of the cursor.
    pub cursor: String,
    /// The position after the last event that the consumer has processed.
    pub position: String,
    /// The position that is replaced. `None` creates the cursor.
    pub previous: Option<String>,
    /// Random id of the process, so that it can repeat a request whose response was lost.
    pub consumer: Uuid,
}

impl Watches {
    /// Returns the cursors, by name.
    #[boxed]
    pub async fn cursors(&self, operation: &Operation) -> Result<Vec<CursorInfo>> {
        self.permit(operation)?;
        let store = self.core.store().durable();
        let range = KeyRange::all(KeySpace::WatchCursors);
        let all = store.scan::<WatchCursorKey>(&range, None).await?;
        let info = |(WatchCursorKey(name), record)| self.info(name, record);
        Ok(all.into_iter().map(info).collect())
    }

    /// Returns a cursor.
    #[boxed]
    pub async fn cursor(&self, operation: &Operation, name: &str) -> Result<CursorInfo> {
        self.permit(operation)?;
        let store = self.core.store().durable();
        Ok(self.info(name.to_owned(), find(&store, name).await?))
    }

    /// Stores a position, and creates the cursor if the request names no previous position.
    ///
    /// # Errors
    /// Returns [`Error::CommitFailed`] if the cursor is not at the previous position, and
    /// [`Error::NotFound`] if it does not exist.
    #[boxed]
    pub async fn store_cursor(&self, operation: &Operation, request: StoredPosition) -> Result<()> {
        self.permit(operation)?;
        checked_name("cursor", request.cursor.clone())?;
        for position in request.previous.iter().chain([&request.position]) {
            Position::parse(position)?;
        }
        let store = |watches: Self, operation: Operation| async move {
            watches.store_once(&operation, &request).await
        };
        self.core.mutate(self, operation, store).await
    }

    async fn store_once(&self, operation: &Operation, request: &StoredPosition) -> Result<()> {
        let permit = &self.permit(operation)?;
        let StoredPosition { cursor: name, position, previous, consumer } = request;
        let key = &WatchCursorKey(name.clone());
        let action = ChangeAction::CreateCursor;
        let stored =
            self.core.pipeline().commit(Write::of_records(action, permit), |t| async move {
                let found = t.get(key).await?;
                let is_new = found.is_none();
                let now_ms = self.core.now_ms();
                let created_ms = match (&found, previous) {
                    // The response to an earlier request of the same process was lost.
                    (Some(it), _) if (&it.position, &it.consumer) == (position, consumer) => {
                        return Ok(((), self.core.pipeline().records(operation, None, &())?));
                    }
                    (Some(it), Some(previous)) if it.position == *previous => it.created_ms,
                    (Some(_), _) => {
                        return Err(Error::CommitFailed(CommitConflict::Cursor(name.clone())));
                    }
                    (None, Some(_)) => return Err(missing(name)),
                    (None, None) => {
                        let all = KeyRange::all(KeySpace::WatchCursors);
                        let max = CURSORS_MAX;
                        if t.scan::<WatchCursorKey>(&all, Some(max)).await?.len() >= max {
                            let what = "cursors";
                            return Err(Error::Unprocessable(RuleViolation::TooMany { what, max }));
                        }
                        now_ms
                    }
                };
                let record = WatchCursor {
                    position: position.clone(),
                    consumer: *consumer,
                    created_ms,
                    stored_ms: now_ms,
                    stored_by: operation.principal.id().to_owned(),
                };
                t.put(key, &record)?;
                let entry = is_new.then(|| entry(action, permit, name));
                Ok(((), self.core.pipeline().records(operation, entry, &())?))
            });
        stored.await
    }

    /// Deletes a cursor.
    #[boxed]
    pub async fn delete_cursor(&self, operation: &Operation, name: &str) -> Result<()> {
        self.permit(operation)?;
        let name = name.to_owned();
        let delete = |watches: Self, operation: Operation| async move {
            watches.delete_once(&operation, &name).await
        };
        self.core.mutate(self, operation, delete).await
    }

    async fn delete_once(&self, operation: &Operation, name: &str) -> Result<()> {
        let permit = &self.permit(operation)?;
        let key = &WatchCursorKey(name.to_owned());
        let action = ChangeAction::DeleteCursor;
        let deleted =
            self.core.pipeline().commit(Write::of_records(action, permit), |t| async move {
                find(&*t, name).await?;
                t.delete(key)?;
                let entry = entry(action, permit, &key.0);
                Ok(((), self.core.pipeline().records(operation, Some(entry), &())?))
            });
        deleted.await
    }

    fn info(&self, name: String, record: WatchCursor) -> CursorInfo {
        let position = Position::parse(&record.position).ok();
        let lag_changes = position.and_then(|position| self.changes_after(position));
        CursorInfo { name, record, lag_changes }
    }

    fn permit(&self, operation: &Operation) -> Result<Permit<ManageCursors>> {
        self.core.access.permit_catalog(operation)
    }
}

fn entry<'a>(
    action: ChangeAction,
    permit: &'a Permit<ManageCursors>,
    name: &'a String,
) -> Entry<'a> {
    Entry {
        action,
        warehouse: Uuid::nil(),
        subject: Uuid::nil(),
        name,
        versions: (None, None),
        decision: permit.decision(),
        resource: None,
    }
}

async fn find(store: &impl StoreRead, name: &str) -> Result<WatchCursor> {
    store.get(&WatchCursorKey(name.to_owned())).await?.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Error {
    Error::NotFound(MissingResource::Cursor(name.to_owned()))
}
