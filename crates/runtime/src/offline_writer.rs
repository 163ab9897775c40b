//! Operations of subcommands that open the store of a catalog for writing, while no server runs on
//! it.
//!
//! Opening a store in a local directory takes the lock of the directory. Opening a store in a
//! bucket fences a server that runs on it, as any second writer does. A [preview](super::preview)
//! writes nothing and takes no lock.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::cluster::reject_living_writer;
use super::data_dir::{check_there, lock_data_dir};
use super::dependencies::Dependencies;
use super::error::{BuildError, at_state};
use super::locations;
use super::lock::DataDirLock;
use super::policies::{self, FilePolicies};
use super::state::State;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::{Permit, Task};
use slateberg_authz::schema::Schema;
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_base::progress::Progress;
use slateberg_base::rfc3339;
use slateberg_catalog as catalog;
use slateberg_catalog::checkpoints::checked_name;
use slateberg_catalog::ensure_location_index;
use slateberg_catalog::policies::Sources;
use slateberg_catalog::transfer::export::{Counts, export};
use slateberg_catalog::transfer::{self, check, import};
use slateberg_config::Settings;
use slateberg_objects::reserved::Reserved;
use slateberg_store::checkpoints::{Checkpoint, CheckpointOutcome, NewCheckpoint};
use slateberg_store::fsck::{Report, walk};
use slateberg_store::keys::StoreKey;
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::read::{OfflineView, StoreRead};
use slateberg_store::records::{Change, ChangeAction, PolicyRevision};
use slateberg_store::restore::{RestorePlan, RestoreSummary};
use slateberg_store::txn::RequestRecords;
use slateberg_store::{self as store, Store};
use slateberg_telemetry::audit::AuditLog;

/// The principal that the change log records for changes by subcommands.
pub(crate) const OFFLINE: &str = "offline";

/// Offset of the last millisecond within a second.
const LAST_OF_SECOND_MS: i64 = 999;

/// An operation on a stopped catalog failed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The catalog cannot be opened.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The catalog rejected the operation.
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    /// An export or import failed.
    #[error(transparent)]
    Transfer(#[from] transfer::Error),
    /// The operation is not possible, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// A catalog that only this process writes.
pub struct OfflineWriter {
    /// The records.
    pub store: Store,
    /// The URL of the state.
    pub state_url: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) sources: Sources,
    pub(super) permit: Permit<Maintain>,
    reserved: Reserved,
    _lock: Option<DataDirLock>,
}

/// The checkpoint to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreTarget {
    /// The checkpoint with this id or name.
    Checkpoint(String),
    /// The newest checkpoint that was created at or before this time.
    Time(i64),
}

/// A completed restore.
pub struct Restored {
    /// The checkpoint that was restored.
    pub to: Checkpoint,
    /// The checkpoint that undoes the restore.
    pub undo: Checkpoint,
    /// The number of changes.
    pub summary: RestoreSummary,
    /// The report of `fsck` on the records after the restore.
    pub report: Report,
}

impl RestoreTarget {
    /// Parses a time. Treats any other text as the id or name of a checkpoint.
    pub fn parse(text: &str) -> Self {
        rfc3339::parse(text).map_or_else(|| Self::Checkpoint(text.to_owned()), Self::Time)
    }

    pub(super) fn find(&self, checkpoints: &[Checkpoint]) -> Result<Checkpoint, OfflineError> {
        let found = match self {
            Self::Checkpoint(name_or_id) => {
                checkpoints.iter().find(|checkpoint| checkpoint.has_name_or_id(name_or_id))
            }
            // Checkpoint times have a resolution of one second. A checkpoint is selected only if
            // its second ends at or before the given time.
            Self::Time(ms) => {
                let until =
                    |checkpoints: &&Checkpoint| checkpoints.created_ms + LAST_OF_SECOND_MS <= *ms;
                // Pins of clones are skipped. A pin is a checkpoint, too, but the state that it
                // pins is older than the pin's creation time.
                checkpoints.iter().rev().filter(|checkpoint| !checkpoint.for_clone).find(until)
            }
        };
        let missing = || {
            OfflineError::Refused(match self {
                Self::Checkpoint(name_or_id) => format!("there is no checkpoint '{name_or_id}'"),
                Self::Time(ms) => format!(
                    "there is no checkpoint at or before {}: the oldest is {}",
                    rfc3339::format(*ms),
                    checkpoints
                        .first()
                        .map_or("none".to_owned(), |it| rfc3339::format(it.created_ms))
                ),
            })
        };
        found.cloned().ok_or_else(missing)
    }
}

