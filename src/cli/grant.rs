//! `slateberg grant`, `revoke` and `grants`: privileges of grantees on a running server.

use clap::Args;
use serde_json::Value;

use super::change::Change;
use super::client::run_online;
use super::client::{ClientError, Connection, child_path, parse, query};
use super::exit::Outcome;
use super::output::{Output, json_text, principal, print_warnings, table};
use slateberg_management::grants::{
    self as wire, CreateGrantRequest, CreatedGrant, GrantList, GrantWithPolicy,
};

const PATH: &str = "/management/v1/grants";

/// Grant a privilege on a warehouse, namespace, table or view, and everything below it.
#[derive(Debug, Args)]
pub struct Grant {
    /// Privilege to grant: read, write, own, browse, or the id of a policy template
    template: String,
    /// Grantee: user:ID, service-account:ID, service-account:NAME-OF-KEY, role:NAME or group:NAME
    #[arg(long, value_name = "GRANTEE")]
    to: String,
    /// Resource: warehouse:NAME, namespace:WAREHOUSE/LEVEL..., table:WAREHOUSE/LEVEL.../NAME or
    /// view:...
    #[arg(long, value_name = "RESOURCE")]
    on: String,
    #[command(flatten)]
    change: Change,
}

/// Revoke a grant.
#[derive(Debug, Args)]
pub struct Revoke {
    /// With --from and --on, the privilege to revoke: read, write, own, browse or the id of a
    /// policy template. Otherwise, the id of the grant
    #[arg(value_name = "TEMPLATE|ID")]
    grant: String,
    /// Grantee: user:ID, service-account:ID, role:NAME or group:NAME
    #[arg(long, value_name = "GRANTEE", alias = "to", requires = "on")]
    from: Option<String>,
    /// Resource: warehouse:NAME, namespace:WAREHOUSE/LEVEL..., table:WAREHOUSE/LEVEL.../NAME or
    /// view:...
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
    /// Only grants on this resource itself, not those on resources above or below it
    #[arg(long, value_name = "RESOURCE")]
    on: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Grant {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async move {
            let Self { template, to, on, change } = self;
            let requested = template.clone();
            let request = |comment, expected_revision| CreateGrantRequest {
                template: requested,
                grantee: to.clone(),
                resource: on.clone(),
                comment,
                expected_revision,
            };
            let response = change.send("POST", PATH, request).await?;
            let created: CreatedGrant = parse(response.clone())?;
            print_warnings(&created.change.warnings);
            if change.connection.output == Output::Json {
                return Ok(json_text(&response));
            }
            // If the response contains no grant, the output repeats the command line.
            let grant = created.grant.as_ref();
            let template = grant.map_or(template, privilege);
            let id = grant.map(|it| it.id.as_str()).unwrap_or_default();
            let to = grant.map_or(to, grantee);
            let nothing_new = created.change.changes.granted.is_empty();
            Ok(match (change.dry_run, nothing_new) {
                (_, true) => format!("{template} was already granted to {to} on {on}: {id}\n"),
                (true, false) => format!("{template} would be granted to {to} on {on}\n"),
                (false, false) => format!("granted {template} to {to} on {on}: {id}\n"),
            })
        })
    }
}

/// Returns the template of a grant in the form that the command line accepts.
pub(super) fn privilege(grant: &wire::Grant) -> String {
    grant.template.strip_prefix("grant-").unwrap_or(&grant.template).to_owned()
}

/// Returns the grantee of a grant, with the name of its API key.
pub(super) fn grantee(grant: &wire::Grant) -> String {
    match &grant.grantee_name {
        Some(name) => format!("{} ({name})", grant.grantee),
        None => grant.grantee.clone(),
    }
}

impl Revoke {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async move {
            let id = self.id().await?;
            let response = self.change.delete(&child_path(PATH, &id)).await?;
            Ok(match (self.change.connection.output, self.change.dry_run) {
                (Output::Json, _) => json_text(&response),
                (Output::Table, true) => format!("{id} would be revoked\n"),
                (Output::Table, false) => format!("revoked {id}\n"),
            })
        })
    }

    /// Returns the id of the grant that the arguments identify.
    async fn id(&self) -> Result<String, ClientError> {
        let (Some(from), Some(on)) = (&self.from, &self.on) else { return Ok(self.grant.clone()) };
        let filter = [("grantee", Some(from.clone())), ("resource", Some(on.clone()))];
        let path = format!("{PATH}{}", query(&filter));
        let listed = self.change.connection.send("GET", &path, &Value::Null).await?;
        let full_name = format!("grant-{}", self.grant);
        let is_match = |template: &str| template == self.grant || template == full_name;
        let mut grants = parse::<GrantList>(listed)?.grants.into_iter();
        let entry = grants.find(|entry| is_match(&entry.grant.template));
        entry.map(|entry| entry.grant.id).ok_or_else(|| {
            ClientError::Input(format!("{} was not granted to {from} on {on}", self.grant))
        })
    }
}

impl Grants {
    /// Prints the grants.
    pub fn run(self) -> Outcome {
        run_online(async move {
            let Self { to, on, connection } = self;
            let path = format!("{PATH}{}", query(&[("grantee", to), ("resource", on)]));
            let listed = connection.send("GET", &path, &Value::Null).await?;
            let row = |GrantWithPolicy { grant, .. }: &GrantWithPolicy| {
                let by = principal(&grant.created_by, grant.created_by_name.as_deref());
                [grant.id.clone(), privilege(grant), grantee(grant), grant.resource.clone(), by]
            };
            connection.render(listed, |GrantList { grants, .. }| {
                let rows: Vec<_> = grants.iter().map(row).collect();
                table(["ID", "TEMPLATE", "TO", "ON", "BY"], &rows)
            })
        })
    }
}
