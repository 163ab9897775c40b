//! `slateberg policy explain` with a server: sends the question and prints the decision.

use std::process::ExitCode;

use super::decision::{DENIED, rules_text, whose_text};
use super::error::Error;
use super::question::{Authentication, Question};
use crate::cli::client::{Connection, body, parse};
use crate::cli::output::print;
use crate::cli::output::{Output, print_json, table};
use crate::cli::runtime::runtime;
use slateberg_authz::notation::resource_word;
use slateberg_authz::remedies::Remedies;
use slateberg_management::decisions::{
    AuthenticationMethod, AuthorizeRequest, AuthorizeResponse, DecidingPolicy, Decision,
    PrincipalSelector, RequestContext, ResourceAttributes,
};

const PATH: &str = "/management/v1/authorize";

/// Sends the question to the server and prints its decision.
pub(super) fn ask(question: &Question, connection: &Connection) -> Result<ExitCode, Error> {
    let body = body(&request(question)?)?;
    let response = runtime()?.block_on(connection.send("POST", PATH, &body))?;
    if connection.output == Output::Json {
        print_json(&response);
    }
    let response: AuthorizeResponse = parse(response)?;
    let allowed = response.decision == Decision::Allow;
    if connection.output == Output::Table {
        print(&text(question, response));
    }
    Ok(ExitCode::from(if allowed { 0 } else { DENIED }))
}

fn request(question: &Question) -> Result<AuthorizeRequest, Error> {
    let Question { who, action, what, circumstances } = question;
    let principal = if let Some(key) = &who.key {
        Some(PrincipalSelector { key: Some(key.clone()), ..PrincipalSelector::default() })
    } else if who.word().is_some() {
        Some(PrincipalSelector {
            key: None,
            user: who.user.clone(),
            service_account: who.service_account.clone(),
            roles: who.roles.iter().cloned().collect(),
            groups: who.groups.iter().cloned().collect(),
            warehouses: (!who.warehouses.is_empty())
                .then(|| who.warehouses.iter().cloned().collect()),
            authentication: who.authentication.map(authentication_method),
        })
    } else if !who.warehouses.is_empty() {
        let whose = "--scope goes with --user, --service-account, --role or --group";
        return Err(Error::Usage(whose.to_owned()));
    } else {
        None
    };
    let attributes = ResourceAttributes {
        properties: what.properties.iter().cloned().collect(),
        location: what.location.clone(),
        owner: what.owner.clone(),
    };
    let given =
        !what.properties.is_empty() || attributes.location.is_some() || attributes.owner.is_some();
    Ok(AuthorizeRequest {
        principal,
        action: action.clone(),
        resource: resource_word(&what.resource()?),
        attributes: given.then_some(attributes),
        context: RequestContext {
            time: circumstances.time.clone(),
            source_address: circumstances.source_address,
            client: circumstances.client.clone(),
        },
    })
}

fn authentication_method(authentication: Authentication) -> AuthenticationMethod {
    match authentication {
        Authentication::Jwt => AuthenticationMethod::Jwt,
        Authentication::ApiKey => AuthenticationMethod::ApiKey,
        Authentication::Mtls => AuthenticationMethod::Mtls,
        Authentication::Embedded => AuthenticationMethod::Embedded,
    }
}

fn text(question: &Question, response: AuthorizeResponse) -> String {
    let AuthorizeResponse { decision, principal, action, resource, .. } = response;
    let decision = decision.as_str();
    let grantee = match question.who.word() {
        Some(word) => word,
        None => format!("{}:{}", principal.kind.as_str(), principal.id),
    };
    let shown = match question.who.word() {
        Some(word) => whose_text(&word).to_owned(),
        None if principal.name.is_empty() || principal.name == principal.id => principal.id,
        None => format!("{} ({})", principal.name, principal.id),
    };
    let mut head = format!("{decision}: {shown} {action} {resource}\n");
    if response.resource_exists == Some(false) && action != "Create" {
        head.push_str("note: it does not exist; policies were evaluated by its name alone\n");
    }
    if response.policies.is_empty() {
        let remedies = response.permitted_with.unwrap_or_default();
        let remedies = Remedies { roles: remedies.roles, grants: remedies.grants };
        return format!("{head}no policy permits it\n{}", remedies.text(&grantee, &resource));
    }
    let row = |policy: DecidingPolicy| {
        let effect = policy.effect.as_str().to_owned();
        let origin = policy.origin.as_str().to_owned();
        [policy.id, effect, origin, policy.description.unwrap_or_default()]
    };
    let rows: Vec<_> = response.policies.into_iter().map(row).collect();
    let policies = table(["POLICY", "EFFECT", "ORIGIN", "DESCRIPTION"], &rows);
    format!("{head}{policies}{}", rules_text(response.read_rules.as_deref()))
}