/// Exports a catalog as lines. The current state can be exported only while no server runs. The
/// state of a checkpoint can be exported at any time.
pub async fn export_lines(
    settings: &Settings,
    dependencies: &Dependencies,
    target: Option<&RestoreTarget>,
    out: &mut impl Write,
    progress: &Progress,
) -> Result<Counts, OfflineError> {
    let phase = progress.phase("opening the store", None);
    check_there(settings)?;
    let _lock = if target.is_none() { lock_data_dir(settings)? } else { None };
    let state = State::offline(settings, dependencies).await?;
    let now_ms = dependencies.clock.now_ms();
    let opening = async {
        let failed = |source| at_state(&state.url, source);
        let Some(target) = target else {
            return Ok((Store::open_offline(&state.location).await.map_err(failed)?, now_ms));
        };
        let checkpoints =
            Store::checkpoints_offline(&state.location, now_ms).await.map_err(failed)?;
        let found = target.find(&checkpoints)?;
        let opened = Store::open_checkpoint(&state.location, found.id).await.map_err(failed)?;
        Ok::<_, OfflineError>((opened, found.created_ms))
    };
    let (store, as_of_ms) = opening.await?;
    drop(phase);
    Ok(export(&store, &rfc3339::format(as_of_ms), out, progress).await?)
}

