//! The permit to load a table or view, with the privileges on its files.

use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use super::attributes::EvaluatedVersion;
use super::lookup::{LOOKUP_ATTEMPTS_MAX, tabular_record};
use super::permits::WithPermit;
use super::tabular::target::Target;
use super::{Error, Operation, Result};
use crate::access::Access;
use slateberg_authz::action::{Action, Load, ReadData, WriteData};
use slateberg_authz::authority::PrincipalDecider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_objects::vend::files::Privileges;
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;
use slateberg_telemetry::traces::TARGET;

/// The actions on files.
pub(super) const FILE_ACTIONS: [&str; 2] = [ReadData::NAME, WriteData::NAME];
/// A table or view that the caller may load.
pub(crate) struct Loadable {
    /// The permit.
    pub(crate) permit: Permit<Load>,
    /// The caller's privileges on the files. Empty if the request does not need them.
    pub(crate) privileges: Privileges,
    /// The record that the decision was based on.
    pub(crate) record: Arc<TabularRecord>,
    /// Span of the lookup.
    pub(crate) span: Span,
}

impl Access {
    /// Returns the permit to load a table or view, the privileges on its files if `with_files`, and
    /// the record. All decisions are based on this record. If the record changes in the meantime,
    /// or another table takes the name, the lookup is repeated.
    pub(crate) async fn loadable(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
        with_files: bool,
    ) -> Result<Loadable> {
        let Target { warehouse, kind, ident } = target;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let (permit, privileges, basis) =
                self.permit_load(store, operation, target, with_files).await?;
            let span = debug_span!(target: TARGET, "lookup", slateberg.cache = Empty);
            let record = tabular_record(store, warehouse.id, kind, ident);
            let record = record.instrument(span.clone()).await?;
            if basis.is_of(&record) {
                return Ok(Loadable { permit, privileges, record, span });
            }
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident.to_string(),
        ))
    }

    /// Returns the permit to load a table or view, the privileges on its files, and the state that
    /// the decisions were based on. Evaluates the privileges only if `with_files`.
    async fn permit_load(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
        with_files: bool,
    ) -> Result<(Permit<Load>, Privileges, EvaluatedVersion)> {
        if !with_files {
            let WithPermit { permit, basis, .. } =
                self.permit_tabular_and(store, operation, target, &[], |_, _| ()).await?;
            return Ok((permit, Privileges::NONE, basis));
        }
        let privileges =
            |asking: &PrincipalDecider<'_>, resource: &Resource| self.privileges(asking, resource);
        let WithPermit { permit, besides, basis } =
            self.permit_tabular_and(store, operation, target, &FILE_ACTIONS, privileges).await?;
        Ok((permit, besides.unwrap_or_else(|| self.all_privileges()), basis))
    }

    /// Returns the privileges that policies grant on the files of a table.
    pub(super) fn privileges(
        &self,
        asking: &PrincipalDecider<'_>,
        resource: &Resource,
    ) -> Privileges {
        let (read, write) = (asking.may::<ReadData>(resource), asking.may::<WriteData>(resource));
        Privileges { read, write, delete: write && self.environment.deletes_files() }
    }

    /// Returns the privileges on the files of a table on a server that evaluates no policies.
    pub(super) fn all_privileges(&self) -> Privileges {
        Privileges { read: true, write: true, delete: self.environment.deletes_files() }
    }
}
