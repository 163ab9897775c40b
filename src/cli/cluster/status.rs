//! `slateberg cluster status`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::bucket::{Bucket, bucket, state_of, unreachable};
use crate::cli::arguments::Common;
use crate::cli::exit::Failure;
use crate::cli::output::{GLOBAL, OUTPUT_HELP, Output, print, print_json, table};
use slateberg_cluster::{WriterRecord, WriterState};
use slateberg_config::Settings;
use slateberg_runtime::cluster::MemberRecord;
use slateberg_runtime::dependencies::Dependencies;

#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    pub(super) common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl Status {
    pub(super) async fn run(&self, settings: &Settings) -> Result<ExitCode, Failure> {
        let Bucket { url, register, members } = bucket(settings, &Dependencies::default()).await?;
        let writer = register.read().await.map_err(|error| unreachable(&error))?;
        let members = members.list().await;
        let members = members.map_err(|error| unreachable(&error))?;
        let writer = writer.map(|(record, _)| record);
        match self.output {
            Output::Json => print_json(&json!({
                "state": url,
                "writer": writer,
                "members": members,
                "is-upgraded": upgrade(&members).is_empty(),
            })),
            Output::Table => print(&text(&url, writer.as_ref(), &members)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(url: &str, writer: Option<&WriterRecord>, members: &[MemberRecord]) -> String {
    let mut text = format!("state   {url}\n");
    text += &match writer {
        None => "writer  none: no cluster has used this state\n".to_owned(),
        Some(writer) if writer.state == WriterState::Paused => {
            let (name, term) = (&writer.holder.name, writer.term);
            format!("writer  none: the cluster is paused (last writer {name}, term {term})\n")
                + "pause   ends with `slateberg cluster resume`\n"
        }
        Some(writer) => {
            let (term, lease_ms) = (writer.term, writer.lease_ms);
            format!("writer  {} (term {term}, lease {lease_ms} ms)\n", state_of(writer))
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
    text += &table(["MEMBER", "ROLE", "VERSION", "ADDRESS"], &rows);
    text += &upgrade(members);
    let Some(writer) = writer else { return text };
    for MemberRecord { member, .. } in members {
        let different = member.settings.different_sections(&writer.holder.settings);
        if !different.is_empty() {
            let (name, sections) = (&member.name, different.join(", "));
            text += &format!("\n{name} and the writer have different settings: {sections}\n");
        }
    }
    text
}

/// Describes an upgrade that is not complete. The record of a member that has crashed remains for a day.
fn upgrade(members: &[MemberRecord]) -> String {
    let newest = members.iter().map(|it| it.member.store_format).max().flatten();
    let is_older = |it: &&MemberRecord| it.member.store_format < newest;
    let older: Vec<_> = members.iter().filter(is_older).map(|it| &*it.member.name).collect();
    match newest {
        Some(newest) if !older.is_empty() => {
            let names = older.join(", ");
            format!(
                "\nthe upgrade is not complete: these members do not read the store format {newest}: {names}\n"
            )
        }
        _ => String::new(),
    }
}
