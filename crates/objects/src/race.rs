//! Many writers for one name: whether an object store lets exactly one of them win.
//!
//! SlateDB has nothing else to tell who the writer is. A store that lets two of them win, though it be once
//! in a thousand times, loses commits that were answered, and a single client never notices: several stores
//! that pass for S3 are like that. So each round lets all writers loose at once on a name that is not there
//! (`If-None-Match`), and then on the object that one of them has written (`If-Match`).

use std::time::Duration;

use futures::future::join_all;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::Instant;
use uuid::Uuid;

use super::open::Opened;

/// What the directory of a race is called, before its id.
const DIRECTORY: &str = ".slateberg-race-";

/// How a race is run.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Names that are raced for.
    pub rounds: usize,
    /// Writers of each.
    pub writers: usize,
    /// How long one put may take until its outcome counts as unknown.
    pub put_max: Duration,
}

/// How races went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Names that were raced for.
    pub rounds: usize,
    /// Puts that were sent.
    pub puts: usize,
    /// Puts whose outcome is not known: they failed for another reason than another writer.
    pub unknown: usize,
    /// Violations by the store; empty if it passed.
    pub broken: Vec<String>,
    /// The longest time that a put took which won.
    pub slowest: Duration,
}

/// Races for names below a place that nothing else is kept in, and deletes them again. `id` keeps two races
/// apart.
pub async fn race(opened: &Opened, id: Uuid, course: Course) -> Outcome {
    let directory = opened.path.clone().join(format!("{DIRECTORY}{}", id.simple()));
    let mut outcome = Outcome::default();
    for round in 0..course.rounds {
        let path = directory.clone().join(round.to_string());
        let store = &*opened.object_store;
        let track = Track { store, path: &path, course, round };
        track.run(opened.conditional_update, &mut outcome).await;
        match store.delete(&path).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => tracing::warn!(%path, %error, "a file of a race is left"),
        }
    }
    // Directories of a file system stay when they are empty.
    if let Some(local) = &opened.directory {
        let _ = std::fs::remove_dir(local.join(format!("{DIRECTORY}{}", id.simple())));
    }
    outcome
}

/// One round.
struct Track<'a> {
    store: &'a dyn ObjectStore,
    path: &'a Path,
    course: Course,
    round: usize,
}

/// What became of one writer's put.
enum Put {
    /// It was acknowledged; the object is this version now.
    Won(UpdateVersion),
    Lost,
    Unknown,
}

impl Track<'_> {
    async fn run(&self, conditional_update: bool, outcome: &mut Outcome) {
        outcome.rounds += 1;
        let version = self.heat("If-None-Match", PutMode::Create, outcome).await;
        if let Some(version) = version.filter(|_| conditional_update) {
            self.heat("If-Match", PutMode::Update(version), outcome).await;
        }
    }

    /// Lets all writers loose at once; returns the version of the one that won.
    async fn heat(
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
            outcome.broken.push(format!("{at}: {} writers were told that they won", winners.len()));
        }
        if winners.is_empty() && unknown.is_empty() {
            outcome.broken.push(format!("{at}: no writer won, and none was told of a failure"));
        }
        // One whose outcome is unknown may have won; nobody else was told to have, then.
        let expected: Vec<_> = match winners.as_slice() {
            [] => unknown,
            winners => winners.iter().map(|(writer, _)| *writer).collect(),
        };
        match self.content().await {
            Ok(content) if expected.iter().any(|it| content == self.line(condition, *it)) => {}
            Ok(content) => {
                outcome.broken.push(format!("{at}: the object is not the winner's: {content:?}"));
            }
            // Without a winner, nothing may be there.
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
