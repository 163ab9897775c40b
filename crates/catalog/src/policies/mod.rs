//! Stored policies and grants, which callers create, change and remove at run time.
//!
//! One policy set is in force. It consists of the policy files, and of the stored policies and
//! grants. A change of the stored policies or grants:
//! 1. waits for the lock on policy changes ([`change`]);
//! 2. is authorized by the policies in force. The resulting policy set is validated as a whole. A
//!    change that would lock out all administrators is rejected;
//! 3. is written as a revision of the policy log. The same transaction writes the entry in the
//!    change log;
//! 4. comes into force when it is durable, and before the response is sent. So it applies to the
//!    next request.
//!
//! After a failure in step 3, the change holds the lock until the server has read the policy log
//! and has put its content in force. [`history`] lists and compares revisions, [`listing`] lists
//! the policies in force, [`grants`] lists the grants, and [`explain`] explains decisions of
//! policies.

mod allowed;
pub mod change;
pub mod explain;
mod files;
pub mod grants;
pub mod history;
pub mod listing;
mod reconcile;
pub(crate) mod sources;

use std::sync::{Arc, PoisonError, RwLock};

pub use slateberg_store::records::{GrantRecord, PolicyChanges, PolicyRevision};

pub use sources::Sources;

use super::access::Access;
use super::core::Core;
use super::serial_lock::SerialLock;
use super::{Error, Operation, Result};
use slateberg_authz::action::{Action, ManagePolicies, ReadPolicies};
use slateberg_authz::authority::Authority;
use slateberg_authz::permit::Permit;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::problem::Problem;
use slateberg_authz::resource::Resource;
use slateberg_authz::settings::Limits;
use slateberg_model::principal::Principal;

/// Policies and grants, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Policies {
    core: Arc<Core>,
    state: Arc<PolicyState>,
    limits: Limits,
}

/// The sources of the policy set in force, and the lock on changes.
struct PolicyState {
    sources: RwLock<Sources>,
    turns: SerialLock,
}

impl PolicyState {
    /// Returns the sources in force.
    fn sources(&self) -> Sources {
        self.sources.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a set in force. The caller must hold the lock on changes.
    fn put_in_force(&self, access: &Access, sources: Sources, set: PolicySet) {
        *self.sources.write().unwrap_or_else(PoisonError::into_inner) = sources;
        access.put_policies_in_force(set);
    }
}

/// Joins problems into one error for the author of the policies.
fn invalid(problems: &[Problem]) -> Error {
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Error::Invalid(format!("The policies are not valid:\n{}", lines.join("\n")))
}

impl Policies {
    /// Creates this part of the catalog. `sources` must be in force already.
    pub(crate) fn new(core: &Arc<Core>, sources: Sources, limits: Limits) -> Self {
        let state = PolicyState { sources: RwLock::new(sources), turns: SerialLock::default() };
        Self { core: Arc::clone(core), state: Arc::new(state), limits }
    }

    fn authority(&self) -> &Authority {
        &self.core.access.authority
    }

    /// Returns the permit to do `A` on `resource`. A server without authentication cannot identify
    /// administrators. It rejects all changes, because they would stay in force after
    /// authentication is enabled.
    fn permit_to<A: Action>(
        &self,
        operation: &Operation,
        resource: &Resource,
    ) -> Result<Permit<A>> {
        self.require_caller(operation)?;
        let Operation { principal, context, .. } = operation;
        self.authority()
            .authorize(principal, resource, context)
            .map_err(|denied| self.core.access.refuse(operation, &denied, resource, None))
    }

    /// Rejects anonymous requests.
    fn require_caller(&self, operation: &Operation) -> Result<()> {
        match operation.principal {
            Principal::Anonymous => Err(Error::Forbidden(
                "Not allowed: a server without authentication evaluates no policies".to_owned(),
            )),
            Principal::Task(_) | Principal::Identified(_) => Ok(()),
        }
    }

    /// Returns the hash of the policy set in force. Decisions contain the same hash.
    pub fn policy_hash(&self) -> String {
        self.authority().policies().revision().to_string()
    }

    /// Returns the number of the newest revision of policies and grants, or 0 before the first one.
    pub fn newest_policy_revision(&self) -> u64 {
        self.state.sources().book.number
    }

    /// Returns an error if the caller may not read policies.
    pub fn may_read_policies(&self, operation: &Operation) -> Result<()> {
        let _permit: Permit<ReadPolicies> = self.permit_to(operation, &Resource::catalog())?;
        Ok(())
    }

    fn may_manage_policies(&self, operation: &Operation) -> Result<Permit<ManagePolicies>> {
        self.permit_to(operation, &Resource::catalog())
    }

    /// Whether the caller may read policies, for responses that depend on this.
    fn reads_policies(&self, operation: &Operation) -> bool {
        self.require_caller(operation).is_ok()
            && self.core.access.may::<ReadPolicies>(operation, &Resource::catalog())
    }

    /// Returns the permit to manage policies, if the caller has it.
    fn manages_policies(&self, operation: &Operation) -> Option<Permit<ManagePolicies>> {
        self.require_caller(operation).ok()?;
        let Operation { principal, context, .. } = operation;
        self.authority().authorize(principal, &Resource::catalog(), context).ok()
    }
}
