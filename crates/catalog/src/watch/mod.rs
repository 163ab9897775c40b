//! [`Watches`]: the change feed. A watch reads the changes of the catalog after a position, in the
//! order of the change log.
//!
//! - A watch that begins at a position receives every later change that it selects, in order. The
//!   changes of one transaction follow each other directly, and only the last of them has a
//!   position.
//! - A client that resumes from the position of an event receives the events after it. A client that
//!   resumes from an earlier position receives some events again.
//! - A caller receives an event about a resource only if it may see the resource in a listing. The
//!   caller receives all other events only if it may read the history of the catalog.
//! - When the permissions of the caller change, for example after a change of policies, the watch
//!   returns [`EventType::RESYNC`]. The client then lists its resources again. Some resources may
//!   have become visible or hidden although they have not changed.

pub mod cursors;
mod event_type;
mod position;
mod scope;
mod visibility;
mod wakes;

use std::net::SocketAddr;
use std::sync::Arc;

use uuid::Uuid;

pub use self::event_type::EventType;
use self::event_type::{EventOf, TypeFilter};
pub(crate) use self::event_type::{NameEffect, existed_before, is_new_timeline};
pub use self::position::Position;
use self::position::{Timeline, View};
use self::scope::{Scope, rename_as_creation, rename_as_drop};
use self::visibility::{Sight, Viewer};
use self::wakes::{WakeGroup, Wakes};
use super::core::Core;
use crate::error::LostPosition;
use crate::resource_lookup::VISIBILITY_ACTIONS;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, ReadHistory, Watch as WatchAction};
use slateberg_authz::authority::Decider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_base::boxed;
use slateberg_store::change_feed::ChangeGroup;
pub use slateberg_store::records::{Change, ChangedKind, ChangedResource};

/// Number of changes that are read together.
const PAGE_CHANGES: usize = 1000;

/// Number of changes after which [`Watch::read`] returns, even if the watch has selected none of
/// them.
const READ_CHANGES_MAX: u64 = 10_000;

/// The value with which a watch starts at the oldest change in the log.
const OLDEST: &str = "oldest";

/// The change feed of the catalog. Cheap to clone.
#[derive(Clone)]
pub struct Watches {
    core: Arc<Core>,
    timeline: Timeline,
    wakes: Wakes,
}

/// A request to watch changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// Return only changes of this resource, such as `table:prod/sales/orders`. A warehouse or
    /// namespace includes the changes of its contents. The resource need not exist yet. `None` for
    /// all changes.
    pub resource: Option<String>,
    /// Return only events of these types, such as `table.committed`, or `table` for all types of
    /// tables. Empty for all types.
    pub types: Vec<String>,
    /// The position after which the watch begins, or `oldest`. `None` for the current position.
    pub after: Option<String>,
    /// With `oldest`: the time of the first change, in milliseconds since 1970. Concurrent changes
    /// can be in the log in another order than their times.
    pub since_ms: Option<i64>,
    /// The address of the client's connection. The watches of a connection are woken together.
    pub connection: Option<SocketAddr>,
}

/// A change that the caller may see, or an event of the watch itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The type of the event.
    pub event_type: EventType,
    /// The position after the event. `None` if more events of the same transaction follow.
    pub position: Option<Position>,
    /// The name of the warehouse of the changed resource. `None` if the event does not concern a
    /// warehouse, or if the warehouse was deleted.
    pub warehouse: Option<String>,
    /// The change. It contains its author only if the caller may read the history of the watched
    /// resource. `None` for an event of the watch itself.
    pub change: Option<Arc<Change>>,
}

/// Events of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// The events.
    pub events: Vec<Event>,
    /// The position after all these events. It is also after all changes that the watch has read
    /// but not selected.
    pub position: Position,
    /// Whether the watch has read all changes.
    pub caught_up: bool,
}

/// A watch in progress.
pub struct Watch {
    core: Arc<Core>,
    operation: Operation,
    resource: Resource,
    scope: Scope,
    types: TypeFilter,
    position: Position,
    /// Whether the watch began at the oldest entry of the log. Such a watch skips the entries of
    /// older binaries, because the changed resource is missing in them.
    from_oldest: bool,
    /// Whether the caller may see who made the changes.
    shows_authors: bool,
    wakes: WakeGroup,
}

