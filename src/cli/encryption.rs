//! `slateberg encryption`: the keys that encrypt the state of a running server.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, body};
use super::exit::Outcome;
use super::output::{table, time};
use slateberg_management::encryption::{DataKey, EncryptionStatus, RewrapRequest};

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
    Status(StatusArgs),
    /// Encrypt new data with a new data key. Existing data stays readable
    Rotate(StatusArgs),
    /// Encrypt (wrap) all data keys again, with the wrapping key of the server's settings or with
    /// --wrapping-key
    Rewrap(Rewrap),
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Rewrap {
    /// Name of the wrapping key in the KMS, such as an ARN [default: the wrapping key of the
    /// server's settings]
    #[arg(long, value_name = "KEY")]
    wrapping_key: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Encryption {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::Status(StatusArgs { connection }) => {
                    let status = connection.send("GET", PATH, &Value::Null).await?;
                    connection.render(status, text)
                }
                Command::Rotate(StatusArgs { connection }) => {
                    change(&connection, "rotate", &Value::Null).await
                }
                Command::Rewrap(Rewrap { wrapping_key, connection }) => {
                    change(&connection, "rewrap", &body(&RewrapRequest { wrapping_key })?).await
                }
            }
        })
    }
}

async fn change(
    connection: &Connection,
    action: &str,
    body: &Value,
) -> Result<String, ClientError> {
    let changed = connection.send("POST", &format!("{PATH}/{action}"), body).await?;
    connection.render(changed, text)
}

fn text(status: EncryptionStatus) -> String {
    let Some(ring) = status.key_ring else { return "not encrypted\n".to_owned() };
    let row = |key: &DataKey| {
        let active = if key.number == ring.active_data_key { " (active)" } else { "" };
        let [created, wrapped] = [key.created_at_ms, key.wrapped_at_ms].map(|at| time(Some(at)));
        let number = format!("{}{active}", key.number);
        [number, created, wrapped, key.kms.clone(), key.wrapping_key.clone()]
    };
    let rows: Vec<_> = ring.data_keys.iter().map(row).collect();
    let head = ["DATA KEY", "CREATED", "WRAPPED", "KMS", "WRAPPING KEY"];
    let rows = table(head, &rows);
    format!("catalog {}, revision {}\n\n{rows}", ring.catalog_id, ring.revision)
}
