//! `slateberg rollback`: commits a change that sets a branch of a table back to an earlier
//! snapshot.

use std::collections::BTreeMap;

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::run_online;
use super::client::{ClientError, Connection, parse};
use super::exit::Outcome;
use super::output::{Output, json_text};
use super::table::table_path;
use slateberg_base::rfc3339;

/// Roll a table back to an earlier snapshot.
#[derive(Debug, Args)]
pub struct Rollback {
    /// Table, as WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    name: String,
    /// ID of a snapshot, or a time such as 2026-11-22T03:00:00Z, which selects the newest snapshot
    /// that existed at that time
    #[arg(long, value_name = "SNAPSHOT|TIME", value_parser = goal)]
    to: Goal,
    /// Branch to roll back
    #[arg(long, default_value = "main")]
    branch: String,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The snapshot to return to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Snapshot(i64),
    /// The newest snapshot that existed at this time, in milliseconds since the Unix epoch.
    Time(i64),
}

fn goal(text: &str) -> Result<Goal, String> {
    let time = || rfc3339::parse(text).map(Goal::Time);
    let goal = text.parse().ok().map(Goal::Snapshot).or_else(time);
    goal.ok_or_else(|| {
        "expected the ID of a snapshot, or a time such as 2026-11-22T03:00:00Z".to_owned()
    })
}

#[derive(Deserialize)]
struct LoadResponse {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    table_uuid: String,
    #[serde(default)]
    snapshots: Vec<Snapshot>,
    #[serde(default)]
    refs: BTreeMap<String, Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Snapshot {
    snapshot_id: i64,
    parent_snapshot_id: Option<i64>,
    timestamp_ms: i64,
}

impl Snapshot {
    fn text(&self) -> String {
        format!("snapshot {} of {}", self.snapshot_id, rfc3339::format_seconds(self.timestamp_ms))
    }
}

impl Metadata {
    fn snapshot(&self, id: i64) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.snapshot_id == id)
    }

    /// Returns the snapshots of a branch, the newest first. Stops at the first snapshot that has
    /// expired.
    fn history(&self, head: i64) -> Vec<&Snapshot> {
        let mut history: Vec<&Snapshot> = Vec::new();
        let mut next = self.snapshot(head);
        while let Some(snapshot) = next
            && history.len() < self.snapshots.len()
        {
            history.push(snapshot);
            next = snapshot.parent_snapshot_id.and_then(|parent| self.snapshot(parent));
        }
        history
    }
}

impl Rollback {
    /// Rolls the table back and prints the two snapshots.
    pub fn run(self) -> Outcome {
        run_online(self.roll_back())
    }

    async fn roll_back(self) -> Result<String, ClientError> {
        let (name, path) = table_path(&self.connection, &self.name).await?;
        let loaded = self.connection.send("GET", &path, &Value::Null).await?;
        let LoadResponse { metadata } = parse(loaded)?;
        let branch = self.branch.as_str();
        let reference =
            metadata.refs.get(branch).filter(|it| it.get("type") == Some(&json!("branch")));
        let head = reference.and_then(|it| it.get("snapshot-id")?.as_i64());
        let (Some(reference), Some(head)) = (reference, head) else {
            return Err(ClientError::Input(format!("{name} has no branch '{branch}'")));
        };
        let history = metadata.history(head);
        let found = history.iter().find(|snapshot| match self.to {
            Goal::Snapshot(id) => snapshot.snapshot_id == id,
            Goal::Time(at_ms) => snapshot.timestamp_ms <= at_ms,
        });
        let (Some(from), Some(to)) = (history.first(), found) else {
            return Err(ClientError::Input(self.not_found(&name, &metadata, &history)));
        };
        if from.snapshot_id != to.snapshot_id && !self.dry_run {
            let mut update = reference.clone();
            update.insert("action".to_owned(), json!("set-snapshot-ref"));
            update.insert("ref-name".to_owned(), json!(branch));
            update.insert("snapshot-id".to_owned(), json!(to.snapshot_id));
            let commit = json!({
                "requirements": [
                    { "type": "assert-table-uuid", "uuid": metadata.table_uuid },
                    { "type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": head },
                ],
                "updates": [update],
            });
            self.connection.send("POST", &path, &commit).await?;
        }
        let outcome = match (from.snapshot_id == to.snapshot_id, self.dry_run) {
            (true, _) => "is already at",
            (false, true) => "would be rolled back to",
            (false, false) => "was rolled back to",
        };
        Ok(match self.connection.output {
            Output::Json => json_text(&json!({
                "table": name, "branch": branch, "from": from.snapshot_id, "to": to.snapshot_id,
                "dry-run": self.dry_run,
            })),
            Output::Table => {
                let from = match from.snapshot_id == to.snapshot_id {
                    true => String::new(),
                    false => format!(", from {}", from.text()),
                };
                format!("{name}: branch {branch} {outcome} {}{from}\n", to.text())
            }
        })
    }

    /// Returns the message for a snapshot to which the branch cannot be rolled back.
    fn not_found(&self, name: &str, metadata: &Metadata, history: &[&Snapshot]) -> String {
        match self.to {
            Goal::Snapshot(id) if metadata.snapshot(id).is_some() => {
                format!("snapshot {id} of {name} is not in the history of branch '{}'", self.branch)
            }
            Goal::Snapshot(id) => {
                format!("{name} has no snapshot {id}. `slateberg table show` lists its snapshots")
            }
            Goal::Time(_) => {
                let oldest = history.last().map(|it| it.text()).unwrap_or_default();
                format!("{name} has no snapshot at that time. The oldest is {oldest}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_is_a_snapshot_or_a_time() {
        assert_eq!(goal("42"), Ok(Goal::Snapshot(42)));
        assert_eq!(goal("1970-01-01T00:00:01Z"), Ok(Goal::Time(1000)));
        assert!(goal("yesterday").is_err());
    }
}
