//! Explains decisions with the policies that determine them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::listing::{Origin, PolicyInForce, in_force};
use crate::policies::Policies;
use crate::resource_lookup::VISIBILITY_ACTIONS;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, Load};
use slateberg_authz::context::Context;
use slateberg_authz::decide::{CREDENTIAL_SCOPE, Request};
use slateberg_authz::notation;
pub use slateberg_authz::remedies::Remedies;
use slateberg_authz::resource::{Attributes, Kind, Resource};
use slateberg_base::boxed;
use slateberg_base::rfc3339;
use slateberg_model::members::brief;
use slateberg_model::principal::{Identity, Principal};
use slateberg_model::read_restrictions::ReadRules;

/// A hypothetical request.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The principal. `None` for the caller.
    pub about: Option<Arc<Identity>>,
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Hypothetical attributes of the resource, which replace the actual ones.
    pub given: Option<ExplainRequest>,
    /// The time, as in RFC 3339. `None` for the current time.
    pub time: Option<String>,
    /// The source address of the request.
    pub source_address: Option<IpAddr>,
    /// The client program of the request.
    pub client: Option<String>,
    /// The views through which the client reads, such as `view:prod/reports/eu_orders`.
    pub referenced_by: Vec<String>,
}

/// Hypothetical attributes of a resource.
#[derive(Debug, Clone, Default)]
pub struct ExplainRequest {
    /// The properties of the resource.
    pub properties: BTreeMap<String, String>,
    /// The location of the resource.
    pub location: Option<String>,
    /// The id of the resource's owner.
    pub owner: Option<String>,
}

/// An explained decision.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Whether the request is allowed.
    pub allow: bool,
    /// The policies that decided. Empty if the request is denied because no permit policy matches
    /// it.
    pub policies: Vec<PolicyInForce>,
    /// The read restrictions on rows and columns, if any.
    pub read_rules: Option<Arc<ReadRules>>,
    /// The principal of the request.
    pub identity: Arc<Identity>,
    /// The notation of the resource.
    pub resource: String,
    /// Whether the resource exists. `None` if the caller may not see it.
    pub exists: Option<bool>,
    /// Roles and grants that would permit the action. Empty for callers that may not read policies.
    pub remedies: Remedies,
    /// The number of the newest revision of stored policies and grants.
    pub revision: u64,
    /// The hash of the evaluated policy set.
    pub in_force: String,
}

/// The permissions of a principal on a resource.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// The principal.
    pub identity: Arc<Identity>,
    /// The notation of the resource.
    pub resource: String,
    /// The actions that are allowed, in alphabetical order.
    pub actions: Vec<String>,
    /// The read restrictions on rows and columns, if any.
    pub read_rules: Option<Arc<ReadRules>>,
    /// The hash of the evaluated policy set.
    pub in_force: String,
}

/// A hypothetical request in the form in which policies are evaluated.
struct HypotheticalRequest {
    identity: Arc<Identity>,
    resource: Resource,
    context: Context,
    /// Whether the resource exists. `None` if the caller may not see it.
    exists: Option<bool>,
}

impl Policies {
    /// Explains the decision on an action. Callers need no permit to explain their own requests.
    #[boxed]
    pub async fn explain(
        &self,
        operation: &Operation,
        action: &str,
        question: Question,
    ) -> Result<Explained> {
        let policies = self.authority().policies();
        let actions = [&VISIBILITY_ACTIONS[..], &[action]].concat();
        let hypothetical = self.hypothetical_request(operation, question, &actions).await?;
        let checked = policies.check_action(action, hypothetical.resource.kind());
        checked.map_err(Error::Invalid)?;
        let HypotheticalRequest { identity, resource, context, exists } = hypothetical;
        let request = Request { identity: &identity, resource: &resource, context: &context };
        let decision = policies.decide(action, request);
        // Remedies contain names of roles. Only callers that may read policies may see these names.
        let remedies = if self.reads_policies(operation) {
            policies.remedies(action, request, &decision)
        } else {
            Remedies::default()
        };
        let sources = self.state.sources();
        let deciding = decision.policies.iter().map(|id| match policies.listed(id) {
            Some(listed) => in_force(&sources, listed),
            None => no_policy(id),
        });
        Ok(Explained {
            allow: decision.allow,
            policies: deciding.collect(),
            read_rules: decision.read_rules,
            resource: notation::resource_text(&resource),
            exists,
            remedies,
            identity,
            revision: sources.book.number,
            in_force: decision.revision.to_string(),
        })
    }

