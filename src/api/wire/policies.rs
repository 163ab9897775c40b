//! The shapes of bodies of `/management/v1/policies`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::grants::Grant;
use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::policies::change::Changed;
use slateberg_catalog::policies::history::{RevisionPage, ToldRevision};
use slateberg_catalog::policies::listing::{InForce, Origin, PolicyPage};
use slateberg_catalog::policies::{PolicyChanges, PolicyRevision};

/// Body of `POST /management/v1/policies` and `PUT /management/v1/policies/{id}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PutPolicyRequest {
    /// One policy or template, in Cedar's language, with its `@id`.
    pub text: String,
    /// Comment recorded in the history.
    #[serde(default)]
    pub comment: Option<String>,
    /// Fails unless this is the latest revision.
    #[serde(default)]
    pub expected_revision: Option<u64>,
}

/// Body of `POST /management/v1/policies/rollback`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RollbackRequest {
    /// Revision to return to.
    pub to: u64,
    /// Comment recorded in the history.
    #[serde(default)]
    pub comment: Option<String>,
    /// Fails unless this is the latest revision.
    #[serde(default)]
    pub expected_revision: Option<u64>,
}

/// A policy in force, or a template.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    /// Its id.
    pub id: String,
    /// `file`, `api` or `grant`; `credential` if no policy, but the credential itself decided.
    pub origin: &'static str,
    /// The file and line, of one from a file; of a grant's the template; null otherwise.
    pub from: Option<String>,
    /// Whether it is a template, which says nothing before it is granted.
    pub template: bool,
    /// `permit` or `forbid`.
    pub effect: &'static str,
    /// Its `@description`; null if it has none.
    pub description: Option<String>,
    /// Its text, in Cedar's language.
    pub text: String,
}

impl From<InForce> for Policy {
    fn from(policy: InForce) -> Self {
        let InForce { id, origin, from, template, forbids, description, text } = policy;
        Self {
            id,
            origin: origin_word(origin),
            from,
            template,
            effect: effect_word(forbids),
            description,
            text,
        }
    }
}

/// The word for where a policy comes from.
pub fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Api => "api",
        Origin::Grant => "grant",
        Origin::Credential => "credential",
    }
}

/// The word for what a policy does.
pub fn effect_word(forbids: bool) -> &'static str {
    if forbids { "forbid" } else { "permit" }
}

/// Answer of `GET /management/v1/policies`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListPolicies {
    /// The number of the newest revision.
    pub revision: u64,
    /// Which set of policies is in force: decisions name it.
    pub in_force: String,
    /// The policies and templates, in the order of their ids.
    pub policies: Vec<Policy>,
    /// The token of the next page; null if this is the last.
    pub next_page_token: Option<String>,
}

impl From<PolicyPage> for ListPolicies {
    fn from(page: PolicyPage) -> Self {
        Self {
            revision: page.revision,
            in_force: page.in_force,
            policies: page.policies.into_iter().map(Policy::from).collect(),
            next_page_token: page.next,
        }
    }
}

/// What became of policies and grants.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changes {
    /// The policies that are others.
    pub policies: Vec<PolicyEdit>,
    /// The grants that were added.
    pub granted: Vec<Grant>,
    /// The grants that were taken back.
    pub revoked: Vec<Grant>,
}

/// What became of a policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyEdit {
    /// Its id.
    pub id: String,
    /// Its text before; null if it was not there.
    pub before: Option<String>,
    /// Its text after; null if it is gone.
    pub after: Option<String>,
}

impl Changes {
    /// Changes, with the names of the API keys in them.
    pub fn new(changes: PolicyChanges, keys: &ApiKeys) -> Self {
        let grants =
            |records: Vec<_>| records.into_iter().map(|grant| Grant::new(grant, keys)).collect();
        let policies = changes.policies.into_iter().map(|(id, edit)| PolicyEdit {
            id,
            before: edit.before.map(|policy| policy.text),
            after: edit.after.map(|policy| policy.text),
        });
        Self {
            policies: policies.collect(),
            granted: grants(changes.granted),
            revoked: grants(changes.revoked),
        }
    }
}

