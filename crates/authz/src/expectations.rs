//! Tests of policies. Compares the expected decisions in a file with the actual ones.
//!
//! `docs/authorization.md` documents the format.

mod invalid;
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::invalid::{InvalidExpectations, Result, invalid};
use self::reads::{ReadsEntry, rules_json, same};
use super::action::{Action, Load};
use super::context::Context;
use super::decide::Request;
use super::grants::{Grant, Grantee, GranteeKind};
use super::policy_set::PolicySet;
use super::resource::{Attributes, Kind, Resource};
use slateberg_base::rfc3339;
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// A file of expectations.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// Paths of policy files or directories, relative to this file. If it is empty, the default
    /// policies are tested.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Grants in addition to the policies.
    #[serde(default)]
    grants: Vec<GrantEntry>,
    /// Principals, by the names that expectations use.
    #[serde(default)]
    principals: BTreeMap<String, PrincipalEntry>,
    /// Resources, by the names that expectations use.
    #[serde(default)]
    resources: BTreeMap<String, ResourceEntry>,
    /// Default context of expectations.
    #[serde(default)]
    context: ContextEntry,
    /// Expected decisions.
    expect: Vec<Expectation>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct PrincipalEntry {
    /// Id of a user. Defaults to the entry's name.
    user: Option<String>,
    service_account: Option<String>,
    roles: BTreeSet<String>,
    groups: BTreeSet<String>,
    warehouses: Option<BTreeSet<String>>,
    authentication: Option<AuthenticationEntry>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AuthenticationEntry {
    Jwt,
    ApiKey,
    Mtls,
    Embedded,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ResourceEntry {
    catalog: Option<bool>,
    warehouse: Option<String>,
    namespace: Option<String>,
    table: Option<String>,
    view: Option<String>,
    function: Option<String>,
    properties: BTreeMap<String, String>,
    location: Option<String>,
    owner: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct GrantEntry {
    template: String,
    user: Option<String>,
    service_account: Option<String>,
    role: Option<String>,
    group: Option<String>,
    resource: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct ContextEntry {
    time: Option<String>,
    source_address: Option<IpAddr>,
    client: Option<String>,
    referenced_by: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    principal: OneOrMany,
    action: OneOrMany,
    resource: OneOrMany,
    decision: Verdict,
    /// Ids of the policies that must decide. No other policy may decide.
    by: Option<BTreeSet<String>>,
    /// Expected read restrictions of a table that may be loaded.
    reads: Option<ReadsEntry>,
    context: Option<ContextEntry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Allowed or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Allowed.
    Allow,
    /// Denied.
    Deny,
}

/// One decision of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Number of the `[[expect]]` entry in the file, from 1.
    pub expectation: usize,
    /// The principal, by its name in the file.
    pub principal: String,
    /// The action.
    pub action: String,
    /// The resource, by its name in the file.
    pub resource: String,
    /// Expected verdict.
    pub expected: Verdict,
    /// Actual verdict.
    pub decision: Verdict,
    /// The policies that decided.
    pub policies: Vec<String>,
    /// Whether the decision meets the expectation.
    pub passed: bool,
    /// If other policies decided: the policies that should have decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_policies: Option<Vec<String>>,
    /// The expected read restrictions of each permit policy, if the actual ones are different.
    /// Columns are identified by name. `true` if the whole table may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_reads: Option<Value>,
    /// The actual read restrictions, in the form of `expected_reads`, if the expectation includes
    /// read restrictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Value>,
}

/// A file of expectations with resolved names.
#[derive(Debug)]
pub struct Scenario {
    principals: BTreeMap<String, Arc<Identity>>,
    resources: BTreeMap<String, Resource>,
    grants: Vec<Grant>,
    context: Context,
    expect: Vec<Expectation>,
}

impl Expectations {
    /// Resolves the names of principals and resources.
    pub fn scenario(self) -> Result<Scenario> {
        let mut principals = BTreeMap::new();
        for (name, entry) in self.principals {
            let identity = entry.identity(&name)?;
            principals.insert(name, Arc::new(identity));
        }
        let resources = resources(self.resources)?;
        let grants = self.grants.into_iter().map(|grant| grant.grant(&resources));
        Ok(Scenario {
            principals,
            grants: grants.collect::<Result<_>>()?,
            resources,
            context: self.context.context(&Context::default())?,
            expect: self.expect,
        })
    }
}

impl Scenario {
    /// Returns the grants that are tested in addition to the policies.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Evaluates all expectations. An expectation with the name of a group is evaluated for all
    /// actions of the group that apply to the resource.
    pub fn run(&self, policies: &PolicySet) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for (number, expectation) in self.expect.iter().enumerate() {
            let at = |InvalidExpectations(message)| {
                InvalidExpectations(format!("expectation {}: {message}", number + 1))
            };
            self.ask(policies, number + 1, expectation, &mut outcomes).map_err(at)?;
        }
        Ok(outcomes)
    }

    fn ask(
        &self,
        policies: &PolicySet,
        number: usize,
        expectation: &Expectation,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<()> {
        let context = match &expectation.context {
            Some(entry) => entry.context(&self.context)?,
            None => self.context.clone(),
        };
        let reads = expectation.reads.as_ref().map(ReadsEntry::rules).transpose()?;
        let mut loads = false;
        for principal in expectation.principal.names() {
            let identity = named(&self.principals, "principal", principal)?;
            for name in expectation.resource.names() {
                let resource = named(&self.resources, "resource", name)?;
                for action in actions(policies, expectation.action.names(), resource)? {
                    let request = Request { identity, resource, context: &context };
                    let decision = policies.decide(action, request);
                    let verdict = if decision.allow { Verdict::Allow } else { Verdict::Deny };
                    let decided: BTreeSet<_> = decision.policies.iter().cloned().collect();
                    let by = expectation.by.clone().filter(|by| *by != decided);
                    let reads = reads.as_ref().filter(|_| action == Load::NAME);
                    loads |= reads.is_some();
                    let rules = decision.read_rules.as_deref();
                    let expected_reads = reads.filter(|reads| !same(reads.as_ref(), rules));
                    outcomes.push(Outcome {
                        expectation: number,
                        principal: principal.to_owned(),
                        action: action.to_owned(),
                        resource: name.to_owned(),
                        expected: expectation.decision,
                        decision: verdict,
                        policies: decision.policies,
                        passed: verdict == expectation.decision
                            && by.is_none()
                            && expected_reads.is_none(),
                        expected_policies: by.map(|by| by.into_iter().collect()),
                        expected_reads: expected_reads.map(|reads| rules_json(reads.as_ref())),
                        reads: reads.filter(|_| decision.allow).map(|_| rules_json(rules)),
                    });
                }
            }
        }
        if reads.is_some() && (!loads || expectation.decision == Verdict::Deny) {
            return invalid(
                "reads is allowed only with the action Load, a table and the decision allow",
            );
        }
        Ok(())
    }
}

/// Resolves the names of actions and groups.
fn actions<'a>(
    policies: &'a PolicySet,
    names: &'a [String],
    resource: &Resource,
) -> Result<Vec<&'a str>> {
    let schema = policies.schema();
    let kind = resource.kind().name();
    let mut actions = Vec::new();
    for name in names {
        match schema.applies(name, kind) {
            Some(true) => actions.push(name.as_str()),
            Some(false) => return invalid(format_args!("{name} does not apply to a {kind}")),
            None => {
                let members = schema.members(name);
                if members.is_empty() {
                    return invalid(format_args!("unknown action {name}"));
                }
                let applies = |member: &&str| schema.applies(member, kind) == Some(true);
                actions.extend(members.into_iter().filter(applies));
            }
        }
    }
    Ok(actions)
}

fn named<'a, T>(all: &'a BTreeMap<String, T>, what: &str, name: &str) -> Result<&'a T> {
    all.get(name).ok_or_else(|| InvalidExpectations(format!("the file defines no {what} '{name}'")))
}

