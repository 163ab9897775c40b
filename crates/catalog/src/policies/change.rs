//! Changes of stored policies and grants. They are serialized and atomic.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::allowed::{Allowed, name_of_grant};
use super::grants::NewGrant;
use super::{Sources, invalid};
use crate::error::{CommitConflict, Kind, MissingResource, NameConflict, RuleViolation};
use crate::operation::Operation;
use crate::pipeline::response::Body;
use crate::policies::Policies;
use crate::serial_lock::SerialGuard;
use crate::{Error, Result};

use slateberg_authz::context::Context;
use slateberg_authz::listing::names;
use slateberg_authz::lockout;
use slateberg_base::boxed;

use slateberg_authz::policy_set::PolicySet;
use slateberg_model::members::brief;
use slateberg_model::principal::{Identity, Principal};
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::records::{
    ChangeAction, GrantRecord, PolicyChanges, PolicyRecord, PolicyRevision,
};

/// Maximum number of characters of a comment.
const COMMENT_CHARS_MAX: usize = 1024;
/// Maximum number of characters of a policy id.
const ID_CHARS_MAX: usize = 256;

/// Ids that policies cannot have, because they are paths of the API.
const RESERVED: [&str; 4] = ["revisions", "rollback", ".", ".."];

/// A change of stored policies or grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Stores a policy with this text.
    Put {
        /// Id of the policy. `None` for the id in the text.
        id: Option<String>,
        /// Source in Cedar's language: one policy or one template.
        text: String,
        /// Whether the new policy may replace an existing one.
        replace: bool,
    },
    /// Removes a policy.
    Remove {
        /// Id of the policy or grant.
        id: String,
    },
    /// Creates a grant.
    Grant(NewGrant),
    /// Revokes a grant.
    Revoke {
        /// Id of the policy or grant.
        id: String,
    },
    /// Restores the policies and grants of an earlier revision.
    RollBack {
        /// Number of the earlier revision.
        to: u64,
    },
}

impl Edit {
    /// The transaction's name.
    fn action(&self) -> ChangeAction {
        match self {
            Self::Put { .. } => ChangeAction::PutPolicy,
            Self::Remove { .. } => ChangeAction::RemovePolicy,
            Self::Grant(_) => ChangeAction::Grant,
            Self::Revoke { .. } => ChangeAction::Revoke,
            Self::RollBack { .. } => ChangeAction::RollBackPolicies,
        }
    }
}

/// A requested change.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The change.
    pub edit: Edit,
    /// The revision that the caller has read. The change is rejected if there is a newer revision.
    pub expected_revision: Option<u64>,
    /// A comment for the log.
    pub comment: Option<String>,
    /// Whether the change is only checked, and not made.
    pub dry_run: bool,
    /// The identities of the API keys. After the change, one of them or the caller must be able to
    /// manage policies.
    pub known: Vec<Arc<Identity>>,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The number of the newest revision.
    pub revision: u64,
    /// The hash of the policy set after the change, also for a dry run.
    pub in_force: String,
    /// Whether the change was only checked.
    pub dry_run: bool,
    /// The differences from the previous revision. Empty if the change has no effect.
    pub changes: PolicyChanges,
    /// For the creation of a grant: the created grant, or an equal grant that already existed.
    pub grant: Option<GrantRecord>,
    /// Warnings about the policies in force.
    pub warnings: Vec<String>,
}

/// A change that was evaluated and can be written.
pub(super) struct EvaluatedChange {
    pub(super) allowed: Allowed,
    pub(super) action: ChangeAction,
    /// Id and name of the change in the change log.
    pub(super) subject: (Uuid, String),
    pub(super) revision: PolicyRevision,
    pub(super) before: Sources,
    pub(super) after: Sources,
    pub(super) set: PolicySet,
    pub(super) summary: Changed,
}

/// Outcome of the evaluation of a change.
enum Evaluation {
    /// The change has no effect, so nothing is written.
    Unchanged(Box<Changed>),
    /// The change has an effect and can be written.
    EvaluatedChange(Box<EvaluatedChange>),
}

