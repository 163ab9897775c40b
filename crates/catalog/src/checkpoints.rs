//! Checkpoints: states of the whole catalog that an operator can restore.
//!
//! A checkpoint is stored in the manifest of the store, not in the records. So no transaction
//! covers both the checkpoint and its entry in the change log. The checkpoint is created first.
//! After a crash between these two steps, the listing contains the checkpoint, although no client
//! got a response about it.

use std::sync::Arc;

use std::time::Duration;

use uuid::Uuid;

use super::core::Core;
use super::detached::detached;
use super::pipeline::Write;
use super::pipeline::records::Entry;
use super::pipeline::response::{Body, Response};
use super::{Error, Operation, Result};
use crate::error::{MissingResource, NameConflict, RuleViolation};
use slateberg_authz::action::ManageCheckpoints;
use slateberg_authz::authority::Decider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_base::boxed;
use slateberg_model::members::brief;
pub use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::checkpoints::{CheckpointOutcome, NewCheckpoint};
use slateberg_store::records::ChangeAction;

/// Maximum number of characters in a name.
const NAME_CHARS_MAX: usize = 128;
/// Longest lifetime of a checkpoint that expires.
const LIFETIME_SECONDS_MAX: u64 = 100 * 366 * 24 * 60 * 60;

/// Checkpoints of the store, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Checkpoints {
    core: Arc<Core>,
}

impl Checkpoints {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns the checkpoints, oldest first.
    #[boxed]
    pub async fn checkpoints(&self, operation: &Operation) -> Result<Vec<Checkpoint>> {
        self.permit_checkpoints(operation)?;
        self.valid_checkpoints().await
    }

    /// Returns the checkpoint with this id or name.
    #[boxed]
    pub async fn checkpoint(&self, operation: &Operation, name_or_id: &str) -> Result<Checkpoint> {
        self.permit_checkpoints(operation)?;
        self.find_checkpoint(name_or_id).await
    }

    /// Creates a checkpoint that contains every acknowledged change.
    #[boxed]
    pub async fn create_checkpoint(
        &self,
        operation: &Operation,
        name: Option<String>,
        lifetime_seconds: Option<u64>,
    ) -> Result<Checkpoint> {
        self.permit_checkpoints(operation)?;
        let new_checkpoint = NewCheckpoint {
            name: name.map(|name| checked_name("checkpoint", name)).transpose()?,
            lifetime: lifetime_seconds.map(checked_lifetime).transpose()?,
        };
        let making = |checkpoints: Self, operation: Operation| async move {
            let at_most = checkpoints.core.settings().commit_deadline();
            let late = "the checkpoint was not created within the deadline";
            let work =
                async move { checkpoints.make_checkpoint(&operation, &new_checkpoint).await };
            detached(at_most, late, work).await
        };
        let Body(id): Body<Uuid> = self.core.mutate(self, operation, making).await?;
        self.find_checkpoint(&id.to_string()).await
    }

    /// Deletes the checkpoint with this id or name.
    #[boxed]
    pub async fn delete_checkpoint(&self, operation: &Operation, name_or_id: &str) -> Result<()> {
        self.permit_checkpoints(operation)?;
        let name_or_id = name_or_id.to_owned();
        let deleting = |checkpoints: Self, operation: Operation| async move {
            let permit = checkpoints.permit_checkpoints(&operation)?;
            let found = checkpoints.find_checkpoint(&name_or_id).await?;
            if !checkpoints.core.store().delete_checkpoint(&permit, found.id).await? {
                return Err(Error::NotFound(MissingResource::Checkpoint(name_or_id)));
            }
            let versions = (Some(1), None);
            let log = (ChangeAction::DeleteCheckpoint, versions);
            checkpoints.log_checkpoint(&operation, &permit, log, &found, &()).await
        };
        self.core.mutate(self, operation, deleting).await
    }

    async fn make_checkpoint(
        &self,
        operation: &Operation,
        new_checkpoint: &NewCheckpoint,
    ) -> Result<Body<Uuid>> {
        let permit = self.permit_checkpoints(operation)?;
        let checkpoint = self
            .core
            .store()
            .create_checkpoint(&permit, new_checkpoint, self.core.now_ms())
            .await?;
        let checkpoint = match checkpoint {
            CheckpointOutcome::Checkpoint(checkpoint) => checkpoint,
            CheckpointOutcome::NameTaken(taken) => {
                let name = taken.name.unwrap_or_default();
                return Err(Error::AlreadyExists(NameConflict::Checkpoint(name)));
            }
            CheckpointOutcome::TooMany(max) => {
                return Err(Error::Unprocessable(RuleViolation::TooManyCheckpoints(max)));
            }
        };
        let (log, response) =
            ((ChangeAction::CreateCheckpoint, (None, Some(1))), Body(checkpoint.id));
        self.log_checkpoint(operation, &permit, log, &checkpoint, &response).await?;
        Ok(response)
    }

    async fn log_checkpoint(
        &self,
        operation: &Operation,
        permit: &Permit<ManageCheckpoints>,
        (action, versions): (ChangeAction, (Option<u64>, Option<u64>)),
        about: &Checkpoint,
        response: &(impl Response + Sync),
    ) -> Result<()> {
        let write = Write::of_records(action, permit);
        let name = &about.name.as_deref().unwrap_or_default();
        let written = self.core.pipeline().commit(write, |_| async move {
            let entry = Entry {
                action,
                warehouse: Uuid::nil(),
                subject: about.id,
                name,
                versions,
                decision: permit.decision(),
                resource: None,
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), response)?))
        });
        written.await
    }

    async fn valid_checkpoints(&self) -> Result<Vec<Checkpoint>> {
        Ok(self.core.store().checkpoints(self.core.now_ms()).await?)
    }

    async fn find_checkpoint(&self, name_or_id: &str) -> Result<Checkpoint> {
        let found = self
            .valid_checkpoints()
            .await?
            .into_iter()
            .find(|kept| kept.has_name_or_id(name_or_id));
        found.ok_or_else(|| Error::NotFound(MissingResource::Checkpoint(name_or_id.to_owned())))
    }

    fn permit_checkpoints(&self, operation: &Operation) -> Result<Permit<ManageCheckpoints>> {
        let asking = match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let resource = Resource::catalog();
        let permitted = asking.permit(&resource);
        permitted.map_err(|denied| self.core.access.refuse(operation, &denied, &resource, None))
    }
}

/// Validates the name of an object of this kind, such as a checkpoint. The name must be usable in a
/// URL path and must not look like an id.
pub fn checked_name(kind: &str, name: String) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let fits = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(plain);
    if !fits || name.chars().all(|c| c == '.') || Uuid::parse_str(&name).is_ok() {
        let shortened = brief(&name);
        return Err(Error::Invalid(format!(
            "Invalid name of a {kind} '{shortened}': expected 1 to {NAME_CHARS_MAX} letters, digits, '-', '_', \
             '.' or ':', and no UUID"
        )));
    }
    Ok(name)
}

fn checked_lifetime(seconds: u64) -> Result<Duration> {
    if !(1..=LIFETIME_SECONDS_MAX).contains(&seconds) {
        return Err(Error::Invalid(format!(
            "Invalid lifetime of a checkpoint: expected 1 to {LIFETIME_SECONDS_MAX} seconds, got {seconds}"
        )));
    }
    Ok(Duration::from_secs(seconds))
}
