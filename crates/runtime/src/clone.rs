//! `clone`: creates a second catalog from a state of the configured catalog, without copying data.
//!
//! There are two sources for a clone. The state of a checkpoint can be cloned even while a server
//! runs. The current state can be cloned only if it is in a local directory and no server runs on
//! it. [`slateberg_store::clones`] defines the contents of a clone and the order of its writes.
//! This module determines and validates the location of the clone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::data_dir::{STATE_DIR, check_there, lock_data_dir};
use super::dependencies::Dependencies;
use super::error::{BuildError, at_state};
use super::locations;
use super::offline_writer::{
    OfflineError, OfflineWriter, RestoreTarget, create_or_reject, offline_entry,
};
use super::state::State;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::progress::{Phase, Progress};
use slateberg_catalog::ensure_location_index;
use slateberg_config::Settings;
use slateberg_objects::location::Location;
use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::fsck::{Report, walk};
use slateberg_store::keys::StoreKey;
use slateberg_store::open::StoreLocation;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, CloneOf, StoreFormat};
use slateberg_store::{self as store, Store};
use slateberg_telemetry::audit::AuditLog;

/// Lifetime of the temporary checkpoint through which the current state is pinned.
const TEMPORARY_CHECKPOINT_SECONDS: u64 = 60 * 60;

/// A completed clone.
pub struct Cloned {
    /// The URL of the clone's state.
    pub url: String,
    /// The clone's data directory. `None` if the target was the URL of a state.
    pub data_dir: Option<PathBuf>,
    /// The parent.
    pub of: CloneOf,
    /// The report of `fsck` on the clone's records.
    pub report: Report,
}

/// The target of a clone.
struct Target {
    settings: Settings,
    data_dir: Option<PathBuf>,
    state: State,
}

/// The state with which a clone starts.
struct Source {
    pin: Checkpoint,
    /// Name or id of the cloned checkpoint.
    called: Option<String>,
    as_of_ms: i64,
    format: StoreFormat,
}

/// Clones the catalog to `to`, which is the URL of a state or a data directory. `wanted` selects
/// the checkpoint to clone. `None` selects the current state, which requires a local directory on
/// which no server runs.
pub async fn clone_catalog(
    settings: &Settings,
    dependencies: &Dependencies,
    wanted: Option<&RestoreTarget>,
    to: &str,
    progress: &Progress,
) -> Result<Cloned, OfflineError> {
    let phase = progress.phase("opening the catalog", None);
    check_there(settings)?;
    let audit = Arc::new(AuditLog::open(&settings.audit).map_err(BuildError::Audit)?);
    let parent = State::offline(settings, dependencies).await?;
    let target = Target::of(settings, dependencies, to).await?;
    target.check(&parent)?;
    locations::check_clone(settings, &parent.url, &target.state.url)?;
    let _lock = target.lock()?;
    Box::pin(target.state.probe(dependencies)).await?;
    let source = Box::pin(source(settings, dependencies, &parent, &target, wanted)).await?;
    let target_location = &target.state.location;
    let shared = Store::share(&parent.location, source.pin.id, target_location).await;
    shared.map_err(|error| target.failed(error))?;
    let of = CloneOf {
        parent_url: parent.url.clone(),
        parent_catalog: source.format.catalog_id,
        pin: source.pin.id,
        pin_name: source.pin.name.clone().unwrap_or_default(),
        checkpoint: source.called,
        as_of_ms: source.as_of_ms,
        cloned_ms: dependencies.clock.now_ms(),
    };
    let store = Store::open(target_location, target.settings.store.clone()).await;
    let store = store.map_err(|error| target.failed(error))?.with_audit_log(audit);
    let finished = finish(&store, dependencies, &of, phase, progress).await;
    let closed = store.close().await;
    let report = finished?;
    closed?;
    Ok(Cloned { url: target.state.url, data_dir: target.data_dir, of, report })
}

