//! `slateberg policy explain` with a server: sends the hypothetical request and prints the
//! decision.

use std::process::ExitCode;

use super::decision::{DENIED_EXIT_CODE, principal_id, rules_text};
use super::error::Error;
use super::question::{Authentication, Question};
use crate::cli::client::{Connection, body, parse};
use crate::cli::output::print;
use crate::cli::output::{Output, print_json, table};
use crate::cli::runtime::runtime;
use slateberg_authz::notation::resource_text;
use slateberg_authz::remedies::Remedies;
use slateberg_management::decisions::{
    AuthenticationMethod, AuthorizeRequest, AuthorizeResponse, DecidingPolicy, Decision,
    PrincipalSelector, RequestContext, ResourceAttributes,
};

const PATH: &str = "/management/v1/authorize";

/// Sends the hypothetical request to the server and prints the decision.
pub(super) fn explain_online(
    question: &Question,
    connection: &Connection,
) -> Result<ExitCode, Error> {
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
    Ok(ExitCode::from(if allowed { 0 } else { DENIED_EXIT_CODE }))
}

fn request(question: &Question) -> Result<AuthorizeRequest, Error> {
    let Question { principal_args, action, resource_args, context_args } = question;
    let principal = if let Some(key) = &principal_args.key {
        Some(PrincipalSelector { key: Some(key.clone()), ..PrincipalSelector::default() })
    } else if principal_args.grantee_notation().is_some() {
        Some(PrincipalSelector {
            key: None,
            user: principal_args.user.clone(),
            service_account: principal_args.service_account.clone(),
            roles: principal_args.roles.iter().cloned().collect(),
            groups: principal_args.groups.iter().cloned().collect(),
            warehouses: (!principal_args.warehouses.is_empty())
                .then(|| principal_args.warehouses.iter().cloned().collect()),
            authentication: principal_args.authentication.map(authentication_method),
        })
    } else if !principal_args.warehouses.is_empty() {
        let message = "--scope requires --user, --service-account, --role or --group";
        return Err(Error::Usage(message.to_owned()));
    } else {
        None
    };
    let attributes = ResourceAttributes {
        properties: resource_args.properties.iter().cloned().collect(),
        location: resource_args.location.clone(),
        owner: resource_args.owner.clone(),
    };
    let given = !resource_args.properties.is_empty()
        || attributes.location.is_some()
        || attributes.owner.is_some();
    Ok(AuthorizeRequest {
        principal,
        action: action.clone(),
        resource: resource_text(&resource_args.resource()?),
        attributes: given.then_some(attributes),
        context: RequestContext {
            time: context_args.time.clone(),
            source_address: context_args.source_address,
            client: context_args.client.clone(),
            referenced_by: context_args.views()?.iter().map(resource_text).collect(),
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
    let grantee = match question.principal_args.grantee_notation() {
        Some(word) => word,
        None => format!("{}:{}", principal.kind.as_str(), principal.id),
    };
    let principal_text = match question.principal_args.grantee_notation() {
        Some(word) => principal_id(&word).to_owned(),
        None if principal.name.is_empty() || principal.name == principal.id => principal.id,
        None => format!("{} ({})", principal.name, principal.id),
    };
    let mut head = format!("{decision}: {principal_text} {action} {resource}\n");
    if response.resource_exists == Some(false) && action != "Create" {
        head.push_str("note: the resource does not exist; only its name was evaluated\n");
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
