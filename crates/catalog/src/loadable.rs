//! The check that a caller may load a table or view, with its read restrictions and its privileges
//! on the files.

use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use super::attributes::EvaluatedVersion;
use super::lookup::{LOOKUP_ATTEMPTS_MAX, tabular_record};
use super::permits::WithPermit;
use super::tabular::read_access::{ENFORCEMENT_ACTIONS, EnforcedRules, FileRights};
use super::tabular::target::Target;
use super::{Error, Operation, Result};
use crate::access::Access;
use slateberg_authz::action::{
    Action, Load, ReadData, ReadPermittedFiles, ReadRestricted, WriteData,
};
use slateberg_authz::authority::PrincipalDecider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_objects::vend::files::Privileges;
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;
use slateberg_telemetry::traces::TARGET;

/// The actions on files.
pub(super) const FILE_ACTIONS: [&str; 4] =
    [ReadData::NAME, WriteData::NAME, ReadRestricted::NAME, ReadPermittedFiles::NAME];

/// A table or view that the caller may load.
pub(crate) struct Loadable {
    /// The caller's read restrictions. `None` if the caller may read everything.
    pub(crate) rules: Option<EnforcedRules>,
    /// The caller's rights on the files. Empty if the request does not need them, or if the read
    /// restrictions exclude access to files.
    pub(crate) rights: FileRights,
    /// The record that the decision was based on.
    pub(crate) record: Arc<TabularRecord>,
    /// Span of the lookup.
    pub(crate) span: Span,
}

impl Access {
    /// Checks that the caller may load a table or view. Returns the caller's read restrictions, the
    /// privileges on the files if `with_files`, and the record. All decisions are based on this
    /// record. If the record changes in the meantime, or another table takes the name, the lookup is
    /// repeated.
    pub(crate) async fn loadable(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
        with_files: bool,
    ) -> Result<Loadable> {
        let Target { warehouse, kind, ident } = target;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let (rules, rights, basis) =
                self.permit_load(store, operation, target, with_files).await?;
            let span = debug_span!(target: TARGET, "lookup", slateberg.cache = Empty);
            let record = tabular_record(store, warehouse.id, kind, ident);
            let record = record.instrument(span.clone()).await?;
            if basis.is_of(&record) {
                return Ok(Loadable { rules, rights, record, span });
            }
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident.to_string(),
        ))
    }

    /// Checks that the caller may load a table or view. Returns the caller's read restrictions, the
    /// rights on the files, and the state that the decisions were based on. Evaluates the rights
    /// only if `with_files`.
    async fn permit_load(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
        with_files: bool,
    ) -> Result<(Option<EnforcedRules>, FileRights, EvaluatedVersion)> {
        let evaluate =
            |asking: &PrincipalDecider<'_>, resource: &Resource, permit: &Permit<Load>| {
                let rules = EnforcedRules::of(asking, resource, permit);
                let rights = match (with_files, &rules) {
                    (false, _) => Privileges::NONE.into(),
                    (true, None) => self.privileges(asking, resource).into(),
                    (true, Some(rules)) => rules.limit(self.privileges(asking, resource)),
                };
                (rules, rights)
            };
        let actions = if with_files { &FILE_ACTIONS[..] } else { &ENFORCEMENT_ACTIONS };
        let WithPermit { besides, basis, .. } =
            self.permit_tabular_and::<Load, _>(store, operation, target, actions, evaluate).await?;
        let unlimited = || if with_files { self.all_privileges() } else { Privileges::NONE };
        let (rules, rights) = besides.unwrap_or_else(|| (None, unlimited().into()));
        Ok((rules, rights, basis))
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
