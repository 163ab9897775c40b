//! [`EventType`]: the kinds of events, and the changes that cause them.

use std::fmt;

use crate::{Error, Result};
use slateberg_model::members::brief;
use slateberg_store::records::{Change, ChangeAction, ChangedKind, LoggedAction};

/// The kind of an event, such as `table.committed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType(&'static str);

/// The result of [`EventType::of`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventOf {
    /// The type of the event.
    Type(EventType),
    /// An older version of slateberg wrote the entry, which does not contain the changed resource.
    OlderEntry,
    /// A newer version of slateberg wrote the entry. Its action is unknown.
    NewerAction,
}

/// Kind of change of a warehouse or of something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    Created,
    Registered,
    Updated,
    Committed,
    Renamed,
    Dropped,
    Undropped,
    Purged,
    Deleted,
    Protected,
    Unprotected,
}

/// Creates the types of a kind of resource.
macro_rules! types {
    ($kind:literal, $happening:expr) => {
        match $happening {
            Happening::Created => concat!($kind, ".created"),
            Happening::Registered => concat!($kind, ".registered"),
            Happening::Updated => concat!($kind, ".updated"),
            Happening::Committed => concat!($kind, ".committed"),
            Happening::Renamed => concat!($kind, ".renamed"),
            Happening::Dropped => concat!($kind, ".dropped"),
            Happening::Undropped => concat!($kind, ".undropped"),
            Happening::Purged => concat!($kind, ".purged"),
            Happening::Deleted => concat!($kind, ".deleted"),
            Happening::Protected => concat!($kind, ".protected"),
            Happening::Unprotected => concat!($kind, ".unprotected"),
        }
    };
}

/// The types that a filter can name.
const SELECTABLE: [&str; 54] = [
    "warehouse.created",
    "warehouse.updated",
    "warehouse.deleted",
    "warehouse.protected",
    "warehouse.unprotected",
    "namespace.created",
    "namespace.updated",
    "namespace.dropped",
    "namespace.undropped",
    "namespace.purged",
    "namespace.protected",
    "namespace.unprotected",
    "table.created",
    "table.registered",
    "table.updated",
    "table.committed",
    "table.renamed",
    "table.dropped",
    "table.undropped",
    "table.purged",
    "table.protected",
    "table.unprotected",
    "view.created",
    "view.registered",
    "view.updated",
    "view.committed",
    "view.renamed",
    "view.dropped",
    "view.undropped",
    "view.purged",
    "view.protected",
    "view.unprotected",
    "function.created",
    "function.updated",
    "function.dropped",
    "function.undropped",
    "function.protected",
    "function.unprotected",
    "policy.changed",
    "grant.created",
    "grant.revoked",
    "api-key.created",
    "api-key.revoked",
    "job.started",
    "job.cancelled",
    "webhook.created",
    "webhook.changed",
    "webhook.deleted",
    "cursor.created",
    "cursor.deleted",
    "checkpoint.created",
    "checkpoint.deleted",
    "encryption.changed",
    "catalog.changed",
];

impl EventType {
    /// The client must list its resources again. The caller may now see other resources, or the
    /// server cannot determine whether the caller may see some change.
    pub const RESYNC: Self = Self("resync");
    /// The watch has selected no change. The event only advances the position.
    pub const PROGRESS: Self = Self("progress");

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Returns the type of a change.
    pub(super) fn of(change: &Change) -> EventOf {
        let LoggedAction::Known(action) = change.action else {
            return match &change.resource {
                None => EventOf::Type(Self("catalog.changed")),
                Some(_) => EventOf::NewerAction,
            };
        };
        let happening = match effect(action, change.version_before) {
            Effect::OnResource(happening) => happening,
            Effect::OnCatalog(name) => return EventOf::Type(Self(name)),
        };
        match &change.resource {
            None => EventOf::OlderEntry,
            Some(resource) => EventOf::Type(Self::on(resource.kind, happening)),
        }
    }

    fn on(kind: ChangedKind, happening: Happening) -> Self {
        Self(match kind {
            ChangedKind::Warehouse => types!("warehouse", happening),
            ChangedKind::Namespace => types!("namespace", happening),
            ChangedKind::Table => types!("table", happening),
            ChangedKind::View => types!("view", happening),
            ChangedKind::Function => types!("function", happening),
        })
    }

