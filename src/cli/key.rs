//! `slateberg key`: the API keys of a running server, and the bootstrap key of a new one.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;
use uuid::Uuid;

use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path, parse, query};
use super::duration::{days, duration};
use super::exit::Outcome;
use super::output::{Output, json_text, principal, print_warnings, table, time};
use slateberg_authn::key_text;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::similar::nearest;
use slateberg_management::api_keys::{
    ApiKey, ApiKeyList, ApiKeyStatus, CreateApiKeyRequest, CreatedApiKey,
};

const PATH: &str = "/management/v1/api-keys";

/// Create, list and revoke API keys.
#[derive(Debug, Args)]
pub struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a key and print it (shown once)
    Create(Create),
    /// Generate and print an admin key for the setting `authn.bootstrap_key`, which the first start
    /// on a new store uses
    Generate,
    /// List the keys, without their secrets
    #[command(visible_alias = "ls")]
    List(List),
    /// Revoke a key. The server rejects all further requests with it
    #[command(visible_aliases = ["rm", "delete"])]
    Revoke(Revoke),
}

#[derive(Debug, Args)]
struct Create {
    /// Display name of the key
    name: String,
    /// Role of the key, such as admin, writer, reader or auditor. Repeatable
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Limit the key to this warehouse. Repeatable [default: all]
    #[arg(long = "warehouse", value_name = "NAME")]
    warehouses: Vec<String>,
    /// Lifetime, such as 90d or 24h [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "expires_in", value_parser = days)]
    expires_in_days: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct List {
    /// Only keys that are neither revoked nor expired
    #[arg(long)]
    active: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Revoke {
    /// ID of the key, or its name if no other valid key has the same name
    #[arg(value_name = "ID|NAME")]
    key: String,
    /// Revoke the key even if it is the last one that may manage API keys
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Key {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                // A bootstrap key is created locally, without a server.
                Command::Generate => Ok(format!("{}\n", key_text::mint().reveal())),
                Command::Create(create) => create.run().await,
                Command::List(list) => list.run().await,
                Command::Revoke(revoke) => revoke.run().await,
            }
        })
    }
}

impl Create {
    async fn run(self) -> Result<String, ClientError> {
        let lifetime = self.expires_in.or(self.expires_in_days);
        let expires =
            lifetime.map(|lifetime| expiry(lifetime, SystemClock.now_ms())).transpose()?;
        let unlimited = self.warehouses.is_empty();
        let request = CreateApiKeyRequest {
            name: self.name,
            roles: self.roles.into_iter().collect(),
            warehouses: (!unlimited).then(|| self.warehouses.into_iter().collect()),
            expires_at_ms: expires,
        };
        let response = self.connection.send("POST", PATH, &body(&request)?).await?;
        let CreatedApiKey { key, details, warnings } = parse(response.clone())?;
        print_warnings(&warnings);
        Ok(match self.connection.output {
            Output::Json => json_text(&response),
            Output::Table => {
                let id = details.id;
                let roles = if request.roles.is_empty() {
                    format!(
                        "The key has no role, and no permissions until a privilege is granted to it:\n  \
                         slateberg grant read --to service-account:{id} --on warehouse:NAME\n"
                    )
                } else {
                    String::new()
                };
                format!("id   {id}\nkey  {key}\n\nSave the key: it is not shown again.\n{roles}")
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        let columns = [
            "ID",
            "NAME",
            "STATUS",
            "ROLES",
            "WAREHOUSES",
            "EXPIRES",
            "LAST USED",
            "CREATED BY",
            "REVOKED",
        ];
        self.connection.render(listed, |ApiKeyList { api_keys, .. }| {
            let is_listed = |key: &&ApiKey| !self.active || key.status == ApiKeyStatus::Active;
            let rows: Vec<_> = api_keys.iter().filter(is_listed).map(row).collect();
            table(columns, &rows)
        })
    }
}

impl Revoke {
    async fn run(self) -> Result<String, ClientError> {
        let forced = query(&[("force", self.force.then(|| "true".to_owned()))]);
        let id = self.id().await?;
        let path = format!("{}{forced}", child_path(PATH, &id));
        self.connection.send("DELETE", &path, &Value::Null).await?;
        Ok(self.connection.done("revoked", &id))
    }

    /// Resolves the argument to the id of a key.
    async fn id(&self) -> Result<String, ClientError> {
        if Uuid::try_parse(&self.key).is_ok() {
            return Ok(self.key.clone());
        }
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        let keys = parse::<ApiKeyList>(listed)?.api_keys;
        let valid: Vec<_> = keys.iter().filter(|key| key.status != ApiKeyStatus::Revoked).collect();
        let name = &self.key;
        let named: Vec<_> =
            valid.iter().filter(|key| key.name == *name).map(|key| key.id.clone()).collect();
        match named.as_slice() {
            [id] => Ok(id.clone()),
            [] => {
                let suggestion = nearest(name, valid.iter().map(|key| key.name.as_str()));
                let hint = suggestion.map(|suggestion| format!(". Did you mean '{suggestion}'?"));
                let hint = hint.unwrap_or_default();
                Err(ClientError::Input(format!("no valid API key has the name '{name}'{hint}")))
            }
            ids => {
                let (count, ids) = (ids.len(), ids.join(", "));
                let problem = format!("{count} API keys have the name '{name}'");
                Err(ClientError::Input(format!("{problem}. Write the id of one: {ids}")))
            }
        }
    }
}

/// Returns the end of a lifetime that starts now.
fn expiry(lifetime: Duration, now_ms: i64) -> Result<i64, ClientError> {
    let ms = i64::try_from(lifetime.as_millis()).ok().and_then(|ms| now_ms.checked_add(ms));
    ms.ok_or_else(|| ClientError::Input("--expires-in: the duration is too long".to_owned()))
}

fn row(key: &ApiKey) -> [String; 9] {
    let now_ms = SystemClock.now_ms();
    let warehouses = key.warehouses.as_ref().map_or_else(|| "all".to_owned(), names);
    let expires = match key.expires_at_ms {
        None => "never".to_owned(),
        Some(at_ms) if at_ms <= now_ms => "expired".to_owned(),
        at_ms => time(at_ms),
    };
    let revoked = match key.revoked_at_ms {
        None => "-".to_owned(),
        at_ms => {
            let by = key.revoked_by.as_deref().unwrap_or_default();
            format!("{} by {}", time(at_ms), principal(by, key.revoked_by_name.as_deref()))
        }
    };
    [
        key.id.clone(),
        key.name.clone(),
        key.status.as_str().to_owned(),
        names(&key.roles),
        warehouses,
        expires,
        time(key.last_used_at_ms),
        principal(&key.created_by, key.created_by_name.as_deref()),
        revoked,
    ]
}

fn names(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}
