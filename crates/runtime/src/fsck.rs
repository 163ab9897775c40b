//! `fsck`: checks the store's files, all records, and the metadata files that the records refer to.

use futures::StreamExt;
use serde::Serialize;

use super::data_dir::uses_data_dir;
use super::dependencies::Dependencies;
use super::error::{BuildError, at_state};
use super::offline::OfflineCatalog;
use slateberg_base::numbers::count;
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_objects::{self as objects, Objects, metadata_file};
use slateberg_store::DamagedFile;
use slateberg_store::files::check_files;
use slateberg_store::fsck::{PublishedMetadata, Report, walk};
use slateberg_store::keys::StoreKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::CloneOf;

/// Maximum number of concurrent reads of metadata files.
const READS_MAX: usize = 16;

/// The findings of `fsck`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FsckReport {
    /// The URL of the state.
    pub state_url: String,
    /// The parent, if the catalog is a clone.
    pub clone_of: Option<CloneOf>,
    /// Whether the data directory was checked without a lock because it is not writable.
    pub is_unlocked: bool,
    /// Number of store files that were read.
    pub files: usize,
    /// Store files that are missing or damaged.
    pub damaged_files: Vec<DamagedFile>,
    /// The report on the records. `None` if a damaged file makes them unreadable.
    pub records: Option<Report>,
}

impl FsckReport {
    /// Returns all problems, one line each.
    pub fn findings(&self) -> Vec<String> {
        let files = self.damaged_files.iter().map(ToString::to_string);
        let records = self.records.iter().flat_map(|report| report.broken.iter().cloned());
        files.chain(records).collect()
    }

    /// Whether there are no problems.
    pub fn is_sound(&self) -> bool {
        self.damaged_files.is_empty()
            && self.records.as_ref().is_some_and(|report| report.broken.is_empty())
    }

    /// Returns a summary in one line.
    pub fn summary(&self) -> String {
        let damaged = self.damaged_files.len();
        let files = format!("{}: {damaged} damaged", count(self.files, "file", "files"));
        match &self.records {
            Some(records) => format!("{files}; {}", records.summary()),
            None => format!("{files}; the records cannot be read, so they were not checked"),
        }
    }
}

/// Checks a whole catalog. Writes nothing. No server may run on the directory of the catalog.
/// Errors if the catalog cannot be read at all.
pub async fn fsck(
    settings: &Settings,
    dependencies: &Dependencies,
    progress: &Progress,
) -> Result<FsckReport, BuildError> {
    let settings = &settings.clone().with_memory_shares();
    let (state, lock) = OfflineCatalog::prepare(settings, dependencies).await?;
    let url = state.url.clone();
    let failed = |source| at_state(&url, source);
    let checking = async { check_files(&state.location, progress).await.map_err(failed) };
    let files = state.while_responsive(Box::pin(checking)).await?;
    let mut report = FsckReport {
        state_url: url.clone(),
        clone_of: None,
        is_unlocked: lock.is_none() && uses_data_dir(settings),
        files: files.count,
        damaged_files: files.damaged,
        records: None,
    };
    if files.hides_records {
        return Ok(report);
    }
    let catalog = {
        let _phase = progress.phase("opening the store", None);
        OfflineCatalog::open_at(&state, lock, settings, dependencies).await?
    };
    let format = catalog.store.get(&StoreKey).await.map_err(failed)?;
    report.clone_of = format.and_then(|format| format.clone_of);
    let mut records = walk(&catalog.store, progress).await.map_err(failed)?;
    check_metadata_files(&catalog.objects, &mut records, progress).await;
    report.records = Some(records);
    Ok(report)
}

/// Checks that the content of every metadata file matches its record.
async fn check_metadata_files(objects: &Objects, report: &mut Report, progress: &Progress) {
    let published = std::mem::take(&mut report.published);
    let phase = progress.phase("checking metadata files", Some(published.len() as u64));
    let checks = futures::stream::iter(published).map(|published| {
        let objects = objects.clone();
        async move { check_metadata_file(&objects, &published).await }
    });
    let mut checks = checks.buffered(READS_MAX);
    while let Some(finding) = checks.next().await {
        phase.advance(1);
        report.broken.extend(finding);
    }
}

/// Returns the problem of a metadata file, if any. A file whose publication is pending may be
/// missing, because the next start writes it. If the file exists, its content must match the
/// record.
async fn check_metadata_file(objects: &Objects, published: &PublishedMetadata) -> Option<String> {
    let PublishedMetadata { warehouse, metadata_location: location, document, is_pending } =
        published;
    match metadata_file::contains_json(objects, *warehouse, location, &document.text).await {
        Ok(true) => None,
        Err(objects::Error::NotFound(_)) if *is_pending => None,
        Ok(false) | Err(objects::Error::Unreadable { .. }) if *is_pending => Some(format!(
            "{location} differs from its record. The next start of the server writes the file again"
        )),
        Ok(false) => Some(format!("{location} differs from its record")),
        Err(error) => Some(format!("{location}: {error}")),
    }
}
