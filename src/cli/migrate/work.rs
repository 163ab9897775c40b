//! Creates namespaces, registers tables and views with the server, and counts the outcomes.

use futures::StreamExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::Migrate;
use super::error::MigrateError;
use super::found::{Contents, FoundNamespace, FoundTabular, Located};
use super::rest::{Response, Rest, located};
use super::source::Source;
use slateberg_base::numbers::grouped;
use slateberg_base::progress::Progress;
use slateberg_model::ident::TabularKind;

/// Numbers of objects of one kind, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    /// New in the catalog. In a dry run: would be new.
    pub(super) done: usize,
    /// The catalog had it before the migration.
    pub(super) present: usize,
    /// The name belongs to another object.
    pub(super) conflicts: usize,
    /// Reading or registering failed.
    pub(super) failed: usize,
}

/// The result of a migration.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) dry_run: bool,
    pub(super) namespaces: Tally,
    pub(super) tables: Tally,
    pub(super) views: Tally,
    /// A line for each conflict and failure, and further remarks.
    pub(super) notes: Vec<String>,
    /// Whether part of the source could not be read.
    unread: bool,
}

/// The outcome for one object.
enum End {
    Done,
    Present,
    /// It exists with other metadata than in the source.
    Moved(String),
    Conflict(String),
    Failed(String),
}

impl Tally {
    fn add(&mut self, end: &End) {
        let count = match end {
            End::Done => &mut self.done,
            End::Present | End::Moved(_) => &mut self.present,
            End::Conflict(_) => &mut self.conflicts,
            End::Failed(_) => &mut self.failed,
        };
        *count += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            present: self.present + other.present,
            conflicts: self.conflicts + other.conflicts,
            failed: self.failed + other.failed,
        }
    }

    fn is_complete(self) -> bool {
        self.conflicts == 0 && self.failed == 0
    }
}

impl End {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Conflict(_) | Self::Failed(_))
    }

    fn note(&self, what: &str) -> Option<String> {
        match self {
            Self::Done | Self::Present => None,
            Self::Moved(reason) => Some(format!("{what} is there already, {reason}")),
            Self::Conflict(reason) => Some(format!("conflict: {what}: {reason}")),
            Self::Failed(reason) => Some(format!("failed: {what}: {reason}")),
        }
    }
}

impl Summary {
    /// Whether the catalog has all objects of the source.
    pub(super) fn is_complete(&self) -> bool {
        !self.unread && [self.namespaces, self.tables, self.views].iter().all(|it| it.is_complete())
    }

    /// Formats the numbers of tables and views in one line.
    pub(super) fn line(&self) -> String {
        let Tally { done, present, conflicts, failed } = self.tables.plus(self.views);
        let (all, missing) = (done + present + conflicts + failed, conflicts + failed);
        let verb = if self.dry_run { "would be migrated" } else { "migrated" };
        let [there, all, missing] =
            [done + present, all, missing].map(|count| grouped(count as u64));
        let unread = if self.unread { ", and part of the source could not be read" } else { "" };
        format!("{there} of {all} {verb}, {missing} failed{unread}\n")
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "dry-run": self.dry_run,
            "complete": self.is_complete(),
            "namespaces": self.namespaces,
            "tables": self.tables,
            "views": self.views,
            "notes": self.notes,
        })
    }

    fn add(&mut self, found: &FoundTabular, end: &End) {
        let tally = match found.kind {
            TabularKind::Table => &mut self.tables,
            TabularKind::View => &mut self.views,
        };
        tally.add(end);
        let what = format!(
            "{} {}.{}",
            found.kind.title().to_lowercase(),
            found.namespace.join("."),
            found.name
        );
        self.notes.extend(end.note(&what));
    }
}

/// Reads the source, creates its namespaces, and registers its tables and views.
pub(super) async fn migrate(
    wanted: &Migrate,
    progress: &Progress,
) -> Result<Summary, MigrateError> {
    let target = Rest::target(&wanted.connection, wanted.warehouse.as_deref()).await?;
    let mut phase = progress.phase("reading the source", None);
    let (source, contents) = Source::open(wanted, &phase).await?;
    let mut summary = Summary { dry_run: wanted.dry_run, ..Summary::default() };
    let Contents { namespaces, tabulars, failures, notes } = contents;
    summary.unread = !failures.is_empty();
    summary.notes = notes;
    summary.notes.extend(failures.into_iter().map(|reason| format!("failed: {reason}")));
    phase.next("creating namespaces", Some(namespaces.len() as u64));
    let work = Work { source, target, root: wanted.root(), dry_run: wanted.dry_run };
    for levels in (1..=work.root.len()).map(|end| work.root[..end].to_vec()) {
        work.namespace(&FoundNamespace { levels, properties: Default::default() }, &mut summary)
            .await;
    }
    for found in namespaces {
        let levels = work.placed(&found.levels);
        work.namespace(&FoundNamespace { levels, ..found }, &mut summary).await;
        phase.advance(1);
    }
    phase.next("registering tables and views", Some(tabulars.len() as u64));
    let work = &work;
    let ends = tabulars.iter().map(|found| async move { (found, work.tabular(found).await) });
    let mut ends = futures::stream::iter(ends).buffer_unordered(usize::from(wanted.concurrency));
    while let Some((found, end)) = ends.next().await {
        phase.advance(1);
        phase.fail(u64::from(end.is_missing()));
        summary.add(found, &end);
    }
    summary.notes.sort();
    Ok(summary)
}