/// Answer of whatever changes policies or grants.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PoliciesChanged {
    /// The number of the newest revision.
    pub revision: u64,
    /// Which set of policies is in force, or would be.
    pub in_force: String,
    /// Whether it was only tried.
    pub dry_run: bool,
    /// What is otherwise now, or would be.
    pub changes: Changes,
    /// What is suspicious about the policies in force, such as a condition that is never true.
    pub warnings: Vec<String>,
}

impl PoliciesChanged {
    /// The outcome of a change.
    pub fn new(changed: Changed, keys: &ApiKeys) -> Self {
        let Changed { revision, in_force, dry_run, changes, grant: _, warnings } = changed;
        Self { revision, in_force, dry_run, changes: Changes::new(changes, keys), warnings }
    }
}

/// A revision of the policy log.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Revision {
    /// Its number.
    pub revision: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// By whom.
    pub by: String,
    /// Name of the API key that `by` is the id of; null for other principals.
    pub by_name: Option<String>,
    /// What was done: `put_policy`, `remove_policy`, `grant`, `revoke` or `roll_back_policies`.
    pub action: String,
    /// What whoever made it had to say; null if nothing.
    pub comment: Option<String>,
    /// The revision that it goes back to; null if it does not.
    pub rolled_back_to: Option<u64>,
    /// Which set of policies came into force with it.
    pub in_force: String,
    /// What became of policies and grants.
    pub changes: Changes,
}

impl Revision {
    /// A revision, with the names of the API keys in it.
    pub fn new(revision: PolicyRevision, keys: &ApiKeys) -> Self {
        Self {
            revision: revision.number,
            at_ms: revision.at_ms,
            by_name: keys.name_of(&revision.by),
            by: revision.by,
            action: revision.action,
            comment: revision.comment,
            rolled_back_to: revision.rolled_back_to,
            in_force: revision.in_force,
            changes: Changes::new(revision.changes, keys),
        }
    }
}

/// Answer of `GET /management/v1/policies/revisions`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListRevisions {
    /// The revisions, newest first.
    pub revisions: Vec<Revision>,
    /// The token of the next page; null if this is the last.
    pub next_page_token: Option<String>,
}

impl ListRevisions {
    /// A page of revisions.
    pub fn new(page: RevisionPage, keys: &ApiKeys) -> Self {
        let revisions = page.revisions.into_iter().map(|it| Revision::new(it, keys)).collect();
        Self { revisions, next_page_token: page.next }
    }
}

/// Answer of `GET /management/v1/policies/revisions/{number}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoadedRevision {
    /// What was changed with it; null for 0, with which the log begins.
    #[serde(flatten)]
    pub about: Option<Revision>,
    /// The policies of the API as they were with it, by id.
    pub policies: BTreeMap<String, String>,
    /// The grants as they were with it.
    pub grants: Vec<Grant>,
}

impl LoadedRevision {
    /// A revision, with the policies and grants of that time.
    pub fn new(told: ToldRevision, keys: &ApiKeys) -> Self {
        let policies = told.book.policies.into_iter().map(|(id, policy)| (id, policy.text));
        Self {
            about: told.revision.map(|revision| Revision::new(revision, keys)),
            policies: policies.collect(),
            grants: told.book.grants.into_values().map(|it| Grant::new(it, keys)).collect(),
        }
    }
}

/// Answer of `GET /management/v1/policies/revisions/{from}/diff/{to}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Diff {
    /// The revision that is compared.
    pub from: u64,
    /// The one that it is compared with.
    pub to: u64,
    /// What has to become of policies and grants to get from the one to the other.
    pub changes: Changes,
}
