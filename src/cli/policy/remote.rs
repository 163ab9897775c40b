//! `slateberg policy list`, `show`, `put`, `delete`, `history`, `diff` and `rollback`: the policies
//! of a running server.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::diff;
use crate::cli::change::Change;
use crate::cli::client::{ClientError, Connection, body, child_path, parse};
use crate::cli::output::{Output, json_text, principal, table};
use slateberg_authz::listing::names;
use slateberg_base::rfc3339;
use slateberg_management::policies::{
    Policy, PolicyChange, PolicyList, PolicyRevision, PolicyRevisionDiff, PolicyRevisionList,
    PutPolicyRequest, RollbackRequest,
};

const PATH: &str = "/management/v1/policies";

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only policies of this origin: file, api or grant
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// ID of the policy, as `list` prints it
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Put {
    /// File with one policy, which must have an @id annotation. `-` reads standard input
    file: PathBuf,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// ID of the policy, as `list` prints it
    id: String,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
pub(super) struct History {
    /// Maximum number of revisions to show, the newest first
    #[arg(long, value_name = "NUMBER", default_value = "20")]
    limit: u32,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// Revision before the changes
    from: u64,
    /// Revision after the changes [default: the newest]
    to: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// Revision to return to
    to: u64,
    #[command(flatten)]
    change: Change,
}

/// The output of a subcommand.
type RenderResult = Result<String, ClientError>;

impl List {
    pub(super) async fn run(self) -> RenderResult {
        let response = self.connection.send("GET", PATH, &Value::Null).await?;
        if self.connection.output == Output::Json && self.origin.is_none() {
            return Ok(json_text(&response));
        }
        let mut listed: PolicyList = parse(response)?;
        if let Some(origin) = &self.origin {
            listed.policies.retain(|policy| policy.origin.as_str() == origin);
        }
        if self.connection.output == Output::Json {
            return Ok(json_text(&body(&listed)?));
        }
        let row = |policy: &Policy| {
            let effect = if policy.template { "template" } else { policy.effect.as_str() };
            [
                policy.id.clone(),
                effect.to_owned(),
                policy.origin.as_str().to_owned(),
                policy.from.clone().unwrap_or_default(),
                policy.description.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = listed.policies.iter().map(row).collect();
        let policies = table(["POLICY", "EFFECT", "ORIGIN", "FROM", "DESCRIPTION"], &rows);
        let PolicyList { revision, in_force, .. } = listed;
        Ok(format!("{policies}\nrevision {revision}, in force {in_force}\n"))
    }
}

impl Show {
    pub(super) async fn run(self) -> RenderResult {
        let policy = self.connection.send("GET", &child_path(PATH, &self.id), &Value::Null).await?;
        self.connection.render(policy, |policy: Policy| format!("{}\n", policy.text.trim_end()))
    }
}

impl Put {
    pub(super) async fn run(self) -> RenderResult {
        let policy = self.read()?;
        let file = self.file.display().to_string();
        let named = names(&file, &policy).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            ClientError::Input(lines.join("\n"))
        })?;
        let [Some(id)] = named.as_slice() else {
            let expected = "expected one policy or template with an annotation @id(\"...\")";
            return Err(ClientError::Input(format!("{file}: {expected}")));
        };
        let request = |comment, expected_revision| PutPolicyRequest {
            text: policy,
            comment,
            expected_revision,
        };
        let path = child_path(PATH, id);
        render_change(&self.change, self.change.send("PUT", &path, request).await?)
    }

    fn read(&self) -> Result<String, ClientError> {
        let mut text = String::new();
        let read = match self.file.to_str() {
            Some("-") => std::io::stdin().read_to_string(&mut text).map(|_| text),
            _ => std::fs::read_to_string(&self.file),
        };
        read.map_err(|error| ClientError::Input(format!("{}: {error}", self.file.display())))
    }
}

impl Delete {
    pub(super) async fn run(self) -> RenderResult {
        render_change(&self.change, self.change.delete(&child_path(PATH, &self.id)).await?)
    }
}

impl History {
    pub(super) async fn run(self) -> RenderResult {
        let path = format!("{PATH}/revisions?pageToken=&pageSize={}", self.limit.max(1));
        let page = self.connection.send("GET", &path, &Value::Null).await?;
        let row = |it: &PolicyRevision| {
            let by = principal(&it.by, it.by_name.as_deref());
            let (at, what) = (rfc3339::format(it.at_ms), diff::summary(&it.changes));
            let comment = it.comment.clone().unwrap_or_default();
            [it.revision.to_string(), at, by, it.action.clone(), what, comment]
        };
        self.connection.render(page, |PolicyRevisionList { revisions, .. }| {
            let rows: Vec<_> = revisions.iter().map(row).collect();
            table(["REVISION", "AT", "BY", "ACTION", "WHAT", "COMMENT"], &rows)
        })
    }
}

impl Diff {
    pub(super) async fn run(self) -> RenderResult {
        let Self { from, to, connection } = self;
        let to = match to {
            Some(to) => to,
            None => {
                let newest = format!("{PATH}?pageToken=&pageSize=1");
                let newest = connection.send("GET", &newest, &Value::Null).await?;
                parse::<PolicyList>(newest)?.revision
            }
        };
        let path = format!("{PATH}/revisions/{from}/diff/{to}");
        let response = connection.send("GET", &path, &Value::Null).await?;
        connection.render(response, |diff: PolicyRevisionDiff| diff::text_of(&diff.changes))
    }
}

impl Rollback {
    pub(super) async fn run(self) -> RenderResult {
        let to = self.to;
        let request =
            |comment, expected_revision| RollbackRequest { to, comment, expected_revision };
        let path = format!("{PATH}/rollback");
        render_change(&self.change, self.change.send("POST", &path, request).await?)
    }
}

/// Describes the outcome of a change.
fn render_change(change: &Change, response: Value) -> RenderResult {
    change.connection.render(
        response,
        |PolicyChange { revision, in_force, changes, warnings, .. }| {
            let end = if change.dry_run {
                "dry run: nothing was changed".to_owned()
            } else {
                format!("revision {revision}, in force {in_force}")
            };
            let warnings: String =
                warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            format!("{}{warnings}{end}\n", diff::text_of(&changes))
        },
    )
}
