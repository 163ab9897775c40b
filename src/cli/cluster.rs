//! `slateberg cluster`: the members of a cluster, as the bucket of the state describes them.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments::Common;
use super::exit::{Exit, Failure, Outcome};
use super::output::{GLOBAL, OUTPUT_HELP, Output, print, print_json, table};
use slateberg_cluster::{WriterRecord, WriterState};
use slateberg_config::Settings;
use slateberg_runtime::cluster::{MemberRecord, Members, WriterRegister};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::state;

/// Timeout of a request to the bucket.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// Show the members of a cluster.
#[derive(Debug, Args)]
pub struct Cluster {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the writer and all members. Reads the bucket, so it needs no running server
    Status(Status),
}

#[derive(Debug, Args)]
struct Status {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Cluster {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        let Command::Status(status) = self.command;
        status.common.run_offline(async |settings| status.run(settings).await)
    }
}

impl Status {
    async fn run(&self, settings: &Settings) -> Result<ExitCode, Failure> {
        let stores = state::stores(settings, &Dependencies::default())?;
        let Some((url, opened)) = stores.first() else {
            return Err(Failure::new(Exit::Settings, "there is no state"));
        };
        if opened.directory.is_some() {
            let message =
                format!("{url} is a local directory: a cluster requires a state in a bucket");
            return Err(Failure::new(Exit::Settings, message));
        }
        let unreachable = |error: &dyn std::fmt::Display| Failure::new(Exit::Unreachable, error);
        let register = WriterRegister::open(opened, REQUEST_MAX);
        let writer = register.read().await.map_err(|error| unreachable(&error))?;
        let members = Members::open(opened, REQUEST_MAX).list().await;
        let members = members.map_err(|error| unreachable(&error))?;
        let writer = writer.map(|(record, _)| record);
        match self.output {
            Output::Json => print_json(&json!({
                "state": url,
                "writer": writer,
                "members": members,
            })),
            Output::Table => print(&text(url, writer.as_ref(), &members)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(url: &str, writer: Option<&WriterRecord>, members: &[MemberRecord]) -> String {
    let mut text = format!("state   {url}\n");
    text += &match writer {
        None => "writer  none: no cluster has used this state\n".to_owned(),
        Some(writer) => {
            let (name, term) = (&writer.holder.name, writer.term);
            let state = match writer.state {
                WriterState::Opening => "opens the catalog",
                WriterState::Serving => "serves requests",
                WriterState::Leaving => "is stopping",
                WriterState::Released => "has stopped",
            };
            format!("writer  {name} {state} (term {term}, lease {} ms)\n", writer.lease_ms)
        }
    };
    let is_writer = |member: &MemberRecord| {
        writer.is_some_and(|writer| {
            writer.holder.node == member.member.node && writer.state == WriterState::Serving
        })
    };
    let rows: Vec<_> = members
        .iter()
        .map(|member| {
            let role = match (is_writer(member), member.eligible) {
                (true, _) => "writer",
                (false, true) => "standby",
                (false, false) => "standby, not eligible",
            };
            let MemberRecord { member, peer, .. } = member;
            [member.name.clone(), role.to_owned(), member.version.clone(), peer.url.clone()]
        })
        .collect();
    text.push('\n');
    text + &table(["MEMBER", "ROLE", "VERSION", "ADDRESS"], &rows)
}
