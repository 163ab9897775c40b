//! `slateberg key`: the API keys of a running server, and the first one of a server that is to run.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ask_server;
use super::client::{ClientError, Connection, below, query};
use super::exit::Outcome;
use super::output::{Output, principal, print_warnings, span, table, text};
use crate::authn::key_text;
use crate::base::clock::{Clock, SystemClock};
use crate::base::similar::nearest;

const PATH: &str = "/management/v1/api-keys";
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Make, list and revoke API keys of a running server.
#[derive(Debug, Args)]
pub struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key, and print it this once
    Create(Create),
    /// Print a new key that no server knows, for `authn.bootstrap_key`: the admin key of a first start
    Generate,
    /// List the keys, without their texts
    List(List),
    /// Revoke a key: it is refused from the next request on
    Revoke(Revoke),
}

#[derive(Debug, Args)]
struct Create {
    /// What people call it
    name: String,
    /// A role that it has; several times for several
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// A warehouse that it is good for; several times for several [default: all]
    #[arg(long = "warehouse", value_name = "NAME")]
    warehouses: Vec<String>,
    /// Days after which it expires [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=36500))]
    expires_in_days: Option<i64>,
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
    /// Id of the key, or its name if no other valid key has it
    #[arg(value_name = "ID|NAME")]
    key: String,
    /// Revoke the key even if no other API key may manage API keys
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Key {
    /// Does it, and says what came of it.
    pub fn run(self) -> Outcome {
        ask_server(async {
            match self.command {
                // Nobody has to be asked for that.
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
        let expires = self.expires_in_days.map(|days| SystemClock.now_ms() + days * DAY_MS);
        let mut body = json!({ "name": self.name, "roles": self.roles });
        if !self.warehouses.is_empty() {
            body["warehouses"] = json!(self.warehouses);
        }
        if let Some(expires) = expires {
            body["expires-at-ms"] = json!(expires);
        }
        let made = self.connection.send("POST", PATH, &body).await?;
        print_warnings(&made);
        Ok(match self.connection.output {
            Output::Json => format!("{made:#}\n"),
            Output::Table => {
                let (id, key) = (text(&made["id"]), text(&made["key"]));
                let roles = match self.roles.is_empty() {
                    true => format!(
                        "It has no role, and may do nothing until something is granted to it:\n  \
                         slateberg grant read --to service-account:{id} --on warehouse:NAME\n"
                    ),
                    false => String::new(),
                };
                format!("id   {id}\nkey  {key}\n\nKeep it: it is not shown again.\n{roles}")
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        if self.connection.output == Output::Json {
            return Ok(format!("{listed:#}\n"));
        }
        let keys = listed["api-keys"].as_array().cloned().unwrap_or_default();
        let listed = keys.iter().filter(|key| !self.active || key["status"] == "active");
        let rows: Vec<_> = listed.map(row).collect();
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
        Ok(table(columns, &rows))
    }
}

impl Revoke {
    async fn run(self) -> Result<String, ClientError> {
        let forced = query(&[("force", self.force.then(|| "true".to_owned()))]);
        let id = self.id().await?;
        let path = format!("{}{forced}", below(PATH, &id));
        self.connection.send("DELETE", &path, &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => format!("{:#}\n", json!({ "revoked": id })),
            Output::Table => format!("revoked {id}\n"),
        })
    }

    /// The id of the key that is meant.
    async fn id(&self) -> Result<String, ClientError> {
        if Uuid::try_parse(&self.key).is_ok() {
            return Ok(self.key.clone());
        }
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        let keys = listed["api-keys"].as_array().cloned().unwrap_or_default();
        let valid: Vec<_> = keys.iter().filter(|key| key["status"] != "revoked").collect();
        let name = &self.key;
        let named: Vec<_> =
            valid.iter().filter(|key| key["name"] == **name).map(|key| text(&key["id"])).collect();
        match named.as_slice() {
            [id] => Ok(id.clone()),
            [] => {
                let meant = nearest(name, valid.iter().filter_map(|key| key["name"].as_str()));
                let hint = meant.map(|meant| format!(". Did you mean '{meant}'?"));
                let hint = hint.unwrap_or_default();
                Err(ClientError::Input(format!("no valid API key has the name '{name}'{hint}")))
            }
            ids => {
                let (count, ids) = (ids.len(), ids.join(", "));
                let what = format!("{count} API keys have the name '{name}'");
                Err(ClientError::Input(format!("{what}. Write the id of one: {ids}")))
            }
        }
    }
}

fn row(key: &Value) -> [String; 9] {
    let now_ms = SystemClock.now_ms();
    let warehouses = match &key["warehouses"] {
        Value::Null => "all".to_owned(),
        some => names(some),
    };
    let expires =
        key["expires-at-ms"].as_i64().map_or("never".to_owned(), |at_ms| match at_ms - now_ms {
            over if over <= 0 => "expired".to_owned(),
            left => format!("in {}", span(left)),
        });
    let ago = |at_ms: i64| format!("{} ago", span((now_ms - at_ms).max(0)));
    let used = key["last-used-at-ms"].as_i64().map_or("-".to_owned(), ago);
    let revoked = key["revoked-at-ms"].as_i64().map_or("-".to_owned(), |at_ms| {
        format!("{} by {}", ago(at_ms), principal(&key["revoked-by"], &key["revoked-by-name"]))
    });
    let [id, name, status] = ["id", "name", "status"].map(|member| text(&key[member]));
    let created_by = principal(&key["created-by"], &key["created-by-name"]);
    let roles = names(&key["roles"]);
    [id, name, status, roles, warehouses, expires, used, created_by, revoked]
}

fn names(value: &Value) -> String {
    let names: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}