    /// Returns the type of the creation of a resource. A rename appears as a creation to a caller
    /// that may see only the new name.
    pub(super) fn created(kind: ChangedKind) -> Self {
        Self(if kind == ChangedKind::View { "view.created" } else { "table.created" })
    }

    /// Returns the type of the drop of a resource. A rename appears as a drop to a caller that may
    /// see only the old name.
    pub(super) fn dropped(kind: ChangedKind) -> Self {
        Self(if kind == ChangedKind::View { "view.dropped" } else { "table.dropped" })
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Effect of a change on the name of its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameEffect {
    /// The name exists after the change.
    Added,
    /// The name does not exist after the change.
    Removed,
    /// The change adds and removes no name.
    Unchanged,
}

impl NameEffect {
    /// Returns the effect of a change. `None` if it cannot be determined, because an older or a
    /// newer version of slateberg wrote the entry.
    pub(crate) fn of(change: &Change) -> Option<Self> {
        let action = match (&change.action, &change.resource) {
            (LoggedAction::Known(action), _) => *action,
            (LoggedAction::Unknown(_), None) => return Some(Self::Unchanged),
            (LoggedAction::Unknown(_), Some(_)) => return None,
        };
        let Effect::OnResource(happening) = effect(action, change.version_before) else {
            return Some(Self::Unchanged);
        };
        change.resource.as_ref().map(|_| match happening {
            Happening::Created
            | Happening::Registered
            | Happening::Renamed
            | Happening::Undropped => Self::Added,
            Happening::Dropped | Happening::Deleted => Self::Removed,
            Happening::Updated
            | Happening::Committed
            | Happening::Purged
            | Happening::Protected
            | Happening::Unprotected => Self::Unchanged,
        })
    }
}

/// Whether the resource of a change existed, under a name, before the change. `None` for a change
/// of something that is in no warehouse.
///
/// # Errors
/// Fails if an older or a newer version of slateberg wrote the entry.
pub(crate) fn existed_before(change: &Change) -> std::result::Result<Option<bool>, UnknownEffect> {
    let action = match (&change.action, &change.resource) {
        (LoggedAction::Known(action), _) => *action,
        (LoggedAction::Unknown(_), None) => return Ok(None),
        (LoggedAction::Unknown(_), Some(_)) => return Err(UnknownEffect),
    };
    let Effect::OnResource(happening) = effect(action, change.version_before) else {
        return Ok(None);
    };
    if change.resource.is_none() {
        return Err(UnknownEffect);
    }
    Ok(Some(match happening {
        Happening::Created | Happening::Undropped | Happening::Purged => false,
        // A registration can replace the metadata of an existing table.
        Happening::Registered => change.version_before.is_some(),
        Happening::Updated
        | Happening::Committed
        | Happening::Renamed
        | Happening::Dropped
        | Happening::Deleted
        | Happening::Protected
        | Happening::Unprotected => true,
    }))
}

/// The effect of a change cannot be determined.
#[derive(Debug)]
pub(crate) struct UnknownEffect;

/// Whether a change has replaced the whole catalog.
pub(crate) fn is_new_timeline(change: &Change) -> bool {
    use ChangeAction as A;
    matches!(change.action, LoggedAction::Known(A::Restore | A::Import | A::Clone))
}

/// Effect of an action.
enum Effect {
    /// The action changes a warehouse or something in it.
    OnResource(Happening),
    /// The action changes something else. The event has this type.
    OnCatalog(&'static str),
}

/// Returns the effect of an action on a resource that had this version before.
fn effect(action: ChangeAction, version_before: Option<u64>) -> Effect {
    use ChangeAction as A;
    use Effect::OnCatalog;
    use Happening as H;
    Effect::OnResource(match action {
        A::CreateWarehouse
        | A::CreateNamespace
        | A::CreateTable
        | A::CreateView
        | A::CreateFunction => H::Created,
        A::UpdateWarehouse
        | A::UpdateNamespaceProperties
        | A::ReplaceFunction
        | A::UpdateLabels => H::Updated,
        A::RegisterTable | A::RegisterView => H::Registered,
        A::CommitTable
        | A::CommitView
        | A::CommitTransaction
        | A::ExpireSnapshots
        | A::RewriteManifests => match version_before {
            None => H::Created,
            Some(_) => H::Committed,
        },
        A::RenameTable | A::RenameView => H::Renamed,
        A::DeleteWarehouse => H::Deleted,
        A::DropNamespace
        | A::DropTable
        | A::DropView
        | A::DropFunction
        | A::PurgeTable
        | A::UnregisterTable => H::Dropped,
        A::UndropNamespace | A::UndropTable | A::UndropView | A::UndropFunction => H::Undropped,
        A::PurgeDropped | A::DeleteDropped => H::Purged,
        A::Protect => H::Protected,
        A::Unprotect => H::Unprotected,
        A::PutPolicy | A::RemovePolicy | A::RollBackPolicies => return OnCatalog("policy.changed"),
        A::Grant => return OnCatalog("grant.created"),
        A::Revoke => return OnCatalog("grant.revoked"),
        A::CreateApiKey => return OnCatalog("api-key.created"),
        A::RevokeApiKey => return OnCatalog("api-key.revoked"),
        A::StartJob => return OnCatalog("job.started"),
        A::CancelJob => return OnCatalog("job.cancelled"),
        A::CreateWebhook => return OnCatalog("webhook.created"),
        A::SuspendWebhook | A::ResumeWebhook | A::RotateWebhookSecret => {
            return OnCatalog("webhook.changed");
        }
        A::DeleteWebhook => return OnCatalog("webhook.deleted"),
        A::CreateCursor => return OnCatalog("cursor.created"),
        A::DeleteCursor => return OnCatalog("cursor.deleted"),
        A::CreateCheckpoint => return OnCatalog("checkpoint.created"),
        A::DeleteCheckpoint => return OnCatalog("checkpoint.deleted"),
        A::RotateDataKey | A::RewrapDataKeys => return OnCatalog("encryption.changed"),
        A::TransferWriter | A::PauseCluster | A::Import | A::Restore | A::Clone => {
            return OnCatalog("catalog.changed");
        }
    })
}

/// The types that a watch selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TypeFilter(Vec<String>);

impl TypeFilter {
    /// Parses types such as `table.committed`, or kinds such as `table` for all types of tables. An
    /// empty list selects all types.
    pub(super) fn parse(types: &[String]) -> Result<Self> {
        let is_known = |wanted: &String| SELECTABLE.iter().any(|known| covers(wanted, known));
        match types.iter().find(|wanted| !is_known(wanted)) {
            None => Ok(Self(types.to_vec())),
            Some(unknown) => Err(Error::Invalid(format!(
                "Invalid event type '{}'. Expected one of {}, or only the part before the dot",
                brief(unknown),
                SELECTABLE.join(", ")
            ))),
        }
    }

    pub(super) fn selects(&self, event_type: EventType) -> bool {
        self.0.is_empty() || self.0.iter().any(|wanted| covers(wanted, event_type.0))
    }
}

fn covers(wanted: &str, event_type: &str) -> bool {
    wanted == event_type
        || event_type.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KINDS: [ChangedKind; 5] = [
        ChangedKind::Warehouse,
        ChangedKind::Namespace,
        ChangedKind::Table,
        ChangedKind::View,
        ChangedKind::Function,
    ];

    /// Returns the kinds of the resources that an action changes.
    fn kinds(action: ChangeAction) -> Vec<ChangedKind> {
        let name = action.as_str();
        match action {
            ChangeAction::Protect | ChangeAction::Unprotect => KINDS.to_vec(),
            ChangeAction::UpdateLabels => vec![ChangedKind::Table, ChangedKind::View],
            ChangeAction::PurgeDropped | ChangeAction::DeleteDropped => {
                vec![ChangedKind::Namespace, ChangedKind::Table, ChangedKind::View]
            }
            ChangeAction::CommitTransaction
            | ChangeAction::ExpireSnapshots
            | ChangeAction::RewriteManifests => {
                vec![ChangedKind::Table]
            }
            _ => KINDS
                .into_iter()
                .filter(|kind| name.contains(&format!("{kind:?}").to_lowercase()))
                .collect(),
        }
    }

    #[test]
    fn filter_selects_exactly_the_types_of_all_actions() {
        let mut types = BTreeSet::new();
        for action in ChangeAction::ALL {
            for version_before in [None, Some(1)] {
                match effect(action, version_before) {
                    Effect::OnCatalog(name) => _ = types.insert(name),
                    Effect::OnResource(happening) => {
                        let of = |kind| EventType::on(kind, happening).as_str();
                        types.extend(kinds(action).into_iter().map(of));
                    }
                }
            }
        }
        assert_eq!(types, SELECTABLE.into_iter().collect());
    }
}