impl OneOrMany {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

impl PrincipalEntry {
    fn identity(self, name: &str) -> Result<Identity> {
        let (kind, id) = match (self.user, self.service_account) {
            (Some(_), Some(_)) => {
                return invalid(format_args!(
                    "principal '{name}': expected at most one of user and service-account"
                ));
            }
            (None, Some(id)) => (IdentityKind::ServiceAccount, id),
            (user, None) => (IdentityKind::User, user.unwrap_or_else(|| name.to_owned())),
        };
        let method = match (self.authentication, kind) {
            (Some(AuthenticationEntry::Jwt), _) | (None, IdentityKind::User) => Method::Jwt,
            (Some(AuthenticationEntry::Mtls), _) => Method::Mtls,
            (Some(AuthenticationEntry::Embedded), _) => Method::Embedded,
            (Some(AuthenticationEntry::ApiKey), _) | (None, _) => Method::ApiKey,
        };
        Ok(Identity {
            kind,
            id,
            name: name.to_owned(),
            groups: self.groups,
            roles: self.roles,
            method,
            warehouses: self.warehouses,
        })
    }
}

impl ResourceEntry {
    fn resource(&self, name: &str) -> Result<Resource> {
        let paths = [
            (Kind::Warehouse, &self.warehouse),
            (Kind::Namespace, &self.namespace),
            (Kind::Table, &self.table),
            (Kind::View, &self.view),
            (Kind::Function, &self.function),
        ];
        let mut found: Vec<_> = paths
            .into_iter()
            .filter_map(|(kind, path)| Some(Resource::parse(kind, path.as_deref()?)))
            .collect();
        if self.catalog == Some(true) {
            found.push(Ok(Resource::catalog()));
        }
        let (Some(resource), true) = (found.pop(), found.is_empty()) else {
            let expected = "expected one of catalog, warehouse, namespace, table, view, function";
            return invalid(format_args!("resource '{name}': {expected}"));
        };
        resource.or_else(|error| invalid(format_args!("resource '{name}': {error}")))
    }

