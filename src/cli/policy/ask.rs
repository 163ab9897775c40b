//! `slateberg policy explain` where there is word of a server: what the policies in force on a server decide.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::Error;
use super::explain::{DENIED, Explain, rules_text, whose_text};
use crate::cli::output::{Output, print_json, table, text};
use crate::cli::{print, runtime};
use slateberg_authz::notation::resource_word;
use slateberg_authz::remedies::Remedies;

const PATH: &str = "/management/v1/authorize";

/// Asks the server.
pub(super) fn ask(explain: &Explain) -> Result<ExitCode, Error> {
    let body = body(explain)?;
    let answer = runtime()?.block_on(explain.connection.send("POST", PATH, &body))?;
    match explain.connection.output {
        Output::Json => print_json(&answer),
        Output::Table => print(&said(explain, &answer)),
    }
    let allowed = answer["decision"] == "allow";
    Ok(ExitCode::from(if allowed { 0 } else { DENIED }))
}

fn body(explain: &Explain) -> Result<Value, Error> {
    let Explain { who, action, what, circumstances, .. } = explain;
    let mut body = json!({
        "action": action,
        "resource": resource_word(&what.resource()?),
        "context": {
            "time": circumstances.time,
            "source-address": circumstances.source_address,
            "client": circumstances.client,
        },
    });
    if let Some(key) = &who.key {
        body["principal"] = json!({ "key": key });
    } else if who.word().is_some() {
        let warehouses = (!who.warehouses.is_empty()).then_some(&who.warehouses);
        let authentication =
            who.authentication.map(|authentication| authentication.method().word());
        body["principal"] = json!({
            "user": who.user,
            "service-account": who.service_account,
            "roles": who.roles,
            "groups": who.groups,
            "warehouses": warehouses,
            "authentication": authentication,
        });
    } else if !who.warehouses.is_empty() {
        let whose = "--scope goes with --user, --service-account, --role or --group";
        return Err(Error::Usage(whose.to_owned()));
    }
    if !what.properties.is_empty() || what.location.is_some() || what.owner.is_some() {
        let properties: serde_json::Map<_, _> =
            what.properties.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        body["attributes"] =
            json!({ "properties": properties, "location": what.location, "owner": what.owner });
    }
    Ok(body)
}

fn said(explain: &Explain, answer: &Value) -> String {
    let [decision, action, resource] =
        ["decision", "action", "resource"].map(|name| text(&answer[name]));
    let whose = &answer["principal"];
    let id = text(&whose["id"]);
    let grantee = match explain.who.word() {
        Some(word) => word,
        None => format!("{}:{id}", text(&whose["kind"])),
    };
    let shown = match (explain.who.word(), text(&whose["name"])) {
        (Some(word), _) => whose_text(&word).to_owned(),
        (None, name) if name.is_empty() || name == id => id,
        (None, name) => format!("{name} ({id})"),
    };
    let mut said = format!("{decision}: {shown} {action} {resource}\n");
    if answer["resource-exists"] == false && action != "Create" {
        said.push_str("note: it does not exist; policies were evaluated by its name alone\n");
    }
    let policies = answer["policies"].as_array().cloned().unwrap_or_default();
    if policies.is_empty() {
        let names = |member: &str| {
            let names = answer["permitted-with"][member].as_array().into_iter().flatten();
            names.map(text).collect()
        };
        let remedies = Remedies { roles: names("roles"), grants: names("grants") };
        return format!("{said}no policy permits it\n{}", remedies.text(&grantee, &resource));
    }
    let row =
        |policy: &Value| ["id", "effect", "origin", "description"].map(|name| text(&policy[name]));
    let rows: Vec<_> = policies.iter().map(row).collect();
    let policies = table(["POLICY", "EFFECT", "ORIGIN", "DESCRIPTION"], &rows);
    format!("{said}{policies}{}", rules_text(&answer["read-rules"]))
}
