//! Policies and grants that are made, changed and taken back while the server runs.
//!
//! What is in force is one set: the policy files, and what the policy book holds. A change of the book:
//! 1. waits for its turn: one change after the other ([`change`]);
//! 2. is judged by the policies then in force, put together with everything else and checked as a whole;
//!    nobody may be locked out by it;
//! 3. is written as a revision of the log, with its entry in the change log, in one transaction;
//! 4. comes into force once it is durable, and before anybody is told: it decides the next request.
//!
//! Whatever fails in between, the turn does not end before it is known what the log says, and that is in
//! force. [`history`] tells and compares revisions, [`listing`] what is in force, [`grants`] who was granted
//! what, [`explain`] what policies would say.

mod allowed;
pub mod change;
pub mod explain;
mod files;
pub mod grants;
pub mod history;
pub mod listing;
mod settle;

use std::sync::{Arc, PoisonError, RwLock};

pub use slateberg_store::records::{GrantRecord, PolicyChanges, PolicyRevision};

use super::core::Core;
use super::turns::Turns;
use super::{Error, Operation, Result};
use slateberg_authz::action::{Action, ManagePolicies, ReadPolicies};
use slateberg_authz::authority::Authority;
use slateberg_authz::grants::Grant;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::problem::Problem;
use slateberg_authz::resource::Resource;
use slateberg_authz::schema::Schema;
use slateberg_authz::settings::Limits;
use slateberg_model::principal::Principal;
use slateberg_store::policy_book::PolicyBook;

/// What the set in force is made of.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The policy files.
    pub files: Arc<Vec<PolicyFile>>,
    /// What was made at run time.
    pub book: Arc<PolicyBook>,
    /// Whether that is in force.
    pub book_in_force: bool,
}

/// Policies and grants, as requests see and change them. Cheap to clone.
#[derive(Clone)]
pub struct Policies {
    core: Arc<Core>,
    state: Arc<PolicyState>,
    limits: Limits,
}

/// What is in force and what it is made of, and the turns of those who change that.
struct PolicyState {
    sources: RwLock<Sources>,
    turns: Turns,
}

impl PolicyState {
    /// What is in force.
    fn sources(&self) -> Sources {
        self.sources.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a set in force. Only whoever has the turn may.
    fn put_in_force(&self, authority: &Authority, sources: Sources, set: PolicySet) {
        *self.sources.write().unwrap_or_else(PoisonError::into_inner) = sources;
        authority.replace(set);
    }
}

impl Sources {
    /// The whole set: all of it, or the list of what is wrong with it.
    pub fn build(&self, schema: Arc<Schema>) -> std::result::Result<PolicySet, Vec<Problem>> {
        if !self.book_in_force {
            return PolicySet::build(schema, &self.files, &[]);
        }
        let made = self.book.policies.values();
        let made =
            made.map(|record| PolicyFile { name: place(&record.id), text: record.text.clone() });
        let files: Vec<_> = self.files.iter().cloned().chain(made).collect();
        let mut problems = Vec::new();
        let mut grants = Vec::new();
        for record in self.book.grants.values() {
            match grant_of(record) {
                Ok(grant) => grants.push(grant),
                Err(problem) => problems.push(problem),
            }
        }
        match PolicySet::build(schema, &files, &grants) {
            Ok(set) if problems.is_empty() => Ok(set),
            Ok(_) => Err(problems),
            Err(others) => Err([problems, others].concat()),
        }
    }
}

/// What stands in for a file where a problem is with a policy that was made at run time.
fn place(id: &str) -> String {
    format!("api/{id}")
}

/// A grant from its record.
fn grant_of(record: &GrantRecord) -> std::result::Result<Grant, Problem> {
    let wrong = |error: notation::NotAName| Problem {
        file: "grants".to_owned(),
        line: 1,
        column: 1,
        message: format!("{}: {error}", record.id),
    };
    Ok(Grant {
        template: record.template.clone(),
        grantee: notation::grantee(&record.grantee).map_err(wrong)?,
        resource: notation::resource(&record.resource).map_err(wrong)?,
    })
}

/// Problems as one text for whoever has to mend them.
fn invalid(problems: &[Problem]) -> Error {
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Error::Invalid(format!("The policies are not valid:\n{}", lines.join("\n")))
}

impl Policies {
    /// `sources` are in force already.
    pub(crate) fn new(core: &Arc<Core>, sources: Sources, limits: Limits) -> Self {
        let state = PolicyState { sources: RwLock::new(sources), turns: Turns::default() };
        Self { core: Arc::clone(core), state: Arc::new(state), limits }
    }

    fn authority(&self) -> &Authority {
        &self.core.access.authority
    }

    /// The permit to do `A` to `resource`, or the refusal. A server without authentication has nobody to say
    /// who may: what was made there would be a door that stays open.
    fn permit_to<A: Action>(
        &self,
        operation: &Operation,
        resource: &Resource,
    ) -> Result<Permit<A>> {
        self.refuse_nobody(operation)?;
        let Operation { principal, context, .. } = operation;
        self.authority()
            .authorize(principal, resource, context)
            .map_err(|denied| self.core.access.refuse(operation, &denied, resource, None))
    }

    /// Refuses everybody where nobody is known.
    fn refuse_nobody(&self, operation: &Operation) -> Result<()> {
        match operation.principal {
            Principal::Anonymous => Err(Error::Forbidden(
                "Not allowed: a server without authentication asks no policies".to_owned(),
            )),
            Principal::Task(_) | Principal::Identified(_) => Ok(()),
        }
    }

    /// Which policies decide: the hash that decisions name.
    pub fn policy_hash(&self) -> String {
        self.authority().policies().revision().to_string()
    }

    /// The number of the newest change of policies and grants; 0 if there was none.
    pub fn newest_policy_revision(&self) -> u64 {
        self.state.sources().book.number
    }

    /// The permit to read policies, or the refusal.
    pub fn may_read_policies(&self, operation: &Operation) -> Result<()> {
        let _permit: Permit<ReadPolicies> = self.permit_to(operation, &Resource::catalog())?;
        Ok(())
    }

    fn may_manage_policies(&self, operation: &Operation) -> Result<Permit<ManagePolicies>> {
        self.permit_to(operation, &Resource::catalog())
    }

    /// Whether somebody may read policies, where that makes a difference and is not what they have asked for.
    fn reads_policies(&self, operation: &Operation) -> bool {
        self.refuse_nobody(operation).is_ok()
            && self.core.access.may::<ReadPolicies>(operation, &Resource::catalog())
    }

    /// The same for managing them.
    fn manages_policies(&self, operation: &Operation) -> Option<Permit<ManagePolicies>> {
        self.refuse_nobody(operation).ok()?;
        let Operation { principal, context, .. } = operation;
        self.authority().authorize(principal, &Resource::catalog(), context).ok()
    }
}