    fn attributes(&self) -> Attributes {
        Attributes {
            properties: self.properties.clone(),
            location: self.location.clone(),
            owner: self.owner.clone(),
        }
    }
}

/// Returns every resource with the attributes that the file gives to it and to its parents.
fn resources(entries: BTreeMap<String, ResourceEntry>) -> Result<BTreeMap<String, Resource>> {
    let mut known = BTreeMap::new();
    let mut resources = BTreeMap::new();
    for (name, entry) in entries {
        let resource = entry.resource(&name)?;
        known.insert((resource.kind(), resource.id()), Arc::new(entry.attributes()));
        resources.insert(name, resource);
    }
    let attributes = |resource: &Resource| {
        known.get(&(resource.kind(), resource.id())).cloned().unwrap_or_default()
    };
    for resource in resources.values_mut() {
        let mut all: Vec<_> = resource.enclosing().iter().map(attributes).collect();
        all.push(attributes(resource));
        *resource = resource.clone().with_all(all);
    }
    Ok(resources)
}

impl GrantEntry {
    fn grant(self, resources: &BTreeMap<String, Resource>) -> Result<Grant> {
        let grantees = [
            (GranteeKind::User, self.user),
            (GranteeKind::ServiceAccount, self.service_account),
            (GranteeKind::Role, self.role),
            (GranteeKind::Group, self.group),
        ];
        let mut named_ones = grantees.into_iter().filter_map(|(kind, id)| Some((kind, id?)));
        let (Some((kind, id)), None) = (named_ones.next(), named_ones.next()) else {
            return invalid("expected exactly one of user, service-account, role and group");
        };
        let resource = named(resources, "resource", &self.resource)?.clone();
        Ok(Grant { template: self.template, grantee: Grantee { kind, id }, resource })
    }
}

/// Returns the view with this path.
fn view(path: &str) -> Result<Resource> {
    Resource::parse(Kind::View, path).map_err(|wrong| InvalidExpectations(wrong.to_string()))
}

impl ContextEntry {
    fn context(&self, otherwise: &Context) -> Result<Context> {
        let now_ms = match &self.time {
            None => otherwise.now_ms,
            Some(text) => rfc3339::parse(text).ok_or_else(|| {
                InvalidExpectations(format!(
                    "'{text}' is not a time: expected one like 2026-01-31T09:00:00Z"
                ))
            })?,
        };
        Ok(Context {
            now_ms,
            source_address: self.source_address.or(otherwise.source_address),
            client: self.client.clone().or_else(|| otherwise.client.clone()),
            referenced_by: match &self.referenced_by[..] {
                [] => otherwise.referenced_by.clone(),
                views => views.iter().map(|path| view(path)).collect::<Result<_>>()?,
            },
        })
    }
}
