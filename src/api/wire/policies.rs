//! Converts policies and their revisions to the form of responses.

use super::grants::grant;
use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::policies::change::Changed;
use slateberg_catalog::policies::history::{RevisionDetails, RevisionPage};
use slateberg_catalog::policies::listing::{Origin, PolicyInForce, PolicyPage};
use slateberg_catalog::policies::{self as catalog, PolicyChanges};
use slateberg_management::policies::{
    Policy, PolicyChange, PolicyDifferences, PolicyEdit, PolicyEffect, PolicyList, PolicyOrigin,
    PolicyRevision, PolicyRevisionDetails, PolicyRevisionList,
};

/// Returns a policy in force.
pub fn policy(policy: PolicyInForce) -> Policy {
    let PolicyInForce { id, origin, from, template, forbids, description, text } = policy;
    let (origin, effect) = (policy_origin(origin), policy_effect(forbids));
    Policy { id, origin, from, template, effect, description, text }
}

/// Returns the source of a policy.
pub fn policy_origin(origin: Origin) -> PolicyOrigin {
    match origin {
        Origin::File => PolicyOrigin::File,
        Origin::Api => PolicyOrigin::Api,
        Origin::Grant => PolicyOrigin::Grant,
        Origin::Credential => PolicyOrigin::Credential,
    }
}

/// Returns the effect of a policy.
pub fn policy_effect(forbids: bool) -> PolicyEffect {
    if forbids { PolicyEffect::Forbid } else { PolicyEffect::Permit }
}

/// Returns a page of policies in force.
pub fn policy_list(page: PolicyPage) -> PolicyList {
    PolicyList {
        revision: page.revision,
        in_force: page.in_force,
        policies: page.policies.into_iter().map(policy).collect(),
        next_page_token: page.next,
    }
}

/// Returns differences, with the names of the API keys in them.
pub fn policy_differences(changes: PolicyChanges, keys: &ApiKeys) -> PolicyDifferences {
    let grants = |records: Vec<_>| records.into_iter().map(|it| grant(it, keys)).collect();
    let policies = changes.policies.into_iter().map(|(id, edit)| PolicyEdit {
        id,
        before: edit.before.map(|policy| policy.text),
        after: edit.after.map(|policy| policy.text),
    });
    PolicyDifferences {
        policies: policies.collect(),
        granted: grants(changes.granted),
        revoked: grants(changes.revoked),
    }
}

/// Returns the outcome of a change.
pub fn policy_change(changed: Changed, keys: &ApiKeys) -> PolicyChange {
    let Changed { revision, in_force, dry_run, changes, grant: _, warnings } = changed;
    let changes = policy_differences(changes, keys);
    PolicyChange { revision, in_force, dry_run, changes, warnings }
}

fn policy_revision(revision: catalog::PolicyRevision, keys: &ApiKeys) -> PolicyRevision {
    PolicyRevision {
        revision: revision.number,
        at_ms: revision.at_ms,
        by_name: keys.name_of(&revision.by),
        by: revision.by,
        action: revision.action.into(),
        comment: revision.comment,
        rolled_back_to: revision.rolled_back_to,
        in_force: revision.in_force,
        changes: policy_differences(revision.changes, keys),
    }
}

/// Returns a page of revisions.
pub fn policy_revision_list(page: RevisionPage, keys: &ApiKeys) -> PolicyRevisionList {
    let revisions = page.revisions.into_iter().map(|it| policy_revision(it, keys)).collect();
    PolicyRevisionList { revisions, next_page_token: page.next }
}

/// Returns a revision, with its policies and grants.
pub fn policy_revision_details(details: RevisionDetails, keys: &ApiKeys) -> PolicyRevisionDetails {
    let policies = details.book.policies.into_iter().map(|(id, policy)| (id, policy.text));
    PolicyRevisionDetails {
        change: details.revision.map(|it| policy_revision(it, keys)),
        policies: policies.collect(),
        grants: details.book.grants.into_values().map(|it| grant(it, keys)).collect(),
    }
}
