//! `slateberg protect`, `unprotect` and `protected`: protections of a running server.

use clap::Args;
use serde_json::{Value, json};

use super::client::run_online;
use super::client::{ClientError, Connection, body, child_path, parse};
use super::exit::Outcome;
use super::output::{Output, json_text, principal, table, time};
use slateberg_management::protections::{ProtectRequest, Protection, ProtectionList};

const PATH: &str = "/management/v1/protections";

/// Protect a warehouse, namespace, table, view or function against drop, purge, unregister and rename.
#[derive(Debug, Args)]
pub struct Protect {
    /// Resource, as table:WAREHOUSE/LEVEL.../NAME, view:..., namespace:WAREHOUSE/LEVEL... or
    /// warehouse:NAME
    resource: String,
    /// Comment, such as the reason
    #[arg(long)]
    comment: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Lift a protection.
#[derive(Debug, Args)]
pub struct Unprotect {
    /// Resource, as table:WAREHOUSE/LEVEL.../NAME, view:..., namespace:WAREHOUSE/LEVEL... or
    /// warehouse:NAME
    resource: String,
    #[command(flatten)]
    connection: Connection,
}

/// List the protected resources that you may see.
#[derive(Debug, Args)]
pub struct Protected {
    #[command(flatten)]
    connection: Connection,
}

impl Protect {
    /// Protects the resource and prints its name.
    pub fn run(self) -> Outcome {
        run_online(async {
            let Self { resource, comment, connection } = self;
            let request = ProtectRequest { resource, comment };
            let protected = connection.send("POST", PATH, &body(&request)?).await?;
            Ok(match connection.output {
                Output::Json => json_text(&protected),
                Output::Table => {
                    let Protection { resource, .. } = parse(protected)?;
                    format!("protected {resource}\n")
                }
            })
        })
    }
}

impl Unprotect {
    /// Lifts the protection and prints the name of the resource.
    pub fn run(self) -> Outcome {
        run_online(async {
            let Self { resource, connection } = self;
            let listed = connection.send("GET", PATH, &Value::Null).await?;
            let protections = parse::<ProtectionList>(listed)?.protections;
            let found = protections.into_iter().find(|it| it.resource == resource);
            let found =
                found.ok_or_else(|| ClientError::Input(format!("{resource} is not protected")))?;
            let path = child_path(PATH, &found.id.to_string());
            connection.send("DELETE", &path, &Value::Null).await?;
            Ok(match connection.output {
                Output::Json => json_text(&json!({ "unprotected": resource })),
                Output::Table => format!("{resource} is no longer protected\n"),
            })
        })
    }
}

impl Protected {
    /// Prints the protected resources.
    pub fn run(self) -> Outcome {
        run_online(async {
            let listed = self.connection.send("GET", PATH, &Value::Null).await?;
            self.connection.render(listed, |ProtectionList { mut protections, .. }| {
                protections.sort_by(|one, other| one.resource.cmp(&other.resource));
                let rows: Vec<_> = protections.iter().map(row).collect();
                table(["RESOURCE", "SINCE", "BY", "COMMENT"], &rows)
            })
        })
    }
}

fn row(protection: &Protection) -> [String; 4] {
    [
        protection.resource.clone(),
        time(Some(protection.protected_at_ms)),
        principal(&protection.protected_by, protection.protected_by_name.as_deref()),
        protection.comment.clone().unwrap_or_default(),
    ]
}
