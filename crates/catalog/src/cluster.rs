//! Permissions for the cluster of which this catalog is the writer, and its entries in the change
//! log. The server itself elects and transfers the writer, and pauses the cluster.

use std::sync::Arc;

use uuid::Uuid;

use super::core::Core;
use super::pipeline::Write;
use super::pipeline::records::Entry;
use super::{Operation, Result};
use slateberg_authz::action::{Action, PauseCluster, ReadCluster, TransferWriter};
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_store::records::ChangeAction;

/// The cluster, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    core: Arc<Core>,
}

impl Cluster {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Errors unless the caller may see the members.
    pub fn check_read(&self, operation: &Operation) -> Result<()> {
        self.permit::<ReadCluster>(operation).map(|_| ())
    }

    /// Errors unless the caller may transfer the writer.
    pub fn check_transfer(&self, operation: &Operation) -> Result<()> {
        self.permit::<TransferWriter>(operation).map(|_| ())
    }

    /// Errors unless the caller may pause the cluster.
    pub fn check_pause(&self, operation: &Operation) -> Result<()> {
        self.permit::<PauseCluster>(operation).map(|_| ())
    }

    /// Adds an entry about a transfer that is about to begin to the change log.
    #[boxed]
    pub async fn log_transfer(
        &self,
        operation: &Operation,
        successor: Uuid,
        name: &str,
    ) -> Result<()> {
        self.log::<TransferWriter>(operation, ChangeAction::TransferWriter, (successor, name)).await
    }

    /// Adds an entry about a pause that is about to begin to the change log.
    #[boxed]
    pub async fn log_pause(&self, operation: &Operation, writer: Uuid, name: &str) -> Result<()> {
        self.log::<PauseCluster>(operation, ChangeAction::PauseCluster, (writer, name)).await
    }

    async fn log<A: Action>(
        &self,
        operation: &Operation,
        action: ChangeAction,
        (member, name): (Uuid, &str),
    ) -> Result<()> {
        let name = name.to_owned();
        let logging = move |cluster: Self, operation: Operation| async move {
            let permit = cluster.permit::<A>(&operation)?;
            cluster.write_entry(&operation, &permit, action, (member, &name)).await
        };
        self.core.mutate(self, operation, logging).await
    }

    async fn write_entry<A: Action>(
        &self,
        operation: &Operation,
        permit: &Permit<A>,
        action: ChangeAction,
        (member, name): (Uuid, &str),
    ) -> Result<()> {
        let write = Write::of_records(action, permit);
        let written = self.core.pipeline().commit(write, |_| async move {
            let entry = Entry {
                action,
                warehouse: Uuid::nil(),
                subject: member,
                name: &name,
                versions: (None, None),
                decision: permit.decision(),
                resource: None,
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), &())?))
        });
        written.await
    }

    fn permit<A: Action>(&self, operation: &Operation) -> Result<Permit<A>> {
        self.core.access.permit_catalog(operation)
    }
}
