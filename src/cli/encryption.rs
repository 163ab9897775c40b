//! `slateberg encryption`: the keys that encrypt what a running server keeps.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask_server;
use super::client::{ClientError, Connection};
use super::exit::Outcome;
use super::output::{Output, json_text, table, text, time};

const PATH: &str = "/management/v1/encryption";

/// Show, rotate and rewrap the keys that encrypt the catalog.
#[derive(Debug, Args)]
pub struct Encryption {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show whether the catalog is encrypted, and with which keys
    Status(Ask),
    /// Encrypt new data with a new data key. Existing data stays readable
    Rotate(Ask),
    /// Wrap all data keys again, with the wrapping key of the settings or with another one
    Rewrap(Rewrap),
}

#[derive(Debug, Args)]
struct Ask {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Rewrap {
    /// Wrapping key by its name in the KMS, such as an ARN [default: that of the server's settings]
    #[arg(long, value_name = "KEY")]
    wrapping_key: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Encryption {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        ask_server(async {
            match self.command {
                Command::Status(Ask { connection }) => {
                    let status = connection.send("GET", PATH, &Value::Null).await?;
                    Ok(told(&connection, &status))
                }
                Command::Rotate(Ask { connection }) => {
                    change(&connection, "rotate", &Value::Null).await
                }
                Command::Rewrap(Rewrap { wrapping_key, connection }) => {
                    let body = match wrapping_key {
                        Some(key) => json!({ "wrapping-key": key }),
                        None => json!({}),
                    };
                    change(&connection, "rewrap", &body).await
                }
            }
        })
    }
}

async fn change(connection: &Connection, what: &str, body: &Value) -> Result<String, ClientError> {
    let changed = connection.send("POST", &format!("{PATH}/{what}"), body).await?;
    Ok(told(connection, &changed))
}

fn told(connection: &Connection, status: &Value) -> String {
    if connection.output == Output::Json {
        return json_text(status);
    }
    let ring = &status["key-ring"];
    let Some(keys) = ring["data-keys"].as_array() else {
        return "not encrypted\n".to_owned();
    };
    let row = |key: &Value| {
        let number = key["number"].to_string();
        let active = if key["number"] == ring["active-data-key"] { " (active)" } else { "" };
        let [created, wrapped] = ["created-at-ms", "wrapped-at-ms"].map(|name| time(&key[name]));
        [number + active, created, wrapped, text(&key["kms"]), text(&key["wrapping-key"])]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    let head = ["DATA KEY", "CREATED", "WRAPPED", "KMS", "WRAPPING KEY"];
    let catalog = text(&ring["catalog-id"]);
    format!("catalog {catalog}, revision {}\n\n{}", ring["revision"], table(head, &rows))
}