/// Turns the store into a separate catalog. Returns the report of `fsck`.
async fn finish(
    store: &Store,
    dependencies: &Dependencies,
    of: &CloneOf,
    mut phase: Phase,
    progress: &Progress,
) -> Result<Report, OfflineError> {
    phase.next("writing the clone", None);
    let permit = &Permit::for_task(Task::Clone);
    ensure_location_index(store, permit).await?;
    let entry = offline_entry(
        dependencies.clock.as_ref(),
        ChangeAction::Clone,
        of.pin,
        of.parent_url.clone(),
    );
    store.become_clone(permit, dependencies.ids.random(), of, &entry).await?;
    drop(phase);
    Ok(walk(&store.latest(), progress).await?)
}

/// Pins the state to clone. If an earlier attempt to create this clone has already pinned the
/// state, returns that pin.
async fn source(
    settings: &Settings,
    dependencies: &Dependencies,
    parent: &State,
    target: &Target,
    wanted: Option<&RestoreTarget>,
) -> Result<Source, OfflineError> {
    let failed = |source| at_state(&parent.url, source);
    let parent_location = &parent.location;
    let begun = Store::find_unfinished_clone(parent_location, &target.state.location).await;
    let begun = begun.map_err(|error| target.failed(error))?;
    let checkpoints = Store::checkpoints_offline(parent_location, dependencies.clock.now_ms())
        .await
        .map_err(failed)?;
    let chosen = wanted.map(|wanted| wanted.find(&checkpoints)).transpose()?;
    if let Some(pin) = begun {
        let checkpoint_missing =
            || unfinished(target, "the checkpoint of that clone no longer exists");
        let pin = checkpoints
            .into_iter()
            .find(|checkpoint| checkpoint.id == pin)
            .ok_or_else(checkpoint_missing)?;
        if let Some(chosen) = &chosen
            && !Store::is_same_state(parent_location, pin.id, chosen.id).await?
        {
            return Err(unfinished(target, "that clone was started from another checkpoint"));
        }
        let format = format_of(parent_location, &pin).await?;
        let as_of_ms = chosen.as_ref().map_or(pin.created_ms, |chosen| chosen.created_ms);
        return Ok(Source {
            called: chosen.map(|chosen| chosen.name_or_id()),
            as_of_ms,
            pin,
            format,
        });
    }
    if let Some(chosen) = chosen {
        let format = format_of(parent_location, &chosen).await?;
        let pin = pin(parent_location, &chosen, dependencies).await?;
        let as_of_ms = chosen.created_ms;
        return Ok(Source { called: Some(chosen.name_or_id()), as_of_ms, pin, format });
    }
    // Opening a store in a bucket would fence the server that runs on it.
    if parent_location.directory.is_none() {
        return Err(OfflineError::Refused(
            "choose a checkpoint with --checkpoint. To create one, run `slateberg checkpoint create NAME` while the \
             server runs, or the same command with --offline while no server runs"
                .to_owned(),
        ));
    }
    let catalog = OfflineWriter::open(settings, dependencies).await?;
    let pinned = pin_now(&catalog, parent_location, dependencies).await;
    let closed = catalog.close().await;
    let source = pinned?;
    closed.map(|()| source)
}

/// Pins the state of a stopped catalog.
async fn pin_now(
    catalog: &OfflineWriter,
    parent_location: &StoreLocation,
    dependencies: &Dependencies,
) -> Result<Source, OfflineError> {
    let passing = catalog.create_checkpoint(None, Some(TEMPORARY_CHECKPOINT_SECONDS)).await?;
    let format = format_of(parent_location, &passing).await?;
    let pinned = pin(parent_location, &passing, dependencies).await;
    catalog.delete_checkpoint(&passing.id.to_string()).await?;
    Ok(Source { pin: pinned?, called: None, as_of_ms: passing.created_ms, format })
}

async fn pin(
    parent: &StoreLocation,
    of: &Checkpoint,
    dependencies: &Dependencies,
) -> Result<Checkpoint, OfflineError> {
    let id = dependencies.ids.random().simple().to_string();
    let name = format!("clone-{}", &id[..8]);
    create_or_reject(Store::pin(parent, of.id, &name, dependencies.clock.now_ms()).await?)
}

