//! `slateberg policy list`, `show`, `put`, `delete`, `history`, `diff` and `rollback`: the policies of a
//! running server.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::diff;
use crate::cli::change::Change;
use crate::cli::client::{ClientError, Connection, below};
use crate::cli::output::{Output, json_text, principal, table, text};
use slateberg_authz::listing::names;
use slateberg_base::rfc3339;

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
    /// File with the policy, which has an @id annotation; - for standard input
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
    /// Number of revisions, newest first
    #[arg(long, value_name = "NUMBER", default_value = "20")]
    limit: u32,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// Revision to compare
    from: u64,
    /// Revision to compare it with [default: the newest]
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

/// What a subcommand prints.
type Said = Result<String, ClientError>;

impl List {
    pub(super) async fn run(self) -> Said {
        let mut listed = self.connection.send("GET", PATH, &Value::Null).await?;
        if let (Some(origin), Some(all)) = (&self.origin, listed["policies"].as_array_mut()) {
            all.retain(|policy| policy["origin"] == **origin);
        }
        if self.connection.output == Output::Json {
            return Ok(json_text(&listed));
        }
        let policies = listed["policies"].as_array().cloned().unwrap_or_default();
        let row = |policy: &Value| {
            let what = match policy["template"].as_bool() {
                Some(true) => "template".to_owned(),
                _ => text(&policy["effect"]),
            };
            let [id, origin, from, said] =
                ["id", "origin", "from", "description"].map(|name| text(&policy[name]));
            [id, what, origin, from, said]
        };
        let rows: Vec<_> = policies.iter().map(row).collect();
        let policies = table(["POLICY", "EFFECT", "ORIGIN", "FROM", "DESCRIPTION"], &rows);
        let (revision, in_force) = (&listed["revision"], text(&listed["in-force"]));
        Ok(format!("{policies}\nrevision {revision}, in force {in_force}\n"))
    }
}

impl Show {
    pub(super) async fn run(self) -> Said {
        let policy = self.connection.send("GET", &below(PATH, &self.id), &Value::Null).await?;
        Ok(match self.connection.output {
            Output::Json => json_text(&policy),
            Output::Table => format!("{}\n", text(&policy["text"]).trim_end()),
        })
    }
}

impl Put {
    pub(super) async fn run(self) -> Said {
        let policy = self.read()?;
        let file = self.file.display().to_string();
        let named = names(&file, &policy).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            ClientError::Input(lines.join("\n"))
        })?;
        let [Some(id)] = named.as_slice() else {
            let expected = "expected one policy or template that names itself with @id(\"...\")";
            return Err(ClientError::Input(format!("{file}: {expected}")));
        };
        told(&self.change, "PUT", below(PATH, id), json!({ "text": policy })).await
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
    pub(super) async fn run(self) -> Said {
        told(&self.change, "DELETE", below(PATH, &self.id), Value::Null).await
    }
}

impl History {
    pub(super) async fn run(self) -> Said {
        let path = format!("{PATH}/revisions?pageToken=&pageSize={}", self.limit.max(1));
        let page = self.connection.send("GET", &path, &Value::Null).await?;
        if self.connection.output == Output::Json {
            return Ok(json_text(&page));
        }
        let revisions = page["revisions"].as_array().cloned().unwrap_or_default();
        let row = |revision: &Value| {
            let at = rfc3339::format(revision["at-ms"].as_i64().unwrap_or_default());
            let [action, comment] = ["action", "comment"].map(|name| text(&revision[name]));
            let by = principal(&revision["by"], &revision["by-name"]);
            let what = diff::summary(&revision["changes"]);
            [revision["revision"].to_string(), at, by, action, what, comment]
        };
        let rows: Vec<_> = revisions.iter().map(row).collect();
        Ok(table(["REVISION", "AT", "BY", "ACTION", "WHAT", "COMMENT"], &rows))
    }
}

impl Diff {
    pub(super) async fn run(self) -> Said {
        let Self { from, to, connection } = self;
        let to = match to {
            Some(to) => to,
            None => {
                let newest = format!("{PATH}?pageToken=&pageSize=1");
                let newest = connection.send("GET", &newest, &Value::Null).await?;
                newest["revision"].as_u64().unwrap_or_default()
            }
        };
        let path = format!("{PATH}/revisions/{from}/diff/{to}");
        let told = connection.send("GET", &path, &Value::Null).await?;
        Ok(match connection.output {
            Output::Json => json_text(&told),
            Output::Table => diff::text_of(&told["changes"]),
        })
    }
}

impl Rollback {
    pub(super) async fn run(self) -> Said {
        told(&self.change, "POST", format!("{PATH}/rollback"), json!({ "to": self.to })).await
    }
}

/// Makes a change, and tells what it has changed.
async fn told(change: &Change, method: &str, path: String, body: Value) -> Said {
    let changed = change.make(method, path, body).await?;
    if change.connection.output == Output::Json {
        return Ok(json_text(&changed));
    }
    let revision = &changed["revision"];
    let said = if change.dry_run {
        "dry run: nothing was changed".to_owned()
    } else {
        format!("revision {revision}, in force {}", text(&changed["in-force"]))
    };
    let warnings = changed["warnings"].as_array().into_iter().flatten();
    let warnings: String =
        warnings.map(|warning| format!("warning: {}\n", text(warning))).collect();
    Ok(format!("{}{warnings}{said}\n", diff::text_of(&changed["changes"])))
}
