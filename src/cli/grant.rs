//! `slateberg grant`, `revoke` and `grants`: who was granted what, on a running server.

use clap::Args;
use serde_json::{Value, json};

use super::ask_server;
use super::change::Change;
use super::client::{ClientError, Connection, below, query};
use super::exit::Outcome;
use super::output::{Output, json_text, principal, print_warnings, table, text};

const PATH: &str = "/management/v1/grants";

/// Grant a privilege on a warehouse, namespace, table or view, and everything below it.
#[derive(Debug, Args)]
pub struct Grant {
    /// Privilege: read, write, own, browse, or the id of another template
    template: String,
    /// Grantee: user:ID, service-account:ID, service-account:NAME-OF-KEY, role:NAME or group:NAME
    #[arg(long, value_name = "GRANTEE")]
    to: String,
    /// Resource: warehouse:NAME, namespace:WAREHOUSE/LEVEL..., table:WAREHOUSE/LEVEL.../NAME or view:...
    #[arg(long, value_name = "RESOURCE")]
    on: String,
    #[command(flatten)]
    change: Change,
}

/// Revoke a grant.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Privilege: read, write, own, browse, or the id of another template; or the id of a grant
    #[arg(value_name = "TEMPLATE|ID")]
    grant: String,
    /// Grantee: user:ID, service-account:ID, role:NAME or group:NAME
    #[arg(long, value_name = "GRANTEE", alias = "to", requires = "on")]
    from: Option<String>,
    /// Resource: warehouse:NAME, namespace:WAREHOUSE/LEVEL..., table:WAREHOUSE/LEVEL.../NAME or view:...
    #[arg(long, value_name = "RESOURCE", requires = "from")]
    on: Option<String>,
    #[command(flatten)]
    change: Change,
}

/// List grants.
#[derive(Debug, Args)]
pub struct Grants {
    /// Only grants to this grantee
    #[arg(long, value_name = "GRANTEE")]
    to: Option<String>,
    /// Only grants on this resource itself, not above or below it
    #[arg(long, value_name = "RESOURCE")]
    on: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Grant {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        ask_server(async move {
            let Self { template, to, on, change } = self;
            let body = json!({ "template": template, "grantee": to, "resource": on });
            let made = change.make("POST", PATH.to_owned(), body).await?;
            print_warnings(&made);
            if change.connection.output == Output::Json {
                return Ok(json_text(&made));
            }
            let grant = &made["grant"];
            let (template, id) = (template_word(grant), text(&grant["id"]));
            let to = match grant["grantee"].is_string() {
                true => grantee(grant),
                // A grant that was only tried does not exist.
                false => to,
            };
            let nothing_new = made["changes"]["granted"].as_array().is_none_or(Vec::is_empty);
            Ok(match (change.dry_run, nothing_new) {
                (_, true) => format!("{template} was granted to {to} on {on} before: {id}\n"),
                (true, false) => format!("{template} would be granted to {to} on {on}\n"),
                (false, false) => format!("granted {template} to {to} on {on}: {id}\n"),
            })
        })
    }
}

/// The template of a grant, as the command line takes it.
pub(super) fn template_word(grant: &Value) -> String {
    let template = text(&grant["template"]);
    template.strip_prefix("grant-").map_or(template.clone(), ToOwned::to_owned)
}

/// The grantee of a grant, with the name of the API key that it is.
pub(super) fn grantee(grant: &Value) -> String {
    let word = text(&grant["grantee"]);
    match grant["grantee-name"].as_str() {
        Some(name) => format!("{word} ({name})"),
        None => word,
    }
}

impl Revoke {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        ask_server(async move {
            let id = self.id().await?;
            let done = self.change.make("DELETE", below(PATH, &id), Value::Null).await?;
            Ok(match (self.change.connection.output, self.change.dry_run) {
                (Output::Json, _) => json_text(&done),
                (Output::Table, true) => format!("{id} would be revoked\n"),
                (Output::Table, false) => format!("revoked {id}\n"),
            })
        })
    }

    /// The id of the grant that is meant.
    async fn id(&self) -> Result<String, ClientError> {
        let (Some(from), Some(on)) = (&self.from, &self.on) else { return Ok(self.grant.clone()) };
        let filter = [("grantee", Some(from.clone())), ("resource", Some(on.clone()))];
        let path = format!("{PATH}{}", query(&filter));
        let listed = self.change.connection.send("GET", &path, &Value::Null).await?;
        let whole = format!("grant-{}", self.grant);
        let meant = |template: &str| template == self.grant || template == whole;
        let mut grants = listed["grants"].as_array().into_iter().flatten();
        let found = grants.find(|grant| grant["template"].as_str().is_some_and(meant));
        found.map(|grant| text(&grant["id"])).ok_or_else(|| {
            ClientError::Input(format!("{} was not granted to {from} on {on}", self.grant))
        })
    }
}

impl Grants {
    /// Prints the grants.
    pub fn run(self) -> Outcome {
        ask_server(async move {
            let Self { to, on, connection } = self;
            let path = format!("{PATH}{}", query(&[("grantee", to), ("resource", on)]));
            let listed = connection.send("GET", &path, &Value::Null).await?;
            if connection.output == Output::Json {
                return Ok(json_text(&listed));
            }
            let grants = listed["grants"].as_array().cloned().unwrap_or_default();
            let row = |grant: &Value| {
                let [id, resource] = ["id", "resource"].map(|name| text(&grant[name]));
                let by = principal(&grant["created-by"], &grant["created-by-name"]);
                [id, template_word(grant), grantee(grant), resource, by]
            };
            let rows: Vec<_> = grants.iter().map(row).collect();
            Ok(table(["ID", "TEMPLATE", "TO", "ON", "BY"], &rows))
        })
    }
}