impl Watches {
    pub(crate) fn new(core: &Arc<Core>, numbering: Uuid) -> Self {
        Self { core: Arc::clone(core), timeline: numbering.into(), wakes: Wakes::default() }
    }

    /// Returns the current position for a caller. A client that reads the catalog after this call,
    /// and then watches from this position, misses no change.
    pub fn position(&self, operation: &Operation) -> Position {
        let next = self.core.store().current_horizon();
        let view = View::of(operation, &self.core.access.authority.policies());
        Position { timeline: self.timeline, next, view }
    }

    /// Returns the number of the first change after a position.
    ///
    /// # Errors
    /// Returns [`Error::PositionGone`] if the position is of another timeline.
    pub(crate) fn next_change_at(&self, position: &str) -> Result<u64> {
        let position = Position::parse(position)?;
        match self.changes_after(position) {
            Some(_) => Ok(position.next),
            None => Err(Error::PositionGone(LostPosition::Timeline)),
        }
    }

    /// Returns the number of changes after a position. `None` if the position is of another
    /// timeline.
    pub(crate) fn changes_after(&self, position: Position) -> Option<u64> {
        let horizon = self.core.store().current_horizon();
        (position.timeline == self.timeline).then(|| horizon.saturating_sub(position.next))
    }

    /// Starts a watch. The caller needs `Watch` on the resource, or on the catalog for all changes.
    ///
    /// # Errors
    /// Returns [`Error::PositionGone`] if changes after the position were removed from the log, or
    /// if the catalog was restored, imported or cloned since the position was returned.
    #[boxed]
    pub async fn watch(&self, operation: Operation, request: &WatchRequest) -> Result<Watch> {
        let core = &self.core;
        let types = TypeFilter::parse(&request.types)?;
        let resource = match request.resource.as_deref() {
            Some(name) => core.access.resource_named(name)?,
            None => Resource::catalog(),
        };
        let present = self.position(&operation);
        let position = match request.after.as_deref() {
            None => present,
            Some(OLDEST) => {
                let next = match request.since_ms {
                    None => core.store().oldest_change().await?,
                    Some(since_ms) => core.store().first_change_since(since_ms).await?,
                };
                Position { next, ..present }
            }
            Some(text) => Position::parse(text)?,
        };
        if position.timeline != self.timeline {
            return Err(Error::PositionGone(LostPosition::Timeline));
        }
        let wakes = self.wakes.join(core, request.connection);
        let core = Arc::clone(core);
        let from_oldest = request.after.as_deref() == Some(OLDEST);
        let mut watch = Watch {
            core,
            operation,
            resource,
            scope: Scope::All,
            types,
            position,
            from_oldest,
            shows_authors: false,
            wakes,
        };
        watch.shows_authors = watch.check_permitted().await?;
        watch.scope = Scope::of(&watch.core, &watch.resource)?;
        Ok(watch)
    }
}

/// Removes the principal, the origin and the policies from a change.
fn without_author(change: &Change) -> Change {
    Change { principal: String::new(), origin: None, allowed: None, ..change.clone() }
}

impl Watch {
    /// Returns the position after all events that the watch has returned.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Waits until [`read`](Self::read) may have something to return.
    pub async fn changed(&self) {
        // Create the future before the check, so that it is notified even if the change comes right
        // after the check.
        let woken = self.wakes.notified();
        let is_current = self.core.store().current_horizon() <= self.position.next
            && self.view() == self.position.view;
        if is_current {
            woken.await;
        }
    }

    /// Returns the identifier of what the caller may see at present.
    fn view(&self) -> View {
        View::of(&self.operation, &self.core.access.authority.policies())
    }

