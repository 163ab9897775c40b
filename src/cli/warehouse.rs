//! `slateberg warehouse`: the warehouses of a running server.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{ClientError, Connection, below};
use super::exit::Outcome;
use super::output::{Output, table, text};
use super::{ask_server, key_value};

const PATH: &str = "/management/v1/warehouses";
const LOCATION_HELP: &str =
    "URL below which its tables get their locations, such as s3://bucket/path";

/// Make, list, show, change and delete warehouses of a running server.
#[derive(Debug, Args)]
pub struct Warehouse {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the warehouses that one may see
    List(List),
    /// Show one
    Show(Show),
    /// Make one: its place is tried out first
    Create(Create),
    /// Change one that was made here; what is not said stays as it is
    Update(Update),
    /// Delete one that was made here and holds nothing; its files stay
    Delete(Delete),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Show {
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// Its name
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
    /// Its name
    name: String,
    #[command(flatten)]
    settings: Settings,
    /// Use no set of credentials any more
    #[arg(long, conflicts_with = "credentials")]
    no_credentials: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Delete {
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
}

/// What can be said of a warehouse besides its location. An update replaces all of what is said of one kind.
#[derive(Debug, Args)]
struct Settings {
    /// A further URL below which tables may lie; several times for several
    #[arg(long = "allowed-location", value_name = "URL")]
    allowed_locations: Vec<String>,
    /// An option of the object store, such as aws_region=eu-central-1; no secret
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,
    /// The set of [credentials.NAME] in the server's configuration that it is opened with
    #[arg(long, value_name = "NAME")]
    credentials: Option<String>,
    /// How clients get at files: vended-credentials or remote-signing; several times, the preferred one first
    #[arg(long = "delegation", value_name = "WAY")]
    delegation: Vec<String>,
    /// The role that is assumed for a table, as `arn:aws:iam::<account>:role/<name>`
    #[arg(long, value_name = "ARN")]
    role_arn: Option<String>,
    /// What the role's trust policy wants to be told besides
    #[arg(long, value_name = "TEXT")]
    external_id: Option<String>,
    /// Where the role is assumed, if not at AWS
    #[arg(long, value_name = "URL")]
    sts_endpoint: Option<String>,
    /// Seconds that vended credentials are good for
    #[arg(long, value_name = "SECONDS")]
    credentials_seconds: Option<u32>,
    /// What GET /v1/config hands to clients as a default
    #[arg(long = "client-default", value_name = "KEY=VALUE", value_parser = key_value)]
    client_defaults: Vec<(String, String)>,
    /// What GET /v1/config hands to clients as an override
    #[arg(long = "client-override", value_name = "KEY=VALUE", value_parser = key_value)]
    client_overrides: Vec<(String, String)>,
}

impl Settings {
    /// Puts what is said into a body, over what stands there.
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
        let access = [
            ("role-arn", self.role_arn.map(Value::from)),
            ("external-id", self.external_id.map(Value::from)),
            ("sts-endpoint", self.sts_endpoint.map(Value::from)),
            ("credentials-seconds", self.credentials_seconds.map(Value::from)),
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
    /// Does it, and says what came of it.
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
            return Ok(format!("{listed:#}\n"));
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
            Output::Json => format!("{found:#}\n"),
            Output::Table => lines(&found),
        })
    }
}

/// All of a warehouse, in lines of a name and a value.
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
    for name in ["client-defaults", "client-overrides", "version", "created-by", "changed-by"] {
        add(name, &warehouse[name]);
    }
    table(["", ""], &rows).lines().skip(1).map(|line| format!("{line}\n")).collect()
}

impl Create {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, location, settings, connection } = self;
        let mut body = json!({ "name": name, "storage": { "location": location } });
        settings.put_into(&mut body);
        let made = connection.send("POST", PATH, &body).await?;
        Ok(match connection.output {
            Output::Json => format!("{made:#}\n"),
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
            return Err(ClientError::Input(format!("you may not change the warehouse {name}")));
        }
        // Refused if somebody else changes it in between.
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
            Output::Json => format!("{changed:#}\n"),
            Output::Table => format!("warehouse {name} is at version {}\n", changed["version"]),
        })
    }
}

impl Delete {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, connection } = self;
        connection.send("DELETE", &below(PATH, &name), &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => format!("{:#}\n", json!({ "deleted": name })),
            Output::Table => format!("deleted warehouse {name}\n"),
        })
    }
}
