//! `slateberg warehouse`: the warehouses of a running server.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::arguments::key_value;
use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path, parse};
use super::duration::{duration, seconds};
use super::exit::Outcome;
use super::output::{Output, json_text, lines_of, principal, table};
use slateberg_management::Properties;
use slateberg_management::warehouses::{
    self as wire, CreateWarehouseRequest, DelegationMode, FileAccessRequest, StorageRequest,
    UpdateWarehouseRequest, WarehouseList,
};

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
    /// Create a warehouse. The server first tests whether it can use the location
    Create(Create),
    /// Change a warehouse that was created at run time. Omitted options keep their values
    ///
    /// The given values of a repeatable option replace all its current values.
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
    /// Remove the reference to a section [credentials.NAME]
    #[arg(long, conflicts_with = "credentials")]
    no_credentials: bool,
    /// Remove all maintenance properties
    #[arg(long, conflicts_with = "maintenance")]
    no_maintenance: bool,
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

/// The settings of a warehouse. The values of a repeatable option replace all its current values.
#[derive(Debug, Args)]
struct Settings {
    /// Further URL below which tables may be located. Repeatable
    #[arg(long = "allowed-location", value_name = "URL")]
    allowed_locations: Vec<String>,
    /// Option of the object store, such as aws_region=eu-central-1. Secrets are rejected: use
    /// --credentials. Repeatable
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,
    /// Credentials for the object store of the warehouse: the NAME of a section [credentials.NAME]
    /// in the server's settings
    #[arg(long, value_name = "NAME")]
    credentials: Option<String>,
    /// Way in which clients get access to files (access-delegation mode). Repeatable: name the
    /// preferred mode first
    #[arg(long = "delegation", value_name = "MODE", value_parser = delegation_mode())]
    delegation: Vec<DelegationMode>,
    /// AWS role that the server assumes to get credentials for a single table, as
    /// `arn:aws:iam::ACCOUNT:role/NAME`
    #[arg(long, value_name = "ARN")]
    role_arn: Option<String>,
    /// External ID that the role's trust policy requires
    #[arg(long, value_name = "TEXT")]
    external_id: Option<String>,
    /// URL of the STS service [default: the STS of AWS]
    #[arg(long, value_name = "URL")]
    sts_endpoint: Option<String>,
    /// Lifetime of vended credentials, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    credentials_lifetime: Option<Duration>,
    #[arg(long, hide = true, conflicts_with = "credentials_lifetime", value_parser = seconds)]
    credentials_seconds: Option<Duration>,
    /// Client property that GET /v1/config returns as a default. Repeatable
    #[arg(long = "client-default", value_name = "KEY=VALUE", value_parser = key_value)]
    client_defaults: Vec<(String, String)>,
    /// Client property that GET /v1/config returns as an override. Repeatable
    #[arg(long = "client-override", value_name = "KEY=VALUE", value_parser = key_value)]
    client_overrides: Vec<(String, String)>,
    /// Time during which dropped namespaces, tables and views can be restored, such as 30d or 0s
    /// [default: the server's setting]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    dropped_kept: Option<Duration>,
    /// Maintenance property of tables that do not have the property themselves, such as
    /// slateberg.maintenance.expire-snapshots=true. Repeatable
    #[arg(long = "maintenance", value_name = "KEY=VALUE", value_parser = key_value)]
    maintenance: Vec<(String, String)>,
}

fn delegation_mode() -> impl TypedValueParser<Value = DelegationMode> {
    let parser = PossibleValuesParser::new(DelegationMode::ALL.map(DelegationMode::as_str));
    parser.try_map(|name| {
        let mode = DelegationMode::ALL.into_iter().find(|mode| mode.as_str() == name);
        mode.ok_or("unknown access-delegation mode")
    })
}

impl Settings {
    /// Copies the options of the command line to the members of a request. Omitted options change
    /// nothing.
    fn apply_to(
        self,
        storage: &mut StorageRequest,
        (client_defaults, client_overrides): (&mut Option<Properties>, &mut Option<Properties>),
        dropped_kept_seconds: &mut Option<u64>,
        maintenance: &mut Option<Properties>,
    ) {
        let lifetime = self.credentials_lifetime.or(self.credentials_seconds);
        let seconds = lifetime.map(|it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX));
        let pairs = |pairs: Vec<(String, String)>| {
            Some(pairs.into_iter().collect::<Properties>()).filter(|all| !all.is_empty())
        };
        let mut access = storage.access.take().unwrap_or_default();
        set(&mut access.delegation, Some(self.delegation).filter(|modes| !modes.is_empty()));
        set(&mut access.role_arn, self.role_arn);
        set(&mut access.external_id, self.external_id);
        set(&mut access.sts_endpoint, self.sts_endpoint);
        set(&mut access.credentials_seconds, seconds);
        storage.access = Some(access).filter(|access| *access != FileAccessRequest::default());
        let locations = Some(self.allowed_locations).filter(|all| !all.is_empty());
        set(&mut storage.allowed_locations, locations);
        set(&mut storage.credentials, self.credentials);
        set(&mut storage.options, pairs(self.options));
        set(client_defaults, pairs(self.client_defaults));
        set(client_overrides, pairs(self.client_overrides));
        set(maintenance, pairs(self.maintenance));
        set(dropped_kept_seconds, self.dropped_kept.map(|kept| kept.as_secs()));
    }
}

