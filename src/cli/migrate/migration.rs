//! Creates namespaces, registers tables and views with the server, and counts the outcomes.

use futures::StreamExt;
use serde::Serialize;

use super::arguments::Migrate;
use super::error::MigrateError;
use super::rest::{Response, Rest};
use super::source::Source;
use super::source_objects::{Contents, LocatedMetadata, SourceNamespace, SourceTabular};
use slateberg_base::numbers::grouped;
use slateberg_base::progress::Progress;
use slateberg_model::ident::TabularKind;

/// Numbers of objects of one kind, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    /// Objects that the migration added to the catalog, or would add (dry run).
    pub(super) done: usize,
    /// Objects that the catalog had before the migration.
    pub(super) present: usize,
    /// Objects whose name belongs to another object in the catalog.
    pub(super) conflicts: usize,
    /// Objects that could not be read or registered.
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
    incomplete: bool,
}

/// The result of a migration as printed JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Report<'a> {
    dry_run: bool,
    complete: bool,
    namespaces: Tally,
    tables: Tally,
    views: Tally,
    notes: &'a [String],
}

/// The outcome for one object.
enum ItemOutcome {
    Done,
    Present,
    /// The object exists, but its metadata or properties differ from those in the source.
    Diverged(String),
    Conflict(String),
    Failed(String),
}

impl Tally {
    fn add(&mut self, end: &ItemOutcome) {
        let count = match end {
            ItemOutcome::Done => &mut self.done,
            ItemOutcome::Present | ItemOutcome::Diverged(_) => &mut self.present,
            ItemOutcome::Conflict(_) => &mut self.conflicts,
            ItemOutcome::Failed(_) => &mut self.failed,
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

impl ItemOutcome {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Conflict(_) | Self::Failed(_))
    }

    fn note(&self, what: &str) -> Option<String> {
        match self {
            Self::Done | Self::Present => None,
            Self::Diverged(reason) => Some(format!("{what} exists already, {reason}")),
            Self::Conflict(reason) => Some(format!("conflict: {what}: {reason}")),
            Self::Failed(reason) => Some(format!("failed: {what}: {reason}")),
        }
    }
}

impl Summary {
    /// Whether the catalog has all objects of the source.
    pub(super) fn is_complete(&self) -> bool {
        !self.incomplete
            && [self.namespaces, self.tables, self.views].iter().all(|it| it.is_complete())
    }

    /// Formats the numbers of tables and views in one line.
    pub(super) fn line(&self) -> String {
        let Tally { done, present, conflicts, failed } = self.tables.plus(self.views);
        let (all, missing) = (done + present + conflicts + failed, conflicts + failed);
        let verb = if self.dry_run { "would be migrated" } else { "migrated" };
        let [present, all, missing] =
            [done + present, all, missing].map(|count| grouped(count as u64));
        let incomplete =
            if self.incomplete { ", and part of the source could not be read" } else { "" };
        format!("{present} of {all} {verb}, {missing} failed{incomplete}\n")
    }

    pub(super) fn report(&self) -> Report<'_> {
        Report {
            dry_run: self.dry_run,
            complete: self.is_complete(),
            namespaces: self.namespaces,
            tables: self.tables,
            views: self.views,
            notes: &self.notes,
        }
    }

    fn add(&mut self, found: &SourceTabular, end: &ItemOutcome) {
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
    arguments: &Migrate,
    progress: &Progress,
) -> Result<Summary, MigrateError> {
    let target = Rest::target(&arguments.connection, arguments.warehouse.as_deref()).await?;
    let mut phase = progress.phase("reading the source", None);
    let (source, contents) = Source::open(arguments, &phase).await?;
    let mut summary = Summary { dry_run: arguments.dry_run, ..Summary::default() };
    let Contents { namespaces, tabulars, failures, notes } = contents;
    summary.incomplete = !failures.is_empty();
    summary.notes = notes;
    summary.notes.extend(failures.into_iter().map(|reason| format!("failed: {reason}")));
    phase.next("creating namespaces", Some(namespaces.len() as u64));
    let migration =
        Migration { source, target, root: arguments.root(), dry_run: arguments.dry_run };
    for levels in (1..=migration.root.len()).map(|end| migration.root[..end].to_vec()) {
        migration
            .namespace(&SourceNamespace { levels, properties: Default::default() }, &mut summary)
            .await;
    }
    for found in namespaces {
        let levels = migration.target_levels(&found.levels);
        migration.namespace(&SourceNamespace { levels, ..found }, &mut summary).await;
        phase.advance(1);
    }
    phase.next("registering tables and views", Some(tabulars.len() as u64));
    let migration = &migration;
    let ends = tabulars.iter().map(|found| async move { (found, migration.tabular(found).await) });
    let mut ends = futures::stream::iter(ends).buffer_unordered(usize::from(arguments.concurrency));
    while let Some((found, end)) = ends.next().await {
        phase.advance(1);
        phase.fail(u64::from(end.is_missing()));
        summary.add(found, &end);
    }
    summary.notes.sort();
    Ok(summary)
}

struct Migration {
    source: Source,
    target: Rest,
    /// The namespace in the catalog below which all objects are created.
    root: Vec<String>,
    dry_run: bool,
}

impl Migration {
    /// Returns the levels of the namespace in the catalog that corresponds to a namespace of the
    /// source.
    fn target_levels(&self, levels: &[String]) -> Vec<String> {
        [self.root.as_slice(), levels].concat()
    }

