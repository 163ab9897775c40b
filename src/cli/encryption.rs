//! `slateberg encryption`: the keys that encrypt what a running server keeps.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask_server;
use super::client::{ClientError, Connection};
use super::exit::Outcome;
use super::output::{Output, span, table, text};
use crate::base::clock::{Clock, SystemClock};

const PATH: &str = "/management/v1/encryption";

/// Show, rotate and re-wrap the keys that encrypt what a running server keeps.
#[derive(Debug, Args)]
pub struct Encryption {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell whether it is encrypted, and with which keys
    Status(Ask),
    /// Encrypt what is written from now on with a new data key; what is there stays readable
    Rotate(Ask),
    /// Have all data keys wrapped anew, by the wrapping key of the settings or by another one
    Rewrap(Rewrap),
}

#[derive(Debug, Args)]
struct Ask {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Rewrap {
    /// The wrapping key, as the KMS knows it, such as an ARN [default: that of the server's settings]
    #[arg(long, value_name = "KEY")]
    wrapping_key: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Encryption {
    /// Does it, and says what came of it.
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
        return format!("{status:#}\n");
    }
    let ring = &status["key-ring"];
    let Some(keys) = ring["data-keys"].as_array() else {
        return "not encrypted\n".to_owned();
    };
    let now_ms = SystemClock.now_ms();
    let row = |key: &Value| {
        let number = key["number"].to_string();
        let active = if key["number"] == ring["active-data-key"] { " (active)" } else { "" };
        let [created, wrapped] = ["created-at-ms", "wrapped-at-ms"].map(|name| {
            let at_ms = key[name].as_i64();
            at_ms.map_or("-".to_owned(), |at_ms| format!("{} ago", span((now_ms - at_ms).max(0))))
        });
        [number + active, created, wrapped, text(&key["kms"]), text(&key["wrapping-key"])]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    let head = ["DATA KEY", "CREATED", "WRAPPED", "KMS", "WRAPPING KEY"];
    let catalog = text(&ring["catalog-id"]);
    format!("catalog {catalog}, revision {}\n\n{}", ring["revision"], table(head, &rows))
}