struct Work {
    source: Source,
    target: Rest,
    /// The namespace below which the objects are created.
    root: Vec<String>,
    dry_run: bool,
}

impl Work {
    /// Returns the levels in the catalog for a namespace of the source.
    fn placed(&self, levels: &[String]) -> Vec<String> {
        [self.root.as_slice(), levels].concat()
    }

    async fn namespace(&self, found: &FoundNamespace, summary: &mut Summary) {
        let end = self.make_namespace(found).await;
        let end = end.unwrap_or_else(|error| End::Failed(error.to_string()));
        summary.namespaces.add(&end);
        summary.notes.extend(end.note(&format!("namespace {}", found.levels.join("."))));
    }

    async fn make_namespace(&self, found: &FoundNamespace) -> Result<End, MigrateError> {
        let known = match self.target.load_namespace(&found.levels).await? {
            Response::Success(known) => Some(known),
            Response::Rejected(rejection) if rejection.status == 404 => None,
            Response::Rejected(rejection) => return Ok(End::Failed(rejection.message)),
        };
        if let Some(known) = known {
            let is_other = |(key, value): (&String, &String)| known["properties"][key] != *value;
            return Ok(if found.properties.iter().any(is_other) {
                End::Moved("with other properties, which it keeps".to_owned())
            } else {
                End::Present
            });
        }
        if self.dry_run {
            return Ok(End::Done);
        }
        Ok(match self.target.create_namespace(&found.levels, &found.properties).await? {
            Response::Success(_) => End::Done,
            // Made by an earlier try of this request, or by somebody else at this moment.
            Response::Rejected(rejection) if rejection.status == 409 => End::Present,
            Response::Rejected(rejection) => End::Failed(rejection.message),
        })
    }

    async fn tabular(&self, found: &FoundTabular) -> End {
        let end = self.register(found).await;
        end.unwrap_or_else(|error| End::Failed(error.to_string()))
    }

    async fn register(&self, found: &FoundTabular) -> Result<End, MigrateError> {
        let namespace = self.placed(&found.namespace);
        let own = self.source.locate(found).await?;
        if let Some(end) = self.known(found, &namespace, &own).await? {
            return Ok(end);
        }
        if self.dry_run {
            return Ok(End::Done);
        }
        let Located { metadata_location, .. } = &own;
        let (kind, name) = (found.kind, found.name.as_str());
        let registered = self.target.register(kind, &namespace, name, metadata_location).await?;
        match registered {
            Response::Success(_) => Ok(End::Done),
            Response::Rejected(rejection) if rejection.status == 409 => {
                let known = self.known(found, &namespace, &own).await?;
                Ok(known.unwrap_or(End::Conflict(rejection.message)))
            }
            Response::Rejected(rejection) => Ok(End::Failed(rejection.message)),
        }
    }

    /// Compares an object with the one that the catalog has under its name. Returns `None` if there
    /// is no such object.
    async fn known(
        &self,
        found: &FoundTabular,
        namespace: &[String],
        own: &Located,
    ) -> Result<Option<End>, MigrateError> {
        let loaded = match self.target.load(found.kind, namespace, &found.name).await? {
            Response::Success(loaded) => loaded,
            Response::Rejected(rejection) if rejection.status == 404 => return Ok(None),
            Response::Rejected(rejection) => return Ok(Some(End::Failed(rejection.message))),
        };
        let known = located(found.kind, &loaded)?;
        Ok(Some(if known.uuid != own.uuid {
            End::Conflict(format!("the catalog has another one there, {}", known.uuid))
        } else if known.metadata_location != own.metadata_location {
            End::Moved(format!(
                "at {}, while the source is at {}",
                known.metadata_location, own.metadata_location
            ))
        } else {
            End::Present
        }))
    }
}
