//! Creates, lists and revokes grants, for principals that may manage grants on the resource.

use std::collections::HashMap;

use uuid::Uuid;

use super::allowed::{Allowed, name_of_grant};
use super::invalid;
use crate::error::MissingResource;
use crate::policies::Policies;
use crate::resource_lookup::VISIBILITY_ACTIONS;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, ManageGrants};
use slateberg_authz::listing::ListedKind;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::resource::{Kind, Resource};
use slateberg_base::boxed;
use slateberg_model::members::brief;
use slateberg_model::page::PageRequest;
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::records::GrantRecord;

/// Prefix of template ids, which callers may omit.
const TEMPLATE_PREFIX: &str = "grant-";

/// A grant to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGrant {
    /// The template's id, such as `grant-read`, or the id without the prefix.
    pub template: String,
    /// The grantee, such as `role:analysts`.
    pub grantee: String,
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
}

/// Filter for a listing of grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantFilter {
    /// Return only grants to this grantee.
    pub grantee: Option<String>,
    /// Return only grants on this resource, not on its parents or children.
    pub resource: Option<String>,
}

/// A page of grants, in the order of creation.
#[derive(Debug, Clone)]
pub struct GrantPage {
    /// The grants, each with its policy id in decisions.
    pub grants: Vec<(GrantRecord, String)>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// Returns the grant with this id.
pub(super) fn find(book: &PolicySnapshot, id: &str) -> Result<GrantRecord> {
    let found = Uuid::try_parse(id).ok().and_then(|id| book.grants.get(&id).cloned());
    found.ok_or_else(|| Error::NotFound(MissingResource::Grant(id.to_owned())))
}

/// Returns the policy id of a grant in decisions.
pub(super) fn policy_id(record: &GrantRecord) -> Result<String> {
    Ok(super::sources::grant_of(record).map_err(Error::internal)?.to_string())
}

fn resource_of(name: &str) -> Result<Resource> {
    Ok(notation::resource(name)?)
}

impl NewGrant {
    /// Returns the equal grant in `book`, if any.
    pub(super) fn find(&self, policies: &PolicySet, book: &PolicySnapshot) -> Option<GrantRecord> {
        let template = template(policies, &self.template)?;
        let same = |record: &&GrantRecord| {
            record.template == template
                && record.grantee == self.grantee
                && record.resource == self.resource
        };
        book.grants.values().find(same).cloned()
    }

    /// Adds the grant to `book`, unless an equal grant exists. Returns the id and the name of the
    /// grant in the change log.
    pub(super) fn make(
        &self,
        policies: &Policies,
        operation: &Operation,
        book: &mut PolicySnapshot,
    ) -> Result<(Uuid, String)> {
        let set = policies.authority().policies();
        let Some(template) = template(&set, &self.template) else {
            return Err(Error::Invalid(format!(
                "Unknown privilege '{}'. Write one of {}",
                brief(&self.template),
                templates(&set).join(", ")
            )));
        };
        if let Some(record) = self.find(&set, book) {
            return Ok((record.id, name_of_grant(&record)));
        }
        let record = GrantRecord {
            id: policies.core.ids().ordered(),
            template,
            grantee: self.grantee.clone(),
            resource: self.resource.clone(),
            created_ms: policies.core.now_ms(),
            created_by: operation.principal.id().to_owned(),
        };
        super::sources::grant_of(&record).map_err(|problem| invalid(&[problem]))?;
        let subject = (record.id, name_of_grant(&record));
        book.grants.insert(record.id, record);
        Ok(subject)
    }
}

/// Returns the id of the template with this full or short name.
fn template(policies: &PolicySet, name: &str) -> Option<String> {
    let is_template = |id: &String| {
        let listed = policies.listed(id);
        listed.is_some_and(|listed| matches!(listed.kind, ListedKind::Template(..)))
    };
    [name.to_owned(), format!("{TEMPLATE_PREFIX}{name}")].into_iter().find(is_template)
}

fn templates(policies: &PolicySet) -> Vec<String> {
    let template = |kind: &ListedKind| matches!(kind, ListedKind::Template(..));
    let templates = policies.list().into_iter().filter(|it| template(&it.kind));
    let name = |id: &str| id.strip_prefix(TEMPLATE_PREFIX).unwrap_or(id).to_owned();
    templates.map(|it| name(&it.id)).collect()
}

impl Policies {
    /// Returns the visible grants. Callers that may read or manage policies see all grants. Other
    /// callers see grants on resources whose grants they may manage.
    #[boxed]
    pub async fn grants(
        &self,
        operation: &Operation,
        filter: &GrantFilter,
        page: &PageRequest,
    ) -> Result<GrantPage> {
        let all = self.reads_all_grants(operation)?;
        if let Some(name) = &filter.grantee {
            notation::grantee(name)?;
        }
        if let Some(name) = &filter.resource {
            resource_of(name)?;
        }
        let after = match &page.after {
            None => None,
            Some(after) => Some(
                Uuid::try_parse(after)
                    .map_err(|_| Error::Invalid("Invalid page token".to_owned()))?,
            ),
        };
        let book = self.state.sources().book;
        let matches = |record: &&GrantRecord| {
            after.is_none_or(|after| record.id > after)
                && filter.grantee.as_ref().is_none_or(|it| *it == record.grantee)
                && filter.resource.as_ref().is_none_or(|it| *it == record.resource)
        };
        let mut known = HashMap::new();
        let mut found = Vec::new();
        for record in book.grants.values().filter(matches) {
            if !all && !self.manages_grants_on(operation, &record.resource, &mut known).await? {
                continue;
            }
            if page.limit.is_some_and(|limit| found.len() >= limit) {
                let last = found.last().map(|(record, _): &(GrantRecord, _)| record.id.to_string());
                return Ok(GrantPage { grants: found, next: last.map(|last| page.token(&last)) });
            }
            found.push((record.clone(), policy_id(record)?));
        }
        Ok(GrantPage { grants: found, next: None })
    }