/// Returns the format record of a checkpoint. Errors if the checkpoint cannot be cloned.
async fn format_of(parent: &StoreLocation, at: &Checkpoint) -> Result<StoreFormat, OfflineError> {
    let format = Store::open_checkpoint(parent, at.id).await?.get(&StoreKey).await?;
    let missing = || OfflineError::Refused("there is no catalog in the store".to_owned());
    let format = format.ok_or_else(missing)?;
    format.check()?;
    match &format.clone_of {
        None => Ok(format),
        Some(clone) => Err(OfflineError::Refused(format!(
            "this catalog is itself a clone of {}: clone its parent, or export this catalog",
            clone.parent_url
        ))),
    }
}

fn unfinished(target: &Target, reason: &str) -> OfflineError {
    OfflineError::Refused(format!(
        "there is an unfinished clone at {}, and {reason}: delete it first",
        target.state.url
    ))
}

impl Target {
    /// Resolves the target `to`. Opens it with the options of the parent.
    async fn of(
        settings: &Settings,
        dependencies: &Dependencies,
        to: &str,
    ) -> Result<Self, OfflineError> {
        let mut settings = settings.clone().with_memory_shares();
        let mut data_dir = None;
        settings.state.url = if to.contains("://") {
            to.trim_end_matches('/').to_owned()
        } else {
            let absolute = std::path::absolute(to);
            let absolute = absolute.map_err(|error| location_error(to, &error.to_string()))?;
            let text = absolute.to_str().ok_or_else(|| location_error(to, "it is not UTF-8"))?;
            let url = format!("file://{}/{STATE_DIR}", text.trim_end_matches('/'));
            data_dir = Some(absolute);
            url
        };
        let parsed = Location::parse(&settings.state.url);
        parsed.map_err(|error| location_error(to, &error.to_string()))?;
        // A clone's log is always inside its state.
        settings.state.wal_url = String::new();
        settings.state.wal_options.clear();
        let state = State::offline(&settings, dependencies).await?;
        Ok(Self { settings, data_dir, state })
    }

    /// Rejects a target in another bucket, and a target that contains the state of the parent or is
    /// inside it.
    fn check(&self, parent: &State) -> Result<(), OfflineError> {
        let url = &self.state.url;
        let bucket = |url: &str| {
            Location::parse(url).ok().map(|it| (it.scheme().to_owned(), it.authority().to_owned()))
        };
        if bucket(url).is_none() || bucket(url) != bucket(&parent.url) {
            let reason = format!(
                "a clone shares the objects of {}. Choose a location in the same bucket or on the same machine; \
                 to copy the catalog elsewhere, use slateberg export and slateberg import",
                parent.url
            );
            return Err(location_error(url, &reason));
        }
        let (theirs, own) =
            (Path::new(&parent.location.path), Path::new(&self.state.location.path));
        if own.starts_with(theirs) || theirs.starts_with(own) {
            return Err(location_error(
                url,
                "the location is inside the state of the parent, or contains that state. Choose a location \
                 outside of the parent's state",
            ));
        }
        for path in [&parent.location.path, &self.state.location.path] {
            if !Store::can_share(path) {
                let reason = format!("'{path}' contains characters that object stores encode");
                return Err(location_error(url, &reason));
            }
        }
        Ok(())
    }

    /// Locks the clone's data directory.
    fn lock(&self) -> Result<Option<super::lock::DataDirLock>, BuildError> {
        let Some(data_dir) = &self.data_dir else { return Ok(None) };
        let mut settings = self.settings.clone();
        settings.data_dir.clone_from(data_dir);
        settings.state.url = String::new();
        lock_data_dir(&settings)
    }

    fn failed(&self, source: store::Error) -> OfflineError {
        at_state(&self.state.url, source).into()
    }
}

fn location_error(to: &str, reason: &str) -> OfflineError {
    OfflineError::Refused(format!("cannot create a clone at {to}: {reason}"))
}
