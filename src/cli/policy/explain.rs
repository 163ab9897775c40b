//! `slateberg policy explain`: evaluates a hypothetical request with local policies, or sends it to
//! a server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::decision::{DENIED_EXIT_CODE, principal_id, rules_text};
use super::error::Error;
use super::explain_online::explain_online;
use super::question::Question;
use crate::cli::client::Connection;
use crate::cli::output::print;
use crate::cli::output::{Output, print_json, table};
use slateberg_authz::decide::{CREDENTIAL_SCOPE, Decision, Request};
use slateberg_authz::notation::resource_text;
use slateberg_authz::policy_set::PolicySet;
use slateberg_management::decisions::ReadRule;
use slateberg_model::expression::Expression;
use slateberg_model::read_restrictions::ReadRules;
use slateberg_runtime::policies::{self, build, read};

const URL_HELP: &str = "URL of the server to query [env: SLATEBERG_URL] [default: no server; local policies are evaluated]";

/// Explain a decision: which policies permit or forbid an action.
#[derive(Debug, Args)]
#[command(mut_arg("url", |url| url.help(URL_HELP)))]
pub(super) struct Explain {
    #[command(flatten)]
    question: Question,
    /// Policy files or directories to evaluate, instead of the policies of a server [default
    /// without a server: the built-in policies]
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    policies: Vec<PathBuf>,
    /// Evaluate local policies even if `SLATEBERG_URL` is set
    #[arg(long, conflicts_with = "url")]
    offline: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Explain {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        if self.is_online() {
            return explain_online(&self.question, &self.connection);
        }
        let Question { principal_args, action, resource_args, context_args } = &self.question;
        principal_args.check_offline()?;
        let policies = build(&read(&self.policies)?, &[]).map_err(policies::Error::Invalid)?;
        let identity = Arc::new(principal_args.identity());
        let resource = resource_args.resource()?;
        let context = context_args.context()?;
        policies.check_action(action, resource.kind()).map_err(Error::Usage)?;
        let request = Request { identity: &identity, resource: &resource, context: &context };
        let decision = policies.decide(action, request);
        match self.connection.output {
            Output::Table => {
                let grantee = principal_args.grantee_notation().unwrap_or_default();
                let remedies = policies.remedies(action, request, &decision);
                let remedies = remedies.text(&grantee, &resource_text(&resource));
                let grantee = principal_id(&grantee);
                let headline =
                    format!("{}: {grantee} {} {resource}\n", decision_name(&decision), action);
                print(&format!("{headline}{}{remedies}", text(&policies, &decision)));
            }
            Output::Json => print_json(&json!({
                "decision": decision_name(&decision),
                "policies": decision.policies,
                "read-rules": decision.read_rules.as_deref().map(rules),
                "revision": decision.revision.to_string(),
                "action": action,
                "resource": resource.to_string(),
            })),
        }
        Ok(ExitCode::from(if decision.allow { 0 } else { DENIED_EXIT_CODE }))
    }
}

impl Explain {
    /// Whether a server explains the decision. This is the case if its URL is set and no option
    /// selects local policies.
    fn is_online(&self) -> bool {
        let offline = self.offline || !self.policies.is_empty();
        !offline && self.connection.is_configured()
    }
}

fn decision_name(decision: &Decision) -> &'static str {
    if decision.allow { "allow" } else { "deny" }
}

/// Returns read rules in the form of the server's response.
fn rules(rules: &ReadRules) -> Vec<ReadRule> {
    let rules = rules.rules().iter().map(|rule| ReadRule {
        policy: rule.policy.clone(),
        row_filter: rule.filter.as_ref().map_or(Value::Bool(true), Expression::to_json),
        column_masks: rule
            .masks
            .iter()
            .map(|(name, mask)| (name.clone(), mask.name().to_owned()))
            .collect(),
    });
    rules.collect()
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
    let rules = decision.read_rules.as_deref().map(rules);
    let policies = table(["POLICY", "EFFECT", "DESCRIPTION"], &rows);
    format!("{policies}{}", rules_text(rules.as_deref()))
}
