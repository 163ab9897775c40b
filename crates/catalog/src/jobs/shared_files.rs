//! Files that a job must not delete because other tables of the catalog need them.
//!
//! Another table is relevant if it has a location at, around or below a location of the job's
//! table, or if it has the same UUID. If two tables have the same UUID, they were registered from
//! the same metadata, possibly at different locations. A few short scans find the relevant tables.
//! Usually there are none. The job determines once which files are reachable from the relevant
//! tables. When one of these tables changes, the job reads only the manifest lists and manifests
//! that it has not read yet.
//!
//! A file at the location of another table or view stays, because a writer of that table may be
//! about to commit the file. If the file is also at a location of the job's own table, this rule
//! applies only if the other table's location is inside the own table's location.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::StreamExt;
use uuid::Uuid;

use super::interrupted::Interruption;
use super::run::JobRun;
use crate::jobs::Jobs;
use crate::location_index::{self, Owners, has_others_around, has_others_below};
use crate::{Error, lookup};
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::ChunkHash;
use slateberg_model::table::FORMAT_VERSION_ADOPTED;
use slateberg_objects as objects;
use slateberg_objects::location::Location;
use slateberg_objects::reachable::{self, comparable};
use slateberg_store::jobs::JobTable;
use slateberg_store::records::TabularRecord;

/// Maximum number of other tables at the same location, or with the same UUID.
pub(super) const OTHERS_MAX: usize = 10_000;
/// The files of dropped tables stay, so that these tables can be restored.
const WITH_DROPPED: Owners = Owners::WithDropped;
/// Maximum number of entries in [`SharedFiles::directories`].
const DIRECTORIES_MAX: usize = 10_000;

/// Determines which references in the metadata of other tables a job follows. The files that it
/// finds in this way must stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Only files that the metadata references directly.
    Metadata,
    /// Also the manifests in these manifest lists.
    ManifestLists,
    /// All reachable files.
    Everything,
}

/// The files that must stay.
pub(super) struct SharedFiles {
    depth: Depth,
    /// Locations of the job's table. Together with `uuid`, they determine the relevant tables.
    locations: Vec<Location>,
    uuid: Option<Uuid>,
    /// Id of the job's table if the files that are reachable from this table may be deleted. `None`
    /// if these files must stay.
    except: Option<Uuid>,
    /// The tables and views whose files are in `files`, with the versions that were read.
    read: HashMap<Uuid, u64>,
    /// Id of the job's table. Unlike `except`, it is also set if the reachable files of the table
    /// must stay. Nil if the table is unknown.
    itself: Uuid,
    /// Directories of files to delete. The value is `true` if the directory is at the location of
    /// another table.
    directories: HashMap<String, bool>,
    /// Whether a file stays if manifests contain it only with the status *deleted*.
    with_deleted: bool,
    /// Hashes of the locations of the manifest lists and manifests that were read.
    manifests: HashSet<ChunkHash>,
    files: HashSet<ChunkHash>,
}

/// The failure of a job that has too many relevant tables.
pub(super) fn too_many() -> Interruption {
    Interruption::Failed(format!("{OTHERS_MAX} or more other tables are at the same location"))
}

/// The failure of a job that needs the manifests of a table with a newer format version. The
/// specification of this version is not complete, so even a manifest in Avro may reference files in
/// a way that the server does not know.
fn unknown_manifests(table: &TabularRecord) -> Interruption {
    let location = &table.location;
    Interruption::Failed(format!(
        "cannot determine which files are needed: the table at {location} has format version 4, \
         whose manifests the server cannot read"
    ))
}

fn hash(location: &str) -> ChunkHash {
    ChunkHash::of(comparable(location).as_bytes())
}

/// Treats unreadable manifests as a final failure, because the reachable files cannot be
/// determined, and a retry would not help.
fn fail_if_unreadable(error: objects::Error) -> Interruption {
    match error {
        objects::Error::Unreadable { .. } => {
            Interruption::Failed(format!("cannot determine which files are needed: {error}"))
        }
        other => other.into(),
    }
}

