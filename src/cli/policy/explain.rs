//! `slateberg policy explain`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Error;
use crate::cli::client::Connection;
use crate::cli::output::{Output, print_json, table, text as cell};
use crate::cli::{key_value, print};
use slateberg_authz::context::Context;
use slateberg_authz::decide::{CREDENTIAL_SCOPE, Decision, Request};
use slateberg_authz::notation::resource_word;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::resource::{Attributes, Kind, Resource};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::rfc3339;
use slateberg_model::principal::{ANY_USER_ID, Identity, IdentityKind, Method};
use slateberg_model::read_restrictions::{ReadRule, ReadRules};
use slateberg_runtime::policies::{self, build, read};

/// The exit code of a denial.
pub(super) const DENIED: u8 = 3;

const URL_HELP: &str =
    "URL of the server to query [env: SLATEBERG_URL] [default: none, but local policies]";

/// Explain a decision: which policies permit or forbid an action.
#[derive(Debug, Args)]
#[command(mut_arg("url", |url| url.help(URL_HELP)))]
pub(super) struct Explain {
    #[command(flatten)]
    pub(super) who: Who,
    /// Action, such as Load, Drop or `CommitData`
    #[arg(long, value_name = "ACTION")]
    pub(super) action: String,
    #[command(flatten)]
    pub(super) what: What,
    #[command(flatten)]
    pub(super) circumstances: Circumstances,
    /// Policy files or directories to evaluate, instead of the policies of a server [default without a
    /// server: the built-in policies]
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    policies: Vec<PathBuf>,
    /// Evaluate local policies even if `SLATEBERG_URL` is set
    #[arg(long, conflicts_with = "url")]
    offline: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Who {
    /// User, as ISSUER/SUBJECT [default with a server: the caller]
    #[arg(long, value_name = "ID")]
    pub(super) user: Option<String>,
    /// Service account: the ID of an API key
    #[arg(long, value_name = "ID", conflicts_with = "user")]
    pub(super) service_account: Option<String>,
    /// API key of the server by its ID or name, with its roles and warehouses
    #[arg(
        long,
        value_name = "ID|NAME",
        conflicts_with_all = [
            "user", "service_account", "roles", "groups", "warehouses", "policies", "offline",
        ],
    )]
    pub(super) key: Option<String>,
    /// Role of the principal. Alone: what the role permits. Repeatable
    #[arg(long = "role", value_name = "ROLE")]
    pub(super) roles: Vec<String>,
    /// Group of the principal. Alone: what the group permits. Repeatable
    #[arg(long = "group", value_name = "GROUP")]
    pub(super) groups: Vec<String>,
    /// Limit the credential to this warehouse. Repeatable [default: all]
    #[arg(long = "scope", value_name = "WAREHOUSE")]
    pub(super) warehouses: Vec<String>,
    /// Authentication method to assume [default: jwt for a user, api-key for a service account]
    #[arg(long, value_enum)]
    pub(super) authentication: Option<Authentication>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Authentication {
    /// Token of an external issuer
    Jwt,
    /// API key
    ApiKey,
    /// Client certificate
    Mtls,
    /// None: the catalog is embedded in the process of the caller
    Embedded,
}