    /// Returns a grant. Errors with `NoSuchPolicy` if the caller may not see it.
    #[boxed]
    pub async fn grant(&self, operation: &Operation, id: &str) -> Result<(GrantRecord, String)> {
        let all = self.reads_all_grants(operation)?;
        let record = find(&self.state.sources().book, id)?;
        let sees =
            all || self.manages_grants_on(operation, &record.resource, &mut HashMap::new()).await?;
        if !sees {
            return Err(Error::NotFound(MissingResource::Grant(id.to_owned())));
        }
        let policy = policy_id(&record)?;
        Ok((record, policy))
    }

    /// Whether the caller may see all grants. Errors on a server without authentication.
    fn reads_all_grants(&self, operation: &Operation) -> Result<bool> {
        self.require_caller(operation)?;
        Ok(self.reads_policies(operation) || self.manages_policies(operation).is_some())
    }

    async fn manages_grants_on(
        &self,
        operation: &Operation,
        name: &str,
        known: &mut HashMap<String, bool>,
    ) -> Result<bool> {
        if let Some(manages) = known.get(name) {
            return Ok(*manages);
        }
        let described =
            self.core.access.described(resource_of(name)?, &[ManageGrants::NAME]).await?;
        let manages = self.core.access.may::<ManageGrants>(operation, &described.resource);
        known.insert(name.to_owned(), manages);
        Ok(manages)
    }

    /// Returns the permit to create a grant. The resource must exist, because a grant on a mistyped
    /// name would have no effect, and the mistake would not be noticed.
    pub(super) async fn may_grant(
        &self,
        operation: &Operation,
        matches: &NewGrant,
    ) -> Result<Allowed> {
        self.require_caller(operation)?;
        notation::grantee(&matches.grantee)?;
        let resource = self.core.access.resource_named(&matches.resource)?;
        if resource.kind() == Kind::Catalog {
            let instead = "assign a role, or write a policy";
            return Err(Error::Invalid(format!(
                "Grants on the catalog are not supported: {instead}"
            )));
        }
        let actions = [&VISIBILITY_ACTIONS[..], &[ManageGrants::NAME]].concat();
        let described = self.core.access.described(resource, &actions).await?;
        if let Some(permit) = self.manages_policies(operation) {
            return match self.core.access.missing(&described) {
                None => Ok(Allowed::Policies(permit)),
                Some(missing) => Err(missing),
            };
        }
        let permit: Result<Permit<ManageGrants>> = self.permit_to(operation, &described.resource);
        match (permit, self.core.access.hidden(operation, &described)) {
            (Ok(permit), _) if described.there => Ok(Allowed::Grants(permit)),
            (_, Some(hidden)) => Err(self.core.access.without_permissions(operation, hidden)),
            (Err(refused), None) => Err(refused),
            (Ok(_), None) => Err(Error::internal("a resource is visible but missing")),
        }
    }

    /// Returns the permit to revoke a grant. The resource of the grant need not exist.
    pub(super) async fn may_revoke(&self, operation: &Operation, id: &str) -> Result<Allowed> {
        self.require_caller(operation)?;
        let record = find(&self.state.sources().book, id);
        if let Some(permit) = self.manages_policies(operation) {
            return record.map(|_| Allowed::Policies(permit));
        }
        let record = record?;
        let described = self
            .core
            .access
            .described(resource_of(&record.resource)?, &[ManageGrants::NAME])
            .await?;
        let permit: Result<Permit<ManageGrants>> = self.permit_to(operation, &described.resource);
        permit.map(Allowed::Grants).map_err(|refused| match self.reads_policies(operation) {
            true => refused,
            // The error is the same as for a missing grant.
            false => Error::NotFound(MissingResource::Grant(id.to_owned())),
        })
    }
}
