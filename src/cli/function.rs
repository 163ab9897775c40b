//! `slateberg function`: the functions of a running server.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::run_online;
use super::client::{ClientError, Connection, encoded, parse, query};
use super::exit::Outcome;
use super::ls::{Warehouse, joined, split};
use super::output::{Output, json_text, table};
use slateberg_management::functions::FunctionState;

const PATH: &str = "/management/v1/functions";

/// Create, list, show and drop SQL functions.
#[derive(Debug, Args)]
pub struct Function {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the functions of a namespace
    #[command(visible_alias = "ls")]
    List(List),
    /// Show the definitions of a function
    Show(Show),
    /// Create a function, or replace it
    Create(Box<Create>),
    /// Drop a function
    #[command(visible_alias = "rm")]
    Drop(DropFunction),
}

#[derive(Debug, Args)]
struct List {
    /// Namespace, as WAREHOUSE/LEVEL...
    namespace: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Show {
    /// Function, as WAREHOUSE/LEVEL.../NAME
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// Function, as WAREHOUSE/LEVEL.../NAME
    name: String,
    /// JSON file with the definitions, for several signatures or dialects
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sql", "dialect", "returns", "parameters", "deterministic"])]
    file: Option<PathBuf>,
    /// SQL of the function
    #[arg(long, value_name = "SQL", required_unless_present = "file")]
    sql: Option<String>,
    /// Dialect of the SQL, such as spark
    #[arg(long, value_name = "DIALECT", required_unless_present = "file")]
    dialect: Option<String>,
    /// Type of the result, such as int or decimal(9,2)
    #[arg(long, value_name = "TYPE", required_unless_present = "file")]
    returns: Option<String>,
    /// Parameter, such as price:double. Repeatable
    #[arg(long = "parameter", value_name = "NAME:TYPE", value_parser = parameter)]
    parameters: Vec<(String, String)>,
    /// Equal arguments always have equal results
    #[arg(long)]
    deterministic: bool,
    /// Documentation of the function
    #[arg(long, value_name = "TEXT")]
    doc: Option<String>,
    /// Replace the function. Fails if it does not exist
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct DropFunction {
    /// Function, as WAREHOUSE/LEVEL.../NAME
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
struct Loaded {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    definitions: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Definition {
    parameters: Vec<Parameter>,
    return_type: Value,
    versions: Vec<Version>,
    current_version_id: i64,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(rename = "type")]
    data_type: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Version {
    version_id: i64,
    representations: Vec<Representation>,
}

#[derive(Deserialize)]
struct Representation {
    dialect: String,
    sql: String,
}

impl Function {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::List(list) => run_online(list.run()),
            Command::Show(show) => run_online(show.run()),
            Command::Create(create) => run_online(create.run()),
            Command::Drop(drop) => run_online(drop.run()),
        }
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let (warehouse, levels) = path(&self.connection, &self.namespace).await?;
        let names = warehouse.names(&levels, "functions").await?;
        if self.connection.output == Output::Json {
            return Ok(json_text(&json!({ "functions": names })));
        }
        let rows: Vec<_> = names.into_iter().map(|name| [name]).collect();
        Ok(table(["FUNCTION"], &rows))
    }
}

impl Show {
    async fn run(self) -> Result<String, ClientError> {
        let (warehouse, mut levels) = path(&self.connection, plain(&self.name)).await?;
        let name = levels.pop().unwrap_or_default();
        let path = format!("{}/{}", warehouse.path(&levels, "functions"), encoded(&name));
        let loaded = self.connection.send("GET", &path, &Value::Null).await?;
        self.connection.render(loaded, |Loaded { metadata }| {
            let rows: Vec<_> = metadata.definitions.iter().flat_map(rows).collect();
            table(["PARAMETERS", "RETURNS", "VERSION", "DIALECT", "SQL"], &rows)
        })
    }
}

impl Create {
    async fn run(self) -> Result<String, ClientError> {
        let mut body = match &self.file {
            Some(file) => {
                let wrong = |reason: String| {
                    ClientError::Input(format!("cannot read {}: {reason}", file.display()))
                };
                let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
                let body: Map<String, Value> =
                    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
                Value::Object(body)
            }
            None => json!({ "definitions": [self.definition()] }),
        };
        body["resource"] = json!(resource(&self.name));
        if let Some(doc) = &self.doc {
            body["doc"] = json!(doc);
        }
        let method = if self.replace { "PUT" } else { "POST" };
        let changed = self.connection.send(method, PATH, &body).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&changed),
            Output::Table => {
                let FunctionState { resource, version, .. } = parse(changed)?;
                let done = if self.replace { "replaced" } else { "created" };
                format!("{done} {resource}, version {version}\n")
            }
        })
    }

    fn definition(&self) -> Value {
        let parameters = self.parameters.iter();
        let parameters: Vec<_> = parameters
            .map(|(name, data_type)| json!({ "name": name, "type": data_type }))
            .collect();
        json!({
            "parameters": parameters,
            "return-type": self.returns,
            "deterministic": self.deterministic,
            "representations": [{ "dialect": self.dialect, "sql": self.sql }],
        })
    }
}

impl DropFunction {
    async fn run(self) -> Result<String, ClientError> {
        let resource = resource(&self.name);
        let query = query(&[("resource", Some(resource.clone()))]);
        self.connection.send("DELETE", &format!("{PATH}{query}"), &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&json!({ "dropped": resource })),
            Output::Table => format!("dropped {resource}\n"),
        })
    }
}

/// Opens the warehouse of a path, and returns the levels below it.
async fn path<'a>(
    connection: &'a Connection,
    path: &str,
) -> Result<(Warehouse<'a>, Vec<String>), ClientError> {
    let mut levels = split(path);
    let name = levels.remove(0);
    Ok((Warehouse::open(connection, Some(&name)).await?, levels))
}

fn plain(name: &str) -> &str {
    name.strip_prefix("function:").unwrap_or(name)
}

fn resource(name: &str) -> String {
    format!("function:{}", joined(&split(plain(name))))
}

/// Returns a row for each dialect of a definition.
fn rows(definition: &Definition) -> Vec<[String; 5]> {
    let text = |data_type: &Value| match data_type {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    let parameters = definition.parameters.iter();
    let parameters: Vec<_> =
        parameters.map(|it| format!("{} {}", it.name, text(&it.data_type))).collect();
    let current = definition.current_version_id;
    let version = definition.versions.iter().find(|version| version.version_id == current);
    let representations = version.map_or(&[][..], |version| &version.representations);
    let row = |it: &Representation| {
        [
            parameters.join(", "),
            text(&definition.return_type),
            current.to_string(),
            it.dialect.clone(),
            it.sql.clone(),
        ]
    };
    representations.iter().map(row).collect()
}

fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, data_type)) if !name.is_empty() => Ok((name.to_owned(), data_type.to_owned())),
        _ => Err("expected NAME:TYPE".to_owned()),
    }
}
