//! Tests whether an object store lets exactly one of many concurrent writers win.
//!
//! SlateDB relies on this to ensure that only one process writes. If a store lets two writers win,
//! even once in a thousand times, acknowledged commits are lost. A single client never notices
//! this. Several S3-compatible stores let two writers win. A run of the test is a *race* of several
//! rounds. In each round, all writers put at the same time: first to a name that does not exist
//! (`If-None-Match`), then to the object of the winner (`If-Match`).

use std::time::Duration;

use futures::future::join_all;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::Instant;
use uuid::Uuid;

use super::open::Opened;

/// Prefix of the directory of a race. An id follows.
const DIRECTORY: &str = ".slateberg-race-";

/// Parameters of a race.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Number of rounds.
    pub rounds: usize,
    /// Writers in each round.
    pub writers: usize,
    /// Timeout of a put, after which its outcome is unknown.
    pub put_max: Duration,
}

/// Result of a race.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of rounds.
    pub rounds: usize,
    /// Number of puts.
    pub puts: usize,
    /// Puts with an unknown outcome. They failed, but not because of a concurrent writer.
    pub unknown: usize,
    /// Violations by the store. Empty if the store passed.
    pub broken: Vec<String>,
    /// Duration of the slowest winning put.
    pub slowest: Duration,
}

/// Runs a race below an unused location, and deletes its objects. `id` distinguishes concurrent
/// races.
pub async fn race(opened: &Opened, id: Uuid, course: Course) -> Outcome {
    let directory = opened.path.clone().join(format!("{DIRECTORY}{}", id.simple()));
    let mut outcome = Outcome::default();
    for round in 0..course.rounds {
        let path = directory.clone().join(round.to_string());
        let store = &*opened.object_store;
        let track = Round { store, path: &path, course, round };
        track.run(opened.conditional_update, &mut outcome).await;
        match store.delete(&path).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(%path, %error, "failed to delete an object of the test of conditional puts")
            }
        }
    }
    // File systems keep empty directories.
    if let Some(local) = &opened.directory {
        let _ = std::fs::remove_dir(local.join(format!("{DIRECTORY}{}", id.simple())));
    }
    outcome
}

/// One round.
struct Round<'a> {
    store: &'a dyn ObjectStore,
    path: &'a Path,
    course: Course,
    round: usize,
}

/// Outcome of one writer's put.
enum Put {
    /// The put was acknowledged, with this version of the object.
    Won(UpdateVersion),
    Lost,
    Unknown,
}

impl Round<'_> {
    async fn run(&self, conditional_update: bool, outcome: &mut Outcome) {
        outcome.rounds += 1;
        let version = self.run_round("If-None-Match", PutMode::Create, outcome).await;
        if let Some(version) = version.filter(|_| conditional_update) {
            self.run_round("If-Match", PutMode::Update(version), outcome).await;
        }
    }

    /// Starts all writers at the same time. Returns the version of the winner.
    async fn run_round(
        &self,
        condition: &str,
        mode: PutMode,
        outcome: &mut Outcome,
    ) -> Option<UpdateVersion> {
        let puts =
            join_all((0..self.course.writers).map(|it| self.put(condition, it, &mode))).await;
        outcome.puts += puts.len();
        let mut winners = Vec::new();
        let mut unknown = Vec::new();
        for (writer, (put, took)) in puts.into_iter().enumerate() {
            match put {
                Put::Won(version) => {
                    winners.push((writer, version));
                    outcome.slowest = outcome.slowest.max(took);
                }
                Put::Unknown => unknown.push(writer),
                Put::Lost => {}
            }
        }
        outcome.unknown += unknown.len();
        let at = format!("round {}, {condition}", self.round);
        if winners.len() > 1 {
            outcome
                .broken
                .push(format!("{at}: {} writers were reported as winners", winners.len()));
        }
        if winners.is_empty() && unknown.is_empty() {
            outcome
                .broken
                .push(format!("{at}: no writer won, although the outcome of every put is known"));
        }
        // If no put was acknowledged, any put with an unknown outcome may have written the object.
        let expected: Vec<_> = match winners.as_slice() {
            [] => unknown,
            winners => winners.iter().map(|(writer, _)| *writer).collect(),
        };
        match self.content().await {
            Ok(content) if expected.iter().any(|it| content == self.line(condition, *it)) => {}
            Ok(content) => {
                outcome.broken.push(format!("{at}: the object is not the winner's: {content:?}"));
            }
            // Without an acknowledged put, the object does not have to exist.
            Err(_) if winners.is_empty() => {}
            Err(error) => {
                outcome.broken.push(format!("{at}: the winner's object is gone: {error}"))
            }
        }
        winners.pop().map(|(_, version)| version)
    }

    async fn put(&self, condition: &str, writer: usize, mode: &PutMode) -> (Put, Duration) {
        let since = Instant::now();
        let content = self.line(condition, writer).into_bytes().into();
        let put = self.store.put_opts(self.path, content, mode.clone().into());
        let put = match tokio::time::timeout(self.course.put_max, put).await {
            Ok(Ok(result)) => Put::Won(result.into()),
            Ok(Err(Error::AlreadyExists { .. } | Error::Precondition { .. })) => Put::Lost,
            Ok(Err(_)) | Err(_) => Put::Unknown,
        };
        (put, since.elapsed())
    }

    async fn content(&self) -> Result<String, Error> {
        let bytes = self.store.get(self.path).await?.bytes().await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn line(&self, condition: &str, writer: usize) -> String {
        format!("round {}, {condition}, writer {writer}\n", self.round)
    }
}
