//! `slateberg warehouse`: the warehouses of a running server.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{ClientError, Connection, below};
use super::duration::{duration, seconds};
use super::exit::Outcome;
use super::output::{Output, json_text, lines_of, principal, table, text};
use super::{ask_server, key_value};

const PATH: &str = "/management/v1/warehouses";
const LOCATION_HELP: &str = "URL below which tables are located, such as s3://bucket/path";

/// Create, list, show, change and delete warehouses.
#[derive(Debug, Args)]
pub struct Warehouse {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the warehouses that you may see
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a warehouse
    Show(Show),
    /// Create a warehouse (its location is tested first)
    Create(Create),
    /// Change a warehouse that was created at run time. Omitted options keep their values
    Update(Update),
    /// Delete an empty warehouse that was created at run time. Its files stay
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Show {
    /// Name of the warehouse
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the warehouse
    name: String,
    #[arg(long, value_name = "URL", help = LOCATION_HELP)]
    location: String,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Update {
    /// Name of the warehouse
    name: String,
    #[command(flatten)]
    settings: Settings,
    /// Stop using a set of credentials
    #[arg(long, conflicts_with = "credentials")]
    no_credentials: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name of the warehouse
    name: String,
    #[command(flatten)]
    connection: Connection,
}

/// The settings of a warehouse. An update replaces all values of a repeatable option.
#[derive(Debug, Args)]
struct Settings {
    /// Another URL below which tables may be located. Repeatable
    #[arg(long = "allowed-location", value_name = "URL")]
    allowed_locations: Vec<String>,
    /// Option of the object store, such as aws_region=eu-central-1. Not a secret. Repeatable
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,
    /// Name of a set of [credentials.NAME] in the server's settings, for access to the store
    #[arg(long, value_name = "NAME")]
    credentials: Option<String>,
    /// Access of clients to files: vended-credentials or remote-signing. Repeatable, preferred one first
    #[arg(long = "delegation", value_name = "MODE")]
    delegation: Vec<String>,
    /// Role to assume for a table, as `arn:aws:iam::ACCOUNT:role/NAME`
    #[arg(long, value_name = "ARN")]
    role_arn: Option<String>,
    /// External ID that the role's trust policy requires
    #[arg(long, value_name = "TEXT")]
    external_id: Option<String>,
    /// URL of the STS service [default: that of AWS]
    #[arg(long, value_name = "URL")]
    sts_endpoint: Option<String>,
    /// Lifetime of vended credentials, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    credentials_lifetime: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "credentials_lifetime", value_parser = seconds)]
    credentials_seconds: Option<Duration>,
    /// Default for clients in the response of GET /v1/config. Repeatable
    #[arg(long = "client-default", value_name = "KEY=VALUE", value_parser = key_value)]
    client_defaults: Vec<(String, String)>,
    /// Override for clients in the response of GET /v1/config. Repeatable
    #[arg(long = "client-override", value_name = "KEY=VALUE", value_parser = key_value)]
    client_overrides: Vec<(String, String)>,
}

impl Settings {
    /// Sets the given options in the body of a request.
    fn put_into(self, body: &mut Value) {
        let storage = &mut body["storage"];
        if !self.allowed_locations.is_empty() {
            storage["allowed-locations"] = json!(self.allowed_locations);
        }
        if let Some(credentials) = self.credentials {
            storage["credentials"] = json!(credentials);
        }
        if !self.delegation.is_empty() {
            storage["access"]["delegation"] = json!(self.delegation);
        }
        let lifetime = self.credentials_lifetime.or(self.credentials_seconds);
        let access = [
            ("role-arn", self.role_arn.map(Value::from)),
            ("external-id", self.external_id.map(Value::from)),
            ("sts-endpoint", self.sts_endpoint.map(Value::from)),
            ("credentials-seconds", lifetime.map(|lifetime| Value::from(lifetime.as_secs()))),
        ];
        for (name, value) in access {
            if let Some(value) = value {
                storage["access"][name] = value;
            }
        }
        let pairs = |pairs: Vec<(String, String)>| {
            let all = pairs.into_iter().map(|(key, value)| (key, Value::from(value)));
            Some(Value::from(all.collect::<Map<_, _>>())).filter(|all| *all != json!({}))
        };
        if let Some(options) = pairs(self.options) {
            storage["options"] = options;
        }
        if let Some(defaults) = pairs(self.client_defaults) {
            body["client-defaults"] = defaults;
        }
        if let Some(overrides) = pairs(self.client_overrides) {
            body["client-overrides"] = overrides;
        }
    }
}

impl Warehouse {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        ask_server(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Show(show) => show.run().await,
                Command::Create(create) => create.run().await,
                Command::Update(update) => update.run().await,
                Command::Delete(delete) => delete.run().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        if self.connection.output == Output::Json {
            return Ok(json_text(&listed));
        }
        let warehouses = listed["warehouses"].as_array().cloned().unwrap_or_default();
        let rows: Vec<_> = warehouses.iter().map(row).collect();
        Ok(table(["NAME", "SOURCE", "STATUS", "LOCATION"], &rows))
    }
}

fn row(warehouse: &Value) -> [String; 4] {
    let name = text(&warehouse["name"]);
    let name = if warehouse["default"] == true { format!("{name} (default)") } else { name };
    let location = match &warehouse["storage"]["location"] {
        Value::String(location) => location.clone(),
        _ => "-".to_owned(),
    };
    [name, text(&warehouse["source"]), text(&warehouse["status"]), location]
}

impl Show {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, connection } = self;
        let found = connection.send("GET", &below(PATH, &name), &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&found),
            Output::Table => lines(&found),
        })
    }
}

