//! `slateberg key`: the API keys of a running server, and the first one of a server that is to run.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask_server;
use super::client::{ClientError, Connection, below, query};
use super::exit::Outcome;
use super::output::{Output, span, table, text};
use crate::authn::key_text;
use crate::base::clock::{Clock, SystemClock};

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
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Revoke {
    /// Id of the key, as `list` shows it
    id: String,
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
        let rows: Vec<_> = keys.iter().map(row).collect();
        Ok(table(["ID", "NAME", "ROLES", "WAREHOUSES", "EXPIRES", "LAST USED"], &rows))
    }
}

impl Revoke {
    async fn run(self) -> Result<String, ClientError> {
        let forced = query(&[("force", self.force.then(|| "true".to_owned()))]);
        let path = format!("{}{forced}", below(PATH, &self.id));
        self.connection.send("DELETE", &path, &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => format!("{:#}\n", json!({ "revoked": self.id })),
            Output::Table => format!("revoked {}\n", self.id),
        })
    }
}

fn row(key: &Value) -> [String; 6] {
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
    let used = key["last-used-at-ms"]
        .as_i64()
        .map_or("-".to_owned(), |at_ms| format!("{} ago", span((now_ms - at_ms).max(0))));
    [text(&key["id"]), text(&key["name"]), names(&key["roles"]), warehouses, expires, used]
}

fn names(value: &Value) -> String {
    let names: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}
