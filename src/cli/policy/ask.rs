//! `slateberg policy explain` where there is word of a server: what the policies in force on a server decide.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::Error;
use super::explain::{DENIED, Explain, rules_text};
use crate::authz::notation::resource_word;
use crate::cli::output::{Output, print_json, table, text};
use crate::cli::{print, runtime};

const PATH: &str = "/management/v1/authorize";

/// Asks the server.
pub(super) fn ask(explain: &Explain) -> Result<ExitCode, Error> {
    let body = body(explain)?;
    let answer = runtime()?.block_on(explain.connection.send("POST", PATH, &body))?;
    match explain.connection.output {
        Output::Json => print_json(&answer),
        Output::Table => print(&said(&answer)),
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
    } else if who.user.is_some() || who.service_account.is_some() {
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
    } else if !(who.roles.is_empty() && who.groups.is_empty() && who.warehouses.is_empty()) {
        let whose = "--role, --group and --scope go with --user or --service-account";
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

fn said(answer: &Value) -> String {
    let [decision, action, resource] =
        ["decision", "action", "resource"].map(|name| text(&answer[name]));
    let whose = text(&answer["principal"]["id"]);
    let said = format!("{decision}: {whose} {action} {resource}\n");
    let policies = answer["policies"].as_array().cloned().unwrap_or_default();
    if policies.is_empty() {
        return format!("{said}no policy permits it\n");
    }
    let row =
        |policy: &Value| ["id", "effect", "origin", "description"].map(|name| text(&policy[name]));
    let rows: Vec<_> = policies.iter().map(row).collect();
    let policies = table(["POLICY", "EFFECT", "ORIGIN", "DESCRIPTION"], &rows);
    format!("{said}{policies}{}", rules_text(&answer["read-rules"]))
}
