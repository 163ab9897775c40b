//! `slateberg cluster finalize`.

use clap::Args;
use serde_json::Value;

use super::transfer::{PATH, Transfer, name_of_writer};
use crate::cli::client::{ClientError, Connection, parse};
use crate::cli::output::{Output, json_text};
use slateberg_base::version;
use slateberg_management::cluster::{ClusterMember, ClusterRole, ClusterStatus};

#[derive(Debug, Args)]
pub(super) struct Finalize {
    #[command(flatten)]
    connection: Connection,
}

impl Finalize {
    /// Transfers the writer to a member of the newest version, if there is a newer one than the writer.
    pub(super) async fn run(self) -> Result<String, ClientError> {
        let Self { connection } = self;
        let status = connection.send("GET", PATH, &Value::Null).await?;
        let status: ClusterStatus = parse(status)?;
        let is_candidate =
            |member: &&ClusterMember| member.eligible && member.role == ClusterRole::Standby;
        let newest = status.members.iter().filter(is_candidate).max_by_key(|it| order(it));
        let writer = status.members.iter().find(|member| Some(member.id) == status.writer);
        match newest.filter(|newest| writer.is_none_or(|writer| order(writer) < order(newest))) {
            Some(newest) => {
                Transfer { member: Some(newest.id.to_string()), connection }.run().await
            }
            None if connection.output == Output::Json => Ok(json_text(&status)),
            None => {
                let writer = name_of_writer(&status);
                Ok(format!("no member has a newer version than the writer '{writer}'\n"))
            }
        }
    }
}

fn order(member: &ClusterMember) -> (Option<u32>, Vec<u64>) {
    version::order(member.store_format, &member.version)
}