impl Policies {
    /// Changes policies or grants. The result is in force when this returns.
    #[boxed]
    pub async fn change_policies(
        &self,
        operation: &Operation,
        proposal: Proposal,
    ) -> Result<Changed> {
        check_comment(proposal.comment.as_deref())?;
        // Rejects callers without permission before they wait for the lock. The change is evaluated
        // again under the lock, and that evaluation decides. A missing grant is not rejected here,
        // because an earlier request with the same `Idempotency-Key` may have revoked the grant.
        // The response of that request must then be replayed.
        match self.allowed(operation, &proposal.edit).await {
            Err(refused) if refused.kind() != Kind::NoSuchPolicy => return Err(refused),
            _ => {}
        }
        if proposal.dry_run {
            return match self.evaluate_edit(operation, &proposal).await? {
                Evaluation::Unchanged(changed) => Ok(*changed),
                Evaluation::EvaluatedChange(evaluated) => Ok(evaluated.summary),
            };
        }
        let change = |policies: Self, operation: Operation| async move {
            let turn = policies.lock_policies().await?;
            let summary = match policies.evaluate_edit(&operation, &proposal).await? {
                Evaluation::Unchanged(changed) => *changed,
                Evaluation::EvaluatedChange(evaluated) => {
                    policies.execute(turn, operation, *evaluated).await?
                }
            };
            Ok(Body(summary))
        };
        let Body(changed) = self.core.mutate(self, operation, change).await?;
        Ok(changed)
    }

    /// Takes the lock on changes of the policies.
    pub(super) async fn lock_policies(&self) -> Result<SerialGuard> {
        let busy = "Earlier changes of the policies are still in progress";
        self.state.turns.wait(self.core.settings().commit_deadline(), busy).await
    }

    /// Returns the permit for this change.
    async fn allowed(&self, operation: &Operation, edit: &Edit) -> Result<Allowed> {
        match edit {
            Edit::Put { .. } | Edit::Remove { .. } | Edit::RollBack { .. } => {
                Ok(Allowed::Policies(self.may_manage_policies(operation)?))
            }
            Edit::Grant(wanted) => self.may_grant(operation, wanted).await,
            Edit::Revoke { id } => self.may_revoke(operation, id).await,
        }
    }

    async fn evaluate_edit(
        &self,
        operation: &Operation,
        proposal: &Proposal,
    ) -> Result<Evaluation> {
        let Proposal { edit, expected_revision, comment, dry_run, known } = proposal;
        let allowed = self.allowed(operation, edit).await?;
        let before = self.state.sources();
        let number = before.book.number;
        if let Some(expected) = expected_revision.filter(|expected| *expected != number) {
            return Err(Error::CommitFailed(CommitConflict::Policies { expected, newest: number }));
        }
        if !before.stored_in_force && matches!(edit, Edit::Put { .. } | Edit::Grant(_)) {
            return Err(Error::Unprocessable(RuleViolation::StoredPoliciesOff));
        }
        let mut book = PolicySnapshot::clone(&before.book);
        let subject = self.apply(operation, edit, &mut book).await?;
        let changes = before.book.changes_to(&book);
        let grant = match edit {
            Edit::Grant(wanted) => wanted.find(&self.authority().policies(), &book),
            _ => None,
        };
        let policies = self.authority().policies();
        let mut summary = Changed {
            revision: number,
            in_force: policies.revision().to_string(),
            dry_run: *dry_run,
            changes: changes.clone(),
            grant,
            warnings: Vec::new(),
        };
        if changes.is_empty() {
            return Ok(Evaluation::Unchanged(Box::new(summary)));
        }
        book.number = number + 1;
        let after = Sources { book: Arc::new(book), ..before.clone() };
        let set = self.build_policy_set(after.clone()).await?;
        check_lockout(&policies, &set, operation, known)?;
        summary.in_force = set.revision().to_string();
        summary.warnings = set.warnings().iter().map(ToString::to_string).collect();
        if !dry_run {
            summary.revision = number + 1;
        }
        let revision = PolicyRevision {
            number: number + 1,
            at_ms: self.core.now_ms(),
            by: operation.principal.id().to_owned(),
            action: edit.action().into(),
            comment: comment.clone(),
            in_force: summary.in_force.clone(),
            rolled_back_to: match edit {
                Edit::RollBack { to } => Some(*to),
                _ => None,
            },
            changes,
        };
        let action = edit.action();
        let evaluated =
            EvaluatedChange { allowed, action, subject, revision, before, after, set, summary };
        Ok(Evaluation::EvaluatedChange(Box::new(evaluated)))
    }

    /// Builds a policy set on a blocking thread, because this takes a long time with many grants.
    pub(super) async fn build_policy_set(&self, sources: Sources) -> Result<PolicySet> {
        let schema = Arc::clone(self.authority().policies().schema());
        let built = tokio::task::spawn_blocking(move || sources.build(schema)).await;
        built.map_err(Error::internal)?.map_err(|problems| invalid(&problems))
    }