impl Authentication {
    pub(super) fn method(self) -> Method {
        match self {
            Self::Jwt => Method::Jwt,
            Self::ApiKey => Method::ApiKey,
            Self::Mtls => Method::Mtls,
            Self::Embedded => Method::Embedded,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct What {
    #[command(flatten)]
    place: Place,
    /// Property of the resource. Repeatable
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) properties: Vec<(String, String)>,
    /// Location of the resource
    #[arg(long, value_name = "URL")]
    pub(super) location: Option<String>,
    /// ID of the principal that created the resource
    #[arg(long, value_name = "ID")]
    pub(super) owner: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Place {
    /// The resource is the catalog itself
    #[arg(long)]
    catalog: bool,
    /// The resource is this warehouse
    #[arg(long, value_name = "WAREHOUSE")]
    warehouse: Option<String>,
    /// The resource is this namespace
    #[arg(long, value_name = "WAREHOUSE/LEVEL...")]
    namespace: Option<String>,
    /// The resource is this table
    #[arg(long, value_name = "WAREHOUSE/LEVEL.../NAME")]
    table: Option<String>,
    /// The resource is this view
    #[arg(long, value_name = "WAREHOUSE/LEVEL.../NAME")]
    view: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Circumstances {
    /// Time of the request, such as 2026-01-31T09:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    pub(super) time: Option<String>,
    /// Source address of the request
    #[arg(long, value_name = "ADDRESS")]
    pub(super) source_address: Option<IpAddr>,
    /// Name that the client gives itself
    #[arg(long, value_name = "TEXT")]
    pub(super) client: Option<String>,
}

impl Explain {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        if self.asks_server() {
            return super::ask::ask(&self);
        }
        self.who.check_offline()?;
        let policies = build(&read(&self.policies)?, &[]).map_err(policies::Error::Invalid)?;
        let identity = Arc::new(self.who.identity());
        let resource = self.what.resource()?;
        let context = self.circumstances.context()?;
        policies.check_action(&self.action, resource.kind()).map_err(Error::Usage)?;
        let request = Request { identity: &identity, resource: &resource, context: &context };
        let decision = policies.decide(&self.action, request);
        match self.connection.output {
            Output::Table => {
                let whose = self.who.word().unwrap_or_default();
                let remedies = policies.remedies(&self.action, request, &decision);
                let remedies = remedies.text(&whose, &resource_word(&resource));
                let whose = whose_text(&whose);
                let said = format!("{}: {whose} {} {resource}\n", word(&decision), self.action);
                print(&format!("{said}{}{remedies}", text(&policies, &decision)));
            }
            Output::Json => print_json(&json!({
                "decision": word(&decision),
                "policies": decision.policies,
                "read-rules": decision.read_rules.as_deref().map(rules),
                "revision": decision.revision.to_string(),
                "action": self.action,
                "resource": resource.to_string(),
            })),
        }
        Ok(ExitCode::from(if decision.allow { 0 } else { DENIED }))
    }
}

impl Explain {
    /// Whether the policies that are asked are those in force on a server: they are if there is word of one,
    /// and none of other policies.
    fn asks_server(&self) -> bool {
        let offline = self.offline || !self.policies.is_empty();
        !offline && self.connection.is_said()
    }
}

fn word(decision: &Decision) -> &'static str {
    if decision.allow { "allow" } else { "deny" }
}

/// What each policy lets be read of a table, as the server tells it.
fn rules(rules: &ReadRules) -> Value {
    let rule = |rule: &Arc<ReadRule>| {
        let mut said = rule.to_json();
        said["policy"] = json!(rule.policy);
        said
    };
    rules.rules().iter().map(rule).collect()
}

/// The same as a table; nothing if all may be read.
pub(super) fn rules_text(rules: &Value) -> String {
    let Some(rules) = rules.as_array() else { return String::new() };
    let row = |rule: &Value| {
        let masks = rule["column-masks"].as_object().into_iter().flatten();
        let masks: Vec<_> = masks.map(|(name, mask)| format!("{name}: {}", cell(mask))).collect();
        [cell(&rule["policy"]), rule["row-filter"].to_string(), masks.join(", ")]
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    format!("\nwhat may be read:\n{}", table(["POLICY", "ROWS", "MASKED COLUMNS"], &rows))
}

fn text(policies: &PolicySet, decision: &Decision) -> String {
    if decision.policies.is_empty() {
        return "no policy permits it\n".to_owned();
    }
    let row = |id: &String| {
        let summary = policies.summary(id);
        let forbids = summary.as_ref().is_none_or(|summary| summary.forbids);
        let description = match summary {
            Some(summary) => summary.description.unwrap_or_default(),
            None if id == CREDENTIAL_SCOPE => {
                "the credential is limited to other warehouses".to_owned()
            }
            None => String::new(),
        };
        let effect = if forbids { "forbid" } else { "permit" };
        [id.clone(), effect.to_owned(), description]
    };
    let rows: Vec<_> = decision.policies.iter().map(row).collect();
    let rules = decision.read_rules.as_deref().map(rules).unwrap_or_default();
    let policies = table(["POLICY", "EFFECT", "DESCRIPTION"], &rows);
    format!("{policies}{}", rules_text(&rules))
}

/// A principal in an answer: a user or service account by its id alone.
pub(super) fn whose_text(word: &str) -> &str {
    let id = word.strip_prefix("user:").or_else(|| word.strip_prefix("service-account:"));
    id.unwrap_or(word)
}

impl Who {
    /// Refuses what only a server knows: its keys, and whom a credential belongs to.
    fn check_offline(&self) -> Result<(), Error> {
        let server = "--url or SLATEBERG_URL says which server to ask";
        if self.key.is_some() {
            return Err(Error::Usage(format!("--key is about a key of a server: {server}")));
        }
        if self.word().is_none() {
            let who = "name the principal: --user, --service-account, --role or --group";
            return Err(Error::Usage(format!("{who}; or {server}")));
        }
        Ok(())
    }

    /// The principal as a grantee, such as `role:analysts`. `None` for an API key and for oneself.
    pub(super) fn word(&self) -> Option<String> {
        let named = [
            ("user", self.user.as_ref()),
            ("service-account", self.service_account.as_ref()),
            ("role", self.roles.first()),
            ("group", self.groups.first()),
        ];
        let mut named = named.into_iter();
        named.find_map(|(kind, id)| Some(format!("{kind}:{}", id?)))
    }

    fn identity(&self) -> Identity {
        let (kind, id, method) = match (&self.user, &self.service_account) {
            (_, Some(id)) => (IdentityKind::ServiceAccount, id.clone(), Method::ApiKey),
            (user, None) => {
                let id = user.clone().unwrap_or_else(|| ANY_USER_ID.to_owned());
                (IdentityKind::User, id, Method::Jwt)
            }
        };
        let method = self.authentication.map_or(method, Authentication::method);
        Identity {
            kind,
            name: id.clone(),
            id,
            groups: self.groups.iter().cloned().collect(),
            roles: self.roles.iter().cloned().collect(),
            method,
            warehouses: (!self.warehouses.is_empty())
                .then(|| self.warehouses.iter().cloned().collect()),
        }
    }
}

impl What {
    pub(super) fn resource(&self) -> Result<Resource, Error> {
        let place = &self.place;
        let paths = [
            (Kind::Warehouse, &place.warehouse),
            (Kind::Namespace, &place.namespace),
            (Kind::Table, &place.table),
            (Kind::View, &place.view),
        ];
        let named = paths.into_iter().find_map(|(kind, path)| Some((kind, path.as_deref()?)));
        let Some((kind, path)) = named else { return Ok(Resource::catalog()) };
        let resource =
            Resource::parse(kind, path).map_err(|error| Error::Usage(error.to_string()))?;
        Ok(resource.with(Arc::new(Attributes {
            properties: self.properties.iter().cloned().collect(),
            location: self.location.clone(),
            owner: self.owner.clone(),
        })))
    }
}

impl Circumstances {
    fn context(&self) -> Result<Context, Error> {
        let now_ms = match &self.time {
            None => SystemClock.now_ms(),
            Some(text) => rfc3339::parse(text).ok_or_else(|| {
                Error::Usage(format!("'{text}' is no time: expected one like 2026-01-31T09:00:00Z"))
            })?,
        };
        Ok(Context { now_ms, source_address: self.source_address, client: self.client.clone() })
    }
}