    /// Returns all actions that a principal may do on a resource.
    #[boxed]
    pub async fn permissions(
        &self,
        operation: &Operation,
        question: Question,
    ) -> Result<Permissions> {
        let policies = self.authority().policies();
        let schema = policies.schema();
        let all: Vec<_> = schema.actions().collect();
        let hypothetical = self.hypothetical_request(operation, question, &all).await?;
        let HypotheticalRequest { identity, resource, context, .. } = hypothetical;
        let kind = resource.kind().name();
        let request = Request { identity: &identity, resource: &resource, context: &context };
        let allowed = |action: &&str| {
            schema.applies(action, kind) == Some(true) && policies.decide(action, request).allow
        };
        let actions = all.into_iter().filter(allowed).map(ToOwned::to_owned).collect();
        Ok(Permissions {
            resource: notation::resource_text(&resource),
            actions,
            read_rules: policies.decide(Load::NAME, request).read_rules,
            in_force: policies.revision().to_string(),
            identity,
        })
    }

    async fn hypothetical_request(
        &self,
        operation: &Operation,
        question: Question,
        actions: &[&str],
    ) -> Result<HypotheticalRequest> {
        self.require_caller(operation)?;
        let reads = self.reads_policies(operation);
        let oneself = match &operation.principal {
            Principal::Identified(identity) => Arc::clone(identity),
            Principal::Anonymous | Principal::Task(_) => {
                return Err(Error::Forbidden("Not allowed: the request is anonymous".to_owned()));
            }
        };
        let Question { about, resource, given, time, source_address, client, referenced_by } =
            question;
        let own = about.is_none();
        if !own {
            self.may_read_policies(operation)?;
        }
        let resource = self.core.access.resource_named(&resource)?;
        let bare = resource.clone();
        // For callers that may not see the resource, the result is based on names only, as for a
        // missing resource.
        let described = self.core.access.described(resource, actions).await?;
        let seen = reads || self.core.access.hidden(operation, &described).is_none();
        let exists = seen.then_some(described.there);
        let resource = if seen { described.resource } else { bare };
        let resource = match given {
            Some(ExplainRequest { properties, location, owner }) => {
                resource.with(Arc::new(Attributes { properties, location, owner }))
            }
            None => resource,
        };
        let now = if own {
            operation.context.clone()
        } else {
            Context { now_ms: self.core.now_ms(), ..Context::default() }
        };
        let now_ms = match &time {
            None => now.now_ms,
            Some(text) => rfc3339::parse(text).ok_or_else(|| {
                let like = "expected one like 2026-01-31T09:00:00Z";
                Error::Invalid(format!("'{}' is not a time: {like}", brief(text)))
            })?,
        };
        let context = Context {
            now_ms,
            source_address: source_address.or(now.source_address),
            client: client.or(now.client),
            referenced_by: self.views_named(&referenced_by)?,
        };
        Ok(HypotheticalRequest { identity: about.unwrap_or(oneself), resource, context, exists })
    }

    /// Returns the views with these names, such as `view:prod/reports/eu_orders`.
    fn views_named(&self, names: &[String]) -> Result<Vec<Resource>> {
        let view = |name: &String| match self.core.access.resource_named(name)? {
            view if view.kind() == Kind::View => Ok(view),
            _ => Err(Error::Invalid(format!("not a view: '{}'", brief(name)))),
        };
        names.iter().map(view).collect()
    }
}

/// Returns the entry for a denial whose cause is the scope of the credential and not a policy.
fn no_policy(id: &str) -> PolicyInForce {
    let message = (id == CREDENTIAL_SCOPE)
        .then(|| "The credential is limited to other warehouses.".to_owned());
    PolicyInForce {
        id: id.to_owned(),
        origin: Origin::Credential,
        from: None,
        template: false,
        forbids: true,
        description: message,
        text: String::new(),
    }
}