    /// Returns the next events, without a wait for new changes. When the batch reaches `max`
    /// events, it ends at the end of the current transaction.
    ///
    /// # Errors
    /// Returns [`Error::PositionGone`] if changes that the watch has not read yet were removed from
    /// the log, and [`Error::Forbidden`] if the caller has lost its permission.
    #[boxed]
    pub async fn read(&mut self, max: usize) -> Result<EventBatch> {
        let (mut events, mut caught_up) = (Vec::new(), false);
        self.operation.context.now_ms = self.core.now_ms();
        let view = self.view();
        if view != self.position.view {
            self.shows_authors = self.check_permitted().await?;
            self.position.view = view;
            events.push(self.resync());
        }
        let begin = self.position.next;
        while !caught_up && events.len() < max && self.position.next - begin < READ_CHANGES_MAX {
            let store = self.core.store();
            let page = store.changes_from(self.position.next, PAGE_CHANGES).await?;
            let page = page.ok_or(Error::PositionGone(LostPosition::Trimmed))?;
            for group in page.groups {
                self.add_group(&group, &mut events).await?;
                self.position.next = group.end();
                if events.len() >= max {
                    break;
                }
            }
            caught_up = page.is_last && self.position.next == page.next;
        }
        Ok(EventBatch { events, position: self.position, caught_up })
    }

    fn resync(&self) -> Event {
        let (event_type, position) = (EventType::RESYNC, Some(self.position));
        Event { event_type, position, warehouse: None, change: None }
    }

    /// Adds the events of a transaction.
    async fn add_group(&self, group: &ChangeGroup, events: &mut Vec<Event>) -> Result<()> {
        let (before, mut resync) = (events.len(), false);
        let viewer = Viewer { core: &self.core, operation: &self.operation };
        for change in group.changes.iter() {
            let event_type = match EventType::of(change) {
                EventOf::Type(event_type) => event_type,
                EventOf::OlderEntry if self.from_oldest => continue,
                EventOf::OlderEntry => {
                    return Err(Error::PositionGone(LostPosition::OlderVersion));
                }
                EventOf::NewerAction => {
                    resync |= self.scope.contains(change);
                    continue;
                }
            };
            let is_rename = change.resource.as_ref().is_some_and(|it| it.renamed_from.is_some());
            let is_selected = is_rename || self.types.selects(event_type);
            if !is_selected || !self.scope.contains(change) {
                continue;
            }
            let (change, event_type) = match viewer.sight(change).await? {
                Sight::Nothing => continue,
                Sight::Unknown => {
                    resync = true;
                    continue;
                }
                Sight::Change => (Arc::clone(change), event_type),
                Sight::Creation => rename_as_creation(change),
                Sight::Drop => rename_as_drop(change),
            };
            if !self.types.selects(event_type) {
                continue;
            }
            let warehouse = self.core.warehouses().by_id(change.warehouse);
            let warehouse = warehouse.map(|warehouse| warehouse.name.clone());
            let change = Some(match self.shows_authors {
                true => change,
                false => Arc::new(without_author(&change)),
            });
            events.push(Event { event_type, position: None, warehouse, change });
        }
        let position = Position { next: group.end(), ..self.position };
        if resync {
            events.push(Event { position: Some(position), ..self.resync() });
        } else if events.len() > before
            && let Some(last) = events.last_mut()
        {
            last.position = Some(position);
        }
        Ok(())
    }

    /// Checks that the caller may watch the resource, and returns whether it may see who made the
    /// changes.
    ///
    /// # Errors
    /// Fails if the caller may not watch the resource.
    async fn check_permitted(&self) -> Result<bool> {
        let access = &self.core.access;
        let actions = [&VISIBILITY_ACTIONS[..], &[WatchAction::NAME, ReadHistory::NAME]].concat();
        let described = access.described(self.resource.clone(), &actions).await?;
        let asking = match access.ask(&self.operation)? {
            Decider::Unrestricted(_) => return Ok(true),
            Decider::Policies(asking) => asking,
        };
        let permit: std::result::Result<Permit<WatchAction>, _> =
            asking.permit(&described.resource);
        match permit {
            Ok(_) => Ok(asking.may::<ReadHistory>(&described.resource)),
            Err(denied) => {
                let hidden = access.hidden(&self.operation, &described);
                Err(access.refuse(&self.operation, &denied, &described.resource, hidden))
            }
        }
    }
}