impl OfflineWriter {
    /// Opens an existing catalog.
    pub async fn open(
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<Self, OfflineError> {
        check_there(settings)?;
        Self::open_or_create(settings, dependencies).await
    }

    /// Opens a catalog, or creates an empty one.
    pub async fn open_or_create(
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<Self, OfflineError> {
        let policies = FilePolicies::load(&settings.authz).map_err(BuildError::Policies)?;
        let sources = policies.sources(&settings.authz);
        let audit = Arc::new(AuditLog::open(&settings.audit).map_err(BuildError::Audit)?);
        let lock = lock_data_dir(settings)?;
        let state = State::offline(settings, dependencies).await?;
        Box::pin(state.probe(dependencies)).await?;
        reject_living_writer(&state).await?;
        let opening = async {
            let settings = settings.clone().with_memory_shares();
            let opened = Store::open(&state.location, settings.store).await;
            opened.map_err(|source| at_state(&state.url, source))
        };
        let store = Box::pin(state.while_responsive(Box::pin(opening))).await?;
        let catalog = Self {
            store: store.with_audit_log(audit),
            state_url: state.url.clone(),
            clock: Arc::clone(&dependencies.clock),
            ids: Arc::clone(&dependencies.ids),
            sources,
            permit: Permit::for_task(Task::Restore),
            reserved: locations::reserved(settings, &state.url)?,
            _lock: lock,
        };
        catalog.upgrade().await?;
        Ok(catalog)
    }

    /// Upgrades the records to this binary's format, as a start does.
    async fn upgrade(&self) -> Result<(), OfflineError> {
        ensure_location_index(&self.store, &self.permit).await?;
        let (id, now_ms) = (self.ids.random(), self.clock.now_ms());
        self.store.ensure_format(&self.permit, id, now_ms).await?;
        Ok(())
    }

    /// Closes the store.
    pub async fn close(&self) -> Result<(), OfflineError> {
        Ok(self.store.close().await?)
    }

    /// Returns the checkpoints, oldest first.
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>, OfflineError> {
        Ok(self.store.checkpoints(self.clock.now_ms()).await?)
    }

    /// Creates a checkpoint.
    pub async fn create_checkpoint(
        &self,
        name: Option<String>,
        lifetime_seconds: Option<u64>,
    ) -> Result<Checkpoint, OfflineError> {
        let name = name.map(|name| checked_name("checkpoint", name)).transpose()?;
        let new_checkpoint =
            NewCheckpoint { name, lifetime: lifetime_seconds.map(Duration::from_secs) };
        let created = self
            .store
            .create_checkpoint(&self.permit, &new_checkpoint, self.clock.now_ms())
            .await?;
        let created = create_or_reject(created)?;
        self.log(ChangeAction::CreateCheckpoint, &created).await?;
        Ok(created)
    }

    /// Deletes the checkpoint with this id or name.
    pub async fn delete_checkpoint(&self, name_or_id: &str) -> Result<(), OfflineError> {
        let found =
            RestoreTarget::Checkpoint(name_or_id.to_owned()).find(&self.checkpoints().await?)?;
        self.store.delete_checkpoint(&self.permit, found.id).await?;
        self.log(ChangeAction::DeleteCheckpoint, &found).await
    }

    async fn log(&self, action: ChangeAction, about: &Checkpoint) -> Result<(), OfflineError> {
        let name = about.name.clone().unwrap_or_default();
        let entry = &self.entry(action, about.id, name);
        let records = || RequestRecords::of_change(entry.clone(), None);
        let written =
            self.store.transact_for_request(action.as_str(), &self.permit, |_| async move {
                Ok::<_, store::Error>(((), records()))
            });
        let ((), accepted) = written.await?;
        Ok(accepted.durable().await?)
    }

    /// Creates an entry for the change log.
    pub(super) fn entry(&self, action: ChangeAction, subject: Uuid, name: String) -> Change {
        offline_entry(self.clock.as_ref(), action, subject, name)
    }

    /// Restores the state of a checkpoint, after creating a checkpoint of the current state.
    pub async fn restore(
        &self,
        target: &RestoreTarget,
        progress: &Progress,
    ) -> Result<Restored, OfflineError> {
        let to = target.find(&self.checkpoints().await?)?;
        let then = self.store.at_checkpoint(to.id).await?;
        reject_newer(&then).await?;
        let plan = RestorePlan::between(&self.store.latest(), &then, progress).await?;
        let phase = progress.phase("writing changes", None);
        let revision = self.revision(&plan, &to).await?;
        let name = format!("before-restore-{}", rfc3339::format(self.clock.now_ms()));
        let undo = self.create_checkpoint(Some(name), None).await?;
        let entry = self.entry(ChangeAction::Restore, to.id, to.name_or_id());
        let timeline = self.ids.random();
        self.store.restore(&self.permit, &plan, timeline, revision.as_ref(), &entry).await?;
        // The restored records may have an older format.
        self.upgrade().await?;
        drop(phase);
        let report = self.walk(progress).await?;
        Ok(Restored { to, undo, summary: plan.summary, report })
    }

    /// Imports an export into this catalog, which must be empty except for the data of an earlier
    /// attempt. `open` returns a reader of the lines and is called twice. `bytes` is the total size
    /// of the lines.
    pub async fn import<R: BufRead>(
        &self,
        open: impl Fn() -> std::io::Result<R>,
        bytes: Option<u64>,
        progress: &Progress,
    ) -> Result<Counts, OfflineError> {
        let permit = Permit::for_task(Task::Import);
        let lines = open().map_err(transfer::Error::from)?;
        let mut phase = progress.phase("checking bytes", bytes);
        let checked = check::check(lines, &self.reserved, &phase)?;
        phase.next("importing lines", Some(checked.counts.lines as u64));
        import::check_target(&self.store, &checked).await?;
        let revision = self.imported_policies(&checked.book).await?;
        let lines = open().map_err(transfer::Error::from)?;
        // Since the export, the exported catalog may have used the next version numbers for other
        // changes. A new timeline prevents the ETags of those versions from matching here.
        self.store.begin_timeline(&permit, self.ids.random()).await?;
        import::write(&self.store, &permit, &checked, lines, &phase).await?;
        let entry = &self.entry(
            ChangeAction::Import,
            Uuid::nil(),
            format!("{} lines", checked.counts.lines),
        );
        let revision = revision.as_ref();
        let written = self.store.transact_for_request("import_policies", &permit, |t| async move {
            if let Some(revision) = revision {
                t.revise_policies(revision).await?;
            }
            Ok::<_, store::Error>(((), RequestRecords::of_change(entry.clone(), None)))
        });
        let ((), accepted) = written.await?;
        accepted.durable().await?;
        Ok(checked.counts)
    }

    /// Returns the policy revision that adds an export's policies and grants.
    async fn imported_policies(
        &self,
        imported: &PolicySnapshot,
    ) -> Result<Option<PolicyRevision>, OfflineError> {
        let known = PolicySnapshot::read(&self.store.latest()).await?;
        let mut book = known.clone();
        book.number += 1;
        book.policies.extend(imported.policies.clone());
        book.grants.extend(imported.grants.clone());
        let changes = known.changes_to(&book);
        if changes.is_empty() {
            return Ok(None);
        }
        let number = book.number;
        Ok(Some(PolicyRevision {
            number,
            at_ms: self.clock.now_ms(),
            by: OFFLINE.to_owned(),
            action: ChangeAction::Import.into(),
            comment: None,
            in_force: self.in_force(book)?,
            rolled_back_to: None,
            changes,
        }))
    }

    /// Returns the report of `fsck` on the records.
    pub async fn walk(&self, progress: &Progress) -> Result<Report, OfflineError> {
        Ok(walk(&self.store.latest(), progress).await?)
    }

    /// Returns the policy revision that a restore creates. Returns `None` if the restore changes no
    /// policies. Rejects policies with which a server could not start.
    async fn revision(
        &self,
        plan: &RestorePlan,
        to: &Checkpoint,
    ) -> Result<Option<PolicyRevision>, OfflineError> {
        if plan.policy_changes.is_empty() {
            return Ok(None);
        }
        let number = PolicySnapshot::read(&self.store.latest()).await?.number + 1;
        let book = PolicySnapshot { number, ..plan.book.clone() };
        let in_force = self.in_force(book)?;
        let called = to.name_or_id();
        Ok(Some(PolicyRevision {
            number,
            at_ms: self.clock.now_ms(),
            by: OFFLINE.to_owned(),
            action: ChangeAction::Restore.into(),
            comment: Some(format!("restored to checkpoint {called}")),
            in_force,
            rolled_back_to: None,
            changes: plan.policy_changes.clone(),
        }))
    }

    /// Returns the hash of the policy set that is built from these stored policies and the policy
    /// files.
    pub(super) fn in_force(&self, book: PolicySnapshot) -> Result<String, OfflineError> {
        let sources = Sources { book: Arc::new(book), ..self.sources.clone() };
        let set = sources.build(Arc::new(Schema::bundled()));
        let set =
            set.map_err(|problems| BuildError::Policies(policies::Error::Invalid(problems)))?;
        Ok(set.revision().to_string())
    }
}

/// Returns the created checkpoint, or the reason for its rejection as an error.
pub(super) fn create_or_reject(created: CheckpointOutcome) -> Result<Checkpoint, OfflineError> {
    let reason = match created {
        CheckpointOutcome::Checkpoint(created) => return Ok(created),
        CheckpointOutcome::NameTaken(taken) => {
            format!("there is a checkpoint '{}' already", taken.name.unwrap_or_default())
        }
        CheckpointOutcome::TooMany(max) => {
            format!("there are {max} checkpoints already: delete some")
        }
    };
    Err(OfflineError::Refused(reason))
}

/// Creates a change log entry for an action of a subcommand.
pub(super) fn offline_entry(
    clock: &dyn Clock,
    action: ChangeAction,
    subject: Uuid,
    name: String,
) -> Change {
    Change {
        at_ms: clock.now_ms(),
        action: action.into(),
        principal: OFFLINE.to_owned(),
        warehouse: Uuid::nil(),
        subject,
        name,
        version_before: None,
        version_after: None,
        allowed: None,
        origin: None,
        resource: None,
        group: None,
    }
}

/// Rejects records written by a newer binary.
pub(super) async fn reject_newer(then: &OfflineView) -> Result<(), OfflineError> {
    let format = then.get(&StoreKey).await?;
    Ok(format.map_or(Ok(()), |format| format.check())?)
}