    /// Applies a change to `book`. Returns the id and the name of the change in the change log.
    async fn apply(
        &self,
        operation: &Operation,
        edit: &Edit,
        book: &mut PolicySnapshot,
    ) -> Result<(Uuid, String)> {
        match edit {
            Edit::Put { id, text, replace } => {
                let id = self.policy_id(id.as_deref(), text)?;
                let known = book.policies.get(&id);
                if known.is_some() && !replace {
                    return Err(Error::AlreadyExists(NameConflict::Policy(id)));
                }
                if known.is_none_or(|known| known.text != *text) {
                    let record = PolicyRecord {
                        id: id.clone(),
                        text: text.clone(),
                        changed_ms: self.core.now_ms(),
                        changed_by: operation.principal.id().to_owned(),
                    };
                    book.policies.insert(id.clone(), record);
                }
                self.check_size(book)?;
                Ok((Uuid::nil(), id))
            }
            Edit::Remove { id } => {
                if book.policies.remove(id).is_some() {
                    return Ok((Uuid::nil(), id.clone()));
                }
                if self.authority().policies().listed(id).is_some() {
                    return Err(Error::Unprocessable(RuleViolation::ForeignPolicy(id.clone())));
                }
                Err(Error::NotFound(MissingResource::Policy(id.clone())))
            }
            Edit::Grant(wanted) => {
                let record = wanted.make(self, operation, book)?;
                self.check_size(book)?;
                Ok(record)
            }
            Edit::Revoke { id } => {
                let record = super::grants::find(book, id)?;
                book.grants.remove(&record.id);
                Ok((record.id, name_of_grant(&record)))
            }
            Edit::RollBack { to } => {
                let target = self.book_at(book, *to).await?;
                *book = PolicySnapshot { number: book.number, ..target };
                Ok((Uuid::nil(), format!("to revision {to}")))
            }
        }
    }

    /// Returns the id of the only policy in a text. Errors if `wanted` is given and is not this id.
    fn policy_id(&self, wanted: Option<&str>, text: &str) -> Result<String> {
        let bytes_max = self.limits.policy_bytes_max;
        if text.len() > bytes_max {
            return Err(Error::Invalid(format!(
                "Invalid policy: expected at most {bytes_max} bytes, got {}",
                text.len()
            )));
        }
        let named = names(&super::sources::file_name(wanted.unwrap_or("policy")), text);
        let named = named.map_err(|problems| invalid(&problems))?;
        let [own] = named.as_slice() else {
            return Err(Error::Invalid(format!(
                "Invalid policy: expected one policy or template, got {}",
                named.len()
            )));
        };
        let Some(own) = own.as_deref().filter(|id| id.chars().count() <= ID_CHARS_MAX) else {
            return Err(Error::Invalid(format!(
                "Invalid policy: expected @id(\"...\") of at most {ID_CHARS_MAX} characters"
            )));
        };
        if RESERVED.contains(&own) {
            return Err(Error::Invalid(format!("Invalid policy: its @id may not be '{own}'")));
        }
        match wanted {
            Some(wanted) if wanted != own => Err(Error::Invalid(format!(
                "Invalid policy: its @id is '{}', expected '{}'",
                brief(own),
                brief(wanted)
            ))),
            _ => Ok(own.to_owned()),
        }
    }

    fn check_size(&self, book: &PolicySnapshot) -> Result<()> {
        let limits = self.limits;
        for (what, count, max) in [
            ("policies", book.policies.len(), limits.policies_max),
            ("grants", book.grants.len(), limits.grants_max),
        ] {
            if count > max {
                return Err(Error::Unprocessable(RuleViolation::TooMany { what, max }));
            }
        }
        Ok(())
    }
}

/// Rejects a change if, after the change, the caller and all `known` identities lack the permission
/// to manage policies. If they all lack this permission before the change too, the change is
/// allowed. The administrators may then be users whom only a token issuer knows.
fn check_lockout(
    before: &PolicySet,
    after: &PolicySet,
    operation: &Operation,
    known: &[Arc<Identity>],
) -> Result<()> {
    let context: &Context = &operation.context;
    let mut candidates = known.to_vec();
    if let Principal::Identified(identity) = &operation.principal {
        candidates.push(Arc::clone(identity));
    }
    if lockout::check(before, &candidates, context).is_err() {
        return Ok(());
    }
    lockout::check(after, &candidates, context)
        .map_err(|locked_out| Error::Unprocessable(locked_out.into()))
}

fn check_comment(comment: Option<&str>) -> Result<()> {
    match comment.map(|comment| comment.chars().count()) {
        Some(length) if length > COMMENT_CHARS_MAX => Err(Error::Invalid(format!(
            "Invalid comment: expected at most {COMMENT_CHARS_MAX} characters, got {length}"
        ))),
        _ => Ok(()),
    }
}
