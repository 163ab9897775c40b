//! `slateberg cursor`: the positions of consumers of the change feed, on a running server.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, child_path};
use super::exit::Outcome;
use super::output::{table, time};
use super::watch::cursor_store::PATH;
use slateberg_management::cursors::{Cursor as Info, CursorList};

/// List and delete cursors: the positions of `watch --to`.
#[derive(Debug, Args)]
pub struct Cursor {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the cursors
    #[command(visible_alias = "ls")]
    List(List),
    /// Delete a cursor. A process that uses it stops
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name, as `list` prints it
    cursor: String,
    #[command(flatten)]
    connection: Connection,
}

impl Cursor {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Delete(delete) => delete.run().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<String, ClientError> {
        let listed = self.connection.send("GET", PATH, &Value::Null).await?;
        self.connection.render(listed, |listed: CursorList| {
            let rows: Vec<_> = listed.cursors.iter().map(row).collect();
            table(["NAME", "LAG", "STORED", "STORED BY", "POSITION"], &rows)
        })
    }
}

impl Delete {
    async fn run(self) -> Result<String, ClientError> {
        let path = child_path(PATH, &self.cursor);
        self.connection.send("DELETE", &path, &Value::Null).await?;
        Ok(self.connection.done("deleted", &self.cursor))
    }
}

fn row(cursor: &Info) -> [String; 5] {
    [
        cursor.name.clone(),
        cursor.lag_changes.map_or("-".to_owned(), |changes| changes.to_string()),
        time(Some(cursor.stored_at_ms)),
        cursor.stored_by.clone(),
        cursor.position.clone(),
    ]
}
