//! Loads tables and views.

use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::delegation::DelegatedAccess;
use super::read_access::{EnforcedRules, ReadAccess, ReadVersion, Readable};
use super::state::TabularState;
use super::target::Target;
use crate::attributes::EvaluatedVersion;
use crate::listings::Contents;
use crate::loadable::Loadable;
use crate::lookup::{self, LOOKUP_ATTEMPTS_MAX, text_of};
use crate::permits::WithPermit;
use crate::tabular::Tabulars;
use crate::usage::counters::Use;
use crate::version_cache::CachedVersion;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::{Action, Load};
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::warehouse::Delegation;
use slateberg_store::keys::{LabelsKey, PublicationKey};
use slateberg_store::read::StoreRead;

/// The result of a load.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once for each load")]
pub enum Loaded<K> {
    /// The value that the caller's function `known` returned for this version.
    Known(K),
    /// The state for this principal, and the access to the files, if it was requested.
    State(Readable, Option<DelegatedAccess>),
}

impl Tabulars {
    /// Returns the durable state of a table or view. Waits until its metadata file is in the
    /// warehouse. If `known` returns a value for the current version, such as a cached response,
    /// the metadata is not read. If the client requests delegation (`ways`), the result includes
    /// the access to the table's files. The client may also get no access.
    pub(crate) async fn load<K>(
        &self,
        operation: &Operation,
        target: Target<'_>,
        ways: Option<&[Delegation]>,
        known: impl Fn(ReadVersion, Option<&DelegatedAccess>) -> Option<K>,
    ) -> Result<Loaded<K>> {
        let Target { kind, ident, .. } = target;
        self.core.environment.check_findable(kind, ident)?;
        let store = self.core.store().durable();
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let Loadable { rules, rights, record, span } =
                self.core.access.loadable(&store, operation, target, ways.is_some()).await?;
            if kind == TabularKind::Table && self.begins_hold(operation, record.id).await {
                continue;
            }
            let (id, version) = (record.id, record.version);
            let key = PublicationKey { id, version };
            self.core.pipeline().pending.wait(key, self.core.settings().commit_deadline()).await?;
            let labels = store.get_shared(&LabelsKey(id)).await?;
            let seen = ReadVersion {
                id,
                version,
                rules: rules.as_ref().map(EnforcedRules::key),
                labels: labels.as_ref().map(|labels| labels.revision),
            };
            let files = match ways {
                Some(ways) => self.delegations.delegated(target, &record, rights, ways).await?,
                None => None,
            };
            if let Some(known) = known(seen, files.as_ref()) {
                span.record("slateberg.cache", "answer");
                self.core.count_use(id, Use::Load, operation);
                return Ok(Loaded::Known(known));
            }
            let cached = match self.core.pipeline().versions.get((id, version)) {
                Some(cached) => {
                    span.record("slateberg.cache", "version");
                    cached
                }
                None => {
                    span.record("slateberg.cache", "none");
                    let Some(text) = text_of(&store, &record).await? else { continue };
                    let cached = CachedVersion { text, parsed: None };
                    self.core.pipeline().versions.insert((id, version), cached.clone());
                    cached
                }
            };
            let access = match &rules {
                None => ReadAccess::Whole,
                Some(rules) => self.core.restricted(rules, ident, (id, version), &cached)?,
            };
            self.core.count_use(id, Use::Load, operation);
            let state = TabularState::new(&record, cached.text);
            return Ok(Loaded::State(Readable { state, access, labels }, files));
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident.to_string(),
        ))
    }

    /// Begins the turn of a principal whose commit has failed because of appends. Returns whether
    /// the table must be read again: this function then has waited for the commits that were
    /// already in progress, because they would make the loaded state stale.
    async fn begins_hold(&self, operation: &Operation, id: Uuid) -> bool {
        if !self.turns.begins_hold(id, operation.principal.id(), Instant::now()) {
            return false;
        }
        let lanes = self.core.pipeline().lanes.enter(vec![id]);
        // If these commits take longer than the hold, the load continues without the hold.
        let _passed = timeout(self.core.settings().append_rebase_turn(), lanes).await;
        self.turns.settle(id);
        true
    }

    /// Returns the names of the tables or views in a namespace.
    pub(crate) async fn list_tabulars(
        &self,
        cx: &RequestContext,
        kind: TabularKind,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        let contents = Contents { parent: Some(namespace), kind: kind.into() };
        self.listings.list_contents::<Load>(cx, contents, page).await
    }

    /// Returns the id of a table or view. Errors if it does not exist, or if the caller may not do
    /// `A` on it.
    pub(crate) async fn existing<A: Action>(
        &self,
        operation: &Operation,
        target: Target<'_>,
    ) -> Result<Uuid> {
        let Target { warehouse, kind, ident } = target;
        self.core.environment.check_findable(kind, ident)?;
        let store = self.core.store().durable();
        let permitted: WithPermit<A, ()> = self
            .core
            .access
            .permit_tabular_and(&store, operation, target, &[], |_, _, _| ())
            .await?;
        // If the decision was based on attributes, the read of the attributes has already
        // determined whether the table exists. A new lookup could find another table that has got
        // the name since then. The decision does not apply to that table.
        let found = match permitted.basis {
            EvaluatedVersion::Version((id, _)) => Some(id),
            EvaluatedVersion::Absence => None,
            EvaluatedVersion::Names => {
                lookup::tabular_id(&store, warehouse.id, kind, ident).await?
            }
        };
        found.ok_or_else(|| Error::no_such(kind, ident))
    }
}