    async fn namespace(&self, found: &SourceNamespace, summary: &mut Summary) {
        let end = self.ensure_namespace(found).await;
        let end = end.unwrap_or_else(|error| ItemOutcome::Failed(error.to_string()));
        summary.namespaces.add(&end);
        summary.notes.extend(end.note(&format!("namespace {}", found.levels.join("."))));
    }

    async fn ensure_namespace(&self, found: &SourceNamespace) -> Result<ItemOutcome, MigrateError> {
        let existing = match self.target.load_namespace(&found.levels).await? {
            Response::Success(existing) => Some(existing),
            Response::Rejected(rejection) if rejection.status == 404 => None,
            Response::Rejected(rejection) => return Ok(ItemOutcome::Failed(rejection.message)),
        };
        if let Some(existing) = existing {
            let existing = existing.into_properties();
            let is_other = |(key, value): (&String, &String)| existing.get(key) != Some(value);
            return Ok(if found.properties.iter().any(is_other) {
                ItemOutcome::Diverged("with other properties, which it keeps".to_owned())
            } else {
                ItemOutcome::Present
            });
        }
        if self.dry_run {
            return Ok(ItemOutcome::Done);
        }
        Ok(match self.target.create_namespace(&found.levels, &found.properties).await? {
            Response::Success(_) => ItemOutcome::Done,
            // An earlier attempt of this request or another client has created the namespace.
            Response::Rejected(rejection) if rejection.status == 409 => ItemOutcome::Present,
            Response::Rejected(rejection) => ItemOutcome::Failed(rejection.message),
        })
    }

    async fn tabular(&self, found: &SourceTabular) -> ItemOutcome {
        let end = self.register(found).await;
        end.unwrap_or_else(|error| ItemOutcome::Failed(error.to_string()))
    }

    async fn register(&self, found: &SourceTabular) -> Result<ItemOutcome, MigrateError> {
        let namespace = self.target_levels(&found.namespace);
        let source_metadata = self.source.locate(found).await?;
        if let Some(end) = self.compare_existing(found, &namespace, &source_metadata).await? {
            return Ok(end);
        }
        if self.dry_run {
            return Ok(ItemOutcome::Done);
        }
        let LocatedMetadata { metadata_location, .. } = &source_metadata;
        let (kind, name) = (found.kind, found.name.as_str());
        let registered = self.target.register(kind, &namespace, name, metadata_location).await?;
        match registered {
            Response::Success(_) => Ok(ItemOutcome::Done),
            Response::Rejected(rejection) if rejection.status == 409 => {
                let existing = self.compare_existing(found, &namespace, &source_metadata).await?;
                Ok(existing.unwrap_or(ItemOutcome::Conflict(rejection.message)))
            }
            Response::Rejected(rejection) => Ok(ItemOutcome::Failed(rejection.message)),
        }
    }

    /// Compares an object of the source with the object of the same name in the catalog. Returns
    /// `None` if the catalog has no such object.
    async fn compare_existing(
        &self,
        found: &SourceTabular,
        namespace: &[String],
        source_metadata: &LocatedMetadata,
    ) -> Result<Option<ItemOutcome>, MigrateError> {
        let loaded = match self.target.load(found.kind, namespace, &found.name).await? {
            Response::Success(loaded) => loaded,
            Response::Rejected(rejection) if rejection.status == 404 => return Ok(None),
            Response::Rejected(rejection) => {
                return Ok(Some(ItemOutcome::Failed(rejection.message)));
            }
        };
        let existing = loaded.located(found.kind)?;
        Ok(Some(if existing.uuid != source_metadata.uuid {
            ItemOutcome::Conflict(format!(
                "the catalog has another object of this name, {}",
                existing.uuid
            ))
        } else if existing.metadata_location != source_metadata.metadata_location {
            ItemOutcome::Diverged(format!(
                "at {}, while the source has {}",
                existing.metadata_location, source_metadata.metadata_location
            ))
        } else {
            ItemOutcome::Present
        }))
    }
}