impl SharedFiles {
    /// Returns a set for the files of all tables except the job's own. It is empty until the first
    /// [`refresh`](Self::refresh).
    pub(super) fn of_other_tables(table: &JobTable, depth: Depth) -> Self {
        let locations =
            table.locations.iter().filter_map(|location| Location::parse(location).ok());
        Self {
            depth,
            locations: locations.collect(),
            uuid: Some(table.uuid),
            except: Some(table.id),
            read: HashMap::new(),
            itself: table.id,
            directories: HashMap::new(),
            with_deleted: true,
            manifests: HashSet::new(),
            files: HashSet::new(),
        }
    }

    /// Also includes the files that are reachable from the job's own table.
    pub(super) fn including_itself(self) -> Self {
        Self { except: None, ..self }
    }

    /// Excludes files that manifests contain only with the status *deleted*. No snapshot contains
    /// these files.
    pub(super) fn only_live_files(self) -> Self {
        Self { with_deleted: false, ..self }
    }

    /// Returns a set for a job whose table is unknown. All files at the location of any table or
    /// view stay.
    pub(super) fn for_unknown_table(depth: Depth) -> Self {
        let table =
            JobTable { id: Uuid::nil(), uuid: Uuid::nil(), resource: None, locations: Vec::new() };
        Self { uuid: None, ..Self::of_other_tables(&table, depth) }
    }

    /// Whether a file must stay, according to the last [`refresh`](Self::refresh).
    pub(super) fn has(&self, location: &str) -> bool {
        let directory = location.rsplit_once('/').map(|(directory, _)| directory);
        directory.and_then(|it| self.directories.get(it)).is_some_and(|is_others| *is_others)
            || !self.files.is_empty() && self.files.contains(&hash(location))
    }

    /// Finds the tables that are relevant now, and determines the files that are reachable from new
    /// and changed tables.
    pub(super) async fn refresh(
        &mut self,
        run: &JobRun,
        files: &[String],
    ) -> Result<(), Interruption> {
        self.check_directories(run.jobs(), files).await?;
        let mut others = BTreeSet::new();
        let store = run.jobs().core.store().latest();
        for location in &self.locations {
            let found =
                location_index::at(&store, WITH_DROPPED, (location, true), OTHERS_MAX).await?;
            others.extend(found.ok_or_else(too_many)?);
        }
        if let Some(uuid) = self.uuid {
            let found = location_index::with_uuid(&store, WITH_DROPPED, uuid, OTHERS_MAX).await?;
            others.extend(found.ok_or_else(too_many)?);
        }
        if others.len() >= OTHERS_MAX {
            return Err(too_many());
        }
        if let Some(itself) = self.except {
            others.remove(&itself);
        }
        for id in others {
            self.read(run, id).await?;
        }
        Ok(())
    }

    /// Determines which of these files are at the location of another table or view.
    async fn check_directories(
        &mut self,
        jobs: &Jobs,
        files: &[String],
    ) -> Result<(), Interruption> {
        let store = jobs.core.store().latest();
        if self.directories.len() + files.len() > DIRECTORIES_MAX {
            self.directories.clear();
        }
        let mut is_around_others = false;
        for location in &self.locations {
            is_around_others |=
                has_others_below(&store, WITH_DROPPED, self.itself, location).await?;
        }
        for file in files {
            let Some((directory, _)) = file.rsplit_once('/') else { continue };
            let Ok(location) = Location::parse(directory) else { continue };
            let own = self.locations.iter().filter(|own| location.may_be_within(own));
            let own = own.map(|own| own.parts().len()).max();
            if self.directories.contains_key(directory) || own.is_some() && !is_around_others {
                continue;
            }
            let lengths = own.unwrap_or(0) + 1..location.parts().len() + 1;
            let is_others =
                has_others_around(&store, WITH_DROPPED, self.itself, &location, lengths).await?;
            self.directories.insert(directory.to_owned(), is_others);
        }
        Ok(())
    }