/// Replaces a member with the value of an option, if the option was given.
fn set<T>(member: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *member = value;
    }
}

impl Warehouse {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
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
        self.connection.render(listed, |listed: WarehouseList| {
            let rows: Vec<_> = listed.warehouses.iter().map(row).collect();
            table(["NAME", "SOURCE", "STATUS", "LOCATION"], &rows)
        })
    }
}

fn row(warehouse: &wire::Warehouse) -> [String; 4] {
    let default = if warehouse.default { " (default)" } else { "" };
    let location = warehouse.details.as_ref().map(|it| it.storage.location.clone());
    [
        format!("{}{default}", warehouse.name),
        warehouse.source.as_str().to_owned(),
        warehouse.status.as_str().to_owned(),
        location.unwrap_or_else(|| "-".to_owned()),
    ]
}

impl Show {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, connection } = self;
        let current = connection.send("GET", &child_path(PATH, &name), &Value::Null).await?;
        connection.render(current, |current| lines(&current))
    }
}

/// Formats a warehouse, with the name and the value of one member on each line.
fn lines(warehouse: &wire::Warehouse) -> String {
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut add = |name: &str, values: Vec<String>| {
        rows.extend(values.into_iter().map(|value| [name.to_owned(), value]));
    };
    let pairs =
        |all: &Properties| all.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let details = warehouse.details.as_ref();
    add("name", vec![warehouse.name.clone()]);
    add("id", vec![warehouse.id.clone()]);
    add("source", vec![warehouse.source.as_str().to_owned()]);
    add("status", vec![warehouse.status.as_str().to_owned()]);
    if let Some(details) = details {
        let storage = &details.storage;
        add("problem", details.problem.iter().cloned().collect());
        add("location", vec![storage.location.clone()]);
        add("allowed-locations", storage.allowed_locations.clone());
        add("options", pairs(&storage.options));
        add("credentials", storage.credentials.iter().cloned().collect());
        let modes = storage.access.delegation.iter();
        add("delegation", modes.map(|mode| mode.as_str().to_owned()).collect());
    }
    add("client-defaults", pairs(&warehouse.client_defaults));
    add("client-overrides", pairs(&warehouse.client_overrides));
    let kept_seconds = warehouse.dropped_kept_seconds.iter();
    add("dropped-kept-seconds", kept_seconds.map(u64::to_string).collect());
    add("maintenance", pairs(&warehouse.maintenance));
    if let Some(details) = details {
        add("version", details.version.iter().map(u64::to_string).collect());
        let created_by = details.created_by.as_deref();
        let created_by = created_by.map(|by| principal(by, details.created_by_name.as_deref()));
        add("created-by", created_by.into_iter().collect());
        let changed_by = details.changed_by.as_deref();
        let changed_by = changed_by.map(|by| principal(by, details.changed_by_name.as_deref()));
        add("changed-by", changed_by.into_iter().collect());
    }
    lines_of(&rows)
}

impl Create {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, location, settings, connection } = self;
        let mut request = CreateWarehouseRequest {
            name,
            storage: StorageRequest { location: Some(location), ..StorageRequest::default() },
            client_defaults: None,
            client_overrides: None,
            dropped_kept_seconds: None,
            maintenance: None,
        };
        settings.apply_to(
            &mut request.storage,
            (&mut request.client_defaults, &mut request.client_overrides),
            &mut request.dropped_kept_seconds,
            &mut request.maintenance,
        );
        let created = connection.send("POST", PATH, &body(&request)?).await?;
        connection.render(created, |created: wire::Warehouse| {
            let at = created.details.map(|it| it.storage.location).unwrap_or_default();
            format!("created warehouse {} at {at}\n", created.name)
        })
    }
}

impl Update {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, settings, no_credentials, no_maintenance, connection } = self;
        let path = child_path(PATH, &name);
        let current = connection.send("GET", &path, &Value::Null).await?;
        let current: wire::Warehouse = parse(current)?;
        let Some(details) = current.details else {
            return Err(ClientError::Input(format!(
                "the warehouse {name} cannot be changed with this credential, which cannot read its storage settings"
            )));
        };
        // With `expected_version`, the server rejects the update if another client has changed the
        // warehouse after this command loaded it.
        let mut request = UpdateWarehouseRequest {
            storage: details.storage.into(),
            client_defaults: Some(current.client_defaults),
            client_overrides: Some(current.client_overrides),
            dropped_kept_seconds: current.dropped_kept_seconds,
            maintenance: Some(current.maintenance),
            expected_version: details.version,
        };
        if no_credentials {
            request.storage.credentials = None;
        }
        if no_maintenance {
            request.maintenance = None;
        }
        settings.apply_to(
            &mut request.storage,
            (&mut request.client_defaults, &mut request.client_overrides),
            &mut request.dropped_kept_seconds,
            &mut request.maintenance,
        );
        let changed = connection.send("PUT", &path, &body(&request)?).await?;
        connection.render(changed, |changed: wire::Warehouse| {
            let version = changed.details.and_then(|it| it.version).unwrap_or_default();
            format!("warehouse {name} is at version {version}\n")
        })
    }
}

impl Delete {
    async fn run(self) -> Result<String, ClientError> {
        let Self { name, connection } = self;
        connection.send("DELETE", &child_path(PATH, &name), &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&json!({ "deleted": name })),
            Output::Table => format!("deleted warehouse {name}\n"),
        })
    }
}