/// A warehouse as lines of a name and a value.
fn lines(warehouse: &Value) -> String {
    let storage = &warehouse["storage"];
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut add = |name: &str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => rows.push([name.to_owned(), text.clone()]),
        Value::Array(all) => rows.extend(all.iter().map(|one| [name.to_owned(), text(one)])),
        Value::Object(all) => {
            let pair = |(key, value): (&String, &Value)| format!("{key}={}", text(value));
            rows.extend(all.iter().map(|one| [name.to_owned(), pair(one)]));
        }
        other => rows.push([name.to_owned(), other.to_string()]),
    };
    for name in ["name", "id", "source", "status", "problem"] {
        add(name, &warehouse[name]);
    }
    for name in ["location", "allowed-locations", "options", "credentials"] {
        add(name, &storage[name]);
    }
    add("delegation", &storage["access"]["delegation"]);
    for name in ["client-defaults", "client-overrides", "version"] {
        add(name, &warehouse[name]);
    }
    for name in ["created-by", "changed-by"].into_iter().filter(|name| warehouse[*name].is_string())
    {
        let by = principal(&warehouse[name], &warehouse[format!("{name}-name")]);
        add(name, &Value::String(by));
    }
    lines_of(&rows)
}

impl Create {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, location, settings, connection } = self;
        let mut body = json!({ "name": name, "storage": { "location": location } });
        settings.put_into(&mut body);
        let made = connection.send("POST", PATH, &body).await?;
        Ok(match connection.output {
            Output::Json => json_text(&made),
            Output::Table => {
                let at = text(&made["storage"]["location"]);
                format!("created warehouse {name} at {at}\n")
            }
        })
    }
}

impl Update {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, settings, no_credentials, connection } = self;
        let path = below(PATH, &name);
        let found = connection.send("GET", &path, &Value::Null).await?;
        if found["storage"].is_null() {
            return Err(ClientError::Input(format!(
                "the warehouse {name} cannot be changed with this credential: it may not see its storage settings"
            )));
        }
        // The server rejects the update if another client changes the warehouse in between.
        let mut body = json!({
            "storage": found["storage"],
            "client-defaults": found["client-defaults"],
            "client-overrides": found["client-overrides"],
            "expected-version": found["version"],
        });
        if no_credentials {
            body["storage"]["credentials"] = Value::Null;
        }
        settings.put_into(&mut body);
        let changed = connection.send("PUT", &path, &body).await?;
        Ok(match connection.output {
            Output::Json => json_text(&changed),
            Output::Table => format!("warehouse {name} is at version {}\n", changed["version"]),
        })
    }
}

impl Delete {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, connection } = self;
        connection.send("DELETE", &below(PATH, &name), &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&json!({ "deleted": name })),
            Output::Table => format!("deleted warehouse {name}\n"),
        })
    }
}