    /// Determines the files that are reachable from a table or view. Does nothing if its current
    /// version was read already.
    async fn read(&mut self, run: &JobRun, id: Uuid) -> Result<(), Interruption> {
        let store = run.jobs().core.store().latest();
        let record = lookup::record_with_dropped(&store, id).await?;
        let version = record.map(|record| record.version);
        if version.is_none() || version == self.read.get(&id).copied() {
            return Ok(());
        }
        let Some(found) = lookup::tabular_with_dropped(&store, id).await? else { return Ok(()) };
        self.files.insert(hash(&found.record.metadata_location));
        if found.record.kind == TabularKind::Table {
            let named = reachable::named_by(&found.document.text.to_bytes());
            let named = named.map_err(|error| Interruption::Later(Error::internal(error)))?;
            self.keep(run, named.others.iter().map(|file| hash(file)))?;
            self.keep(run, named.manifest_lists.iter().map(|file| hash(file)))?;
            if self.depth != Depth::Metadata {
                if named.format_version > FORMAT_VERSION_ADOPTED.into() {
                    return Err(unknown_manifests(&found.record));
                }
                let warehouse = found.record.warehouse;
                self.read_manifests(run, warehouse, named.manifest_lists, named.manifests).await?;
            }
        }
        self.read.insert(id, found.record.version);
        Ok(())
    }

    async fn read_manifests(
        &mut self,
        run: &JobRun,
        warehouse: Uuid,
        lists: BTreeSet<String>,
        mut manifests: BTreeSet<String>,
    ) -> Result<(), Interruption> {
        let parallel = run.jobs().core.settings().file_deletions_parallel_max.max(1);
        let objects = run.jobs().core.objects();
        let objects = &objects;
        let unread = |all: BTreeSet<String>, read: &HashSet<ChunkHash>| -> Vec<String> {
            all.into_iter().filter(|file| !read.contains(&hash(file))).collect()
        };
        let reads = unread(lists, &self.manifests).into_iter().map(|list| async move {
            let content = objects.read(warehouse, &list).await?;
            Ok::<_, objects::Error>((reachable::manifests_of(&list, &content)?, list))
        });
        let mut reads = futures::stream::iter(reads).buffer_unordered(parallel);
        let mut names_bytes = 0;
        while let Some(read) = run.until_stopped(reads.next()).await? {
            let (named, list) = read.map_err(fail_if_unreadable)?;
            for manifest in named.into_keys() {
                let bytes = reachable::name_bytes(&manifest);
                if manifests.insert(manifest) {
                    run.memory.take(bytes)?;
                    names_bytes += bytes;
                }
            }
            run.memory.reserve_files(usize::from(self.manifests.insert(hash(&list))))?;
        }
        self.keep(run, manifests.iter().map(|file| hash(file)))?;
        if self.depth == Depth::ManifestLists {
            run.memory.release(names_bytes);
            return Ok(());
        }
        let files_of =
            if self.with_deleted { reachable::files_of } else { reachable::live_files_of };
        let reads = unread(manifests, &self.manifests).into_iter().map(|manifest| async move {
            let content = objects.read(warehouse, &manifest).await?;
            Ok::<_, objects::Error>((files_of(&manifest, &content)?, manifest))
        });
        let mut reads = futures::stream::iter(reads).buffer_unordered(parallel);
        while let Some(read) = run.until_stopped(reads.next()).await? {
            let (named, manifest) = read.map_err(fail_if_unreadable)?;
            self.keep(run, named.iter().map(|file| hash(file)))?;
            run.memory.reserve_files(usize::from(self.manifests.insert(hash(&manifest))))?;
        }
        drop(reads);
        run.memory.release(names_bytes);
        Ok(())
    }

    /// Adds files that must stay, and reserves memory for them.
    fn keep(
        &mut self,
        run: &JobRun,
        files: impl Iterator<Item = ChunkHash>,
    ) -> Result<(), Interruption> {
        let before = self.files.len();
        self.files.extend(files);
        Ok(run.memory.reserve_files(self.files.len() - before)?)
    }
}
