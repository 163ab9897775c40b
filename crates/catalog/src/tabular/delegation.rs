//! Gives clients access to the files of a table: with vended credentials, with signatures (remote
//! signing), or with the client's own credentials.
//!
//! Policies determine whether a principal may read and write files (`ReadData`, `WriteData`).
//! Principals with a read restriction get neither credentials nor signatures, except that trusted
//! engines may read ([`Enforcement`]). Credentials and signatures permit no more than the policies
//! do. Credentials and signatures are valid only for the table's own locations. They are not valid
//! for a location that also contains files of other tables, or for a whole warehouse.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::instrument;
use uuid::Uuid;

use super::metadata::metadata_of;
use super::read_access::{Enforcement, ReadAccess, Readable};
use super::target::Target;
use crate::core::Core;
use crate::loadable::{FILE_ACTIONS, Loadable};
use crate::location_index::{is_alone, is_generated_for, locations_of};
use crate::{Error, RequestContext, Result};
use slateberg_authz::authority::Decider;
use slateberg_base::boxed;
use slateberg_base::error_chain::chain;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::{Delegation, Warehouse};
use slateberg_objects::location::Location;
use slateberg_objects::sign::Signed;
use slateberg_objects::sign::request::{Allowed, SignError, SignRequest};
use slateberg_objects::vend::Vendor;
use slateberg_objects::vend::cache::{Credentials, VendCache, VendKey};
use slateberg_objects::vend::files::{Files, Privileges};
use slateberg_store::records::TabularRecord;
use slateberg_telemetry::traces::TARGET;

/// Maximum number of staged tables that the server remembers at the same time. Clients have access
/// to the files of a staged table before the commit that creates the table.
const STAGED_MAX: usize = 10_000;
/// Time after which the access to the files of a staged table ends, in milliseconds.
const STAGED_MS: i64 = 60 * 60 * 1000;

/// A client's access to a table's files.
#[derive(Debug, Clone)]
pub struct DelegatedAccess {
    /// The table.
    pub id: Uuid,
    /// The location of the table, which is the prefix of the locations of its files.
    pub prefix: String,
    /// Client properties of the object store, without secrets.
    pub store: Arc<BTreeMap<String, String>>,
    /// The means of access.
    pub mode: AccessMode,
    /// For a staged table, the id with which the client requests new credentials or signatures.
    pub staged: Option<Uuid>,
    /// Name of the client property that contains the path for requests of new credentials.
    pub refresh_key: &'static str,
}

/// A client's means of access to files.
#[derive(Debug, Clone)]
pub enum AccessMode {
    /// Vended credentials.
    Credentials(Arc<Credentials>),
    /// Signatures from the catalog.
    Signatures,
    /// The client's own credentials.
    Own,
}

impl DelegatedAccess {
    /// Whether a client would receive the same response for `self` and `other`. Credentials are
    /// compared by their generation.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_way = match (&self.mode, &other.mode) {
            (AccessMode::Credentials(one), AccessMode::Credentials(other)) => {
                one.generation == other.generation
            }
            (AccessMode::Signatures, AccessMode::Signatures)
            | (AccessMode::Own, AccessMode::Own) => true,
            _ => false,
        };
        same_way
            && self.id == other.id
            && self.prefix == other.prefix
            && self.store == other.store
            && self.staged == other.staged
            && self.refresh_key == other.refresh_key
    }
}

/// The files of a table that a principal may access.
struct AccessibleFiles {
    files: Files,
    prefix: String,
    vendor: Arc<Vendor>,
}

/// A staged table.
#[derive(Clone)]
pub(super) struct StagedTable {
    warehouse: Uuid,
    ident: TabularIdent,
    owner: Option<String>,
    location: String,
    until_ms: i64,
}

/// Staged tables, by the id that the client got.
pub(super) struct StagedTables(quick_cache::sync::Cache<Uuid, StagedTable>);

impl Default for StagedTables {
    fn default() -> Self {
        Self(quick_cache::sync::Cache::new(STAGED_MAX))
    }
}

/// The files of a table that a principal may access, or the reason why it may access none.
enum Access {
    Granted(AccessibleFiles),
    Denied(Denial),
}

/// Reason why a principal has no access to files. The message is for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Denial {
    #[error("the warehouse does not delegate access to files")]
    NotDelegated,
    #[error("the principal has read restrictions on the table, so it gets no access to the files")]
    Restricted,
    #[error("the principal may neither read nor write them")]
    NoRights,
    #[error("the location of the table also contains files of other tables or views")]
    SharedLocation,
}

/// Access of clients to the files of tables. Cheap to clone.
#[derive(Clone)]
pub struct Delegations {
    core: Arc<Core>,
    vended: Arc<VendCache>,
    staged: Arc<StagedTables>,
}

impl Delegations {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let vended = Arc::new(VendCache::new(core.settings().vended_credentials_max));
        Self { core: Arc::clone(core), vended, staged: Arc::default() }
    }

    /// Returns the access to a loaded table's files with these privileges, in one of the `wanted`
    /// modes. `None` if the client has no access through the catalog.
    #[instrument(target = TARGET, name = "delegate", level = "debug", skip_all)]
    pub(crate) async fn delegated(
        &self,
        target: Target<'_>,
        record: &TabularRecord,
        privileges: Privileges,
        wanted: &[Delegation],
    ) -> Result<Option<DelegatedAccess>> {
        let Target { warehouse, ident, .. } = target;
        let found =
            self.reachable_at(record.id, warehouse, privileges, locations_of(record)).await?;
        self.delegate_if_any(warehouse, ident, found, wanted).await
    }

    /// Returns the access to a table's files for a client that requests credentials. `None` if the
    /// warehouse does not delegate access.
    #[boxed]
    pub async fn credentials(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        staged: Option<Uuid>,
    ) -> Result<Option<DelegatedAccess>> {
        match self.reachable_by(cx, ident, staged).await? {
            Access::Granted(reachable) => {
                let wanted = [Delegation::VendedCredentials];
                self.tell(&cx.warehouse, reachable, &wanted, staged).await.map(Some)
            }
            Access::Denied(Denial::NotDelegated) => Ok(None),
            Access::Denied(reason) => Err(forbidden(ident, reason)),
        }
    }

    /// Returns the access to the files of a table that was just created, registered or staged. The
    /// table exists already, so a failure is only logged and does not change the response.
    #[boxed]
    pub async fn delegated_to_creator(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        made: &Readable,
        wanted: &[Delegation],
    ) -> Option<DelegatedAccess> {
        let delegated = async {
            if made.access != ReadAccess::Whole {
                return Ok(None);
            }
            if made.state.metadata_location.is_some() {
                let found = self.reachable(cx, ident).await?;
                return self.delegate_if_any(&cx.warehouse, ident, found, wanted).await;
            }
            let metadata: TableMetadata = metadata_of(made.state.id, &made.state.text)?;
            let staged = StagedTable {
                warehouse: cx.warehouse.id,
                ident: ident.clone(),
                owner: cx.operation.owner(),
                location: metadata.location,
                until_ms: self.core.now_ms() + STAGED_MS,
            };
            let name = self.core.ids().random();
            match self.reachable_staged(cx, &staged).await? {
                Access::Denied(_) => Ok(None),
                Access::Granted(reachable) => {
                    self.staged.0.insert(name, staged);
                    self.tell(&cx.warehouse, reachable, wanted, Some(name)).await.map(Some)
                }
            }
        };
        delegated.await.unwrap_or_else(|error: Error| {
            tracing::warn!(table = %ident, error = chain(&error), "cannot delegate access to a new table: the response has no credentials");
            None
        })
    }

    /// Signs a request to the object store, if the request is for files of the table and the caller
    /// has the necessary privileges.
    #[boxed]
    pub async fn sign(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        staged: Option<Uuid>,
        request: &SignRequest,
    ) -> Result<Signed> {
        let reachable = self.reachable_by(cx, ident, staged).await?;
        let AccessibleFiles { files, vendor, .. } = match reachable {
            Access::Granted(reachable) => reachable,
            Access::Denied(reason) => return Err(forbidden(ident, reason)),
        };
        let signs = vendor.delegation().contains(&Delegation::RemoteSigning);
        let Some(signer) = vendor.signer().filter(|_| signs) else {
            let why = "the warehouse signs no requests";
            return Err(Error::Invalid(format!("Cannot sign for {}: {why}", brief(ident))));
        };
        let allowed = Allowed { locations: &files.locations, privileges: files.privileges };
        let delegated = |error: SignError| match error {
            SignError::Invalid(message) => Error::Invalid(message),
            SignError::NotAllowed(message) => Error::Forbidden(message),
            SignError::Unavailable(cause) => self.not_vended(&cause),
        };
        let checked = signer.check(request, &allowed).map_err(delegated)?;
        let vended = match vendor.vends() {
            true => Some(self.vended(&cx.warehouse, &vendor, files).await?),
            false => None,
        };
        let vended = vended.as_deref().map(|credentials| &*credentials.vended.config);
        signer.sign(&checked, vended, self.core.now_ms()).await.map_err(delegated)
    }

    /// Returns cached or new credentials for files.
    async fn vended(
        &self,
        warehouse: &Warehouse,
        vendor: &Vendor,
        files: Files,
    ) -> Result<Arc<Credentials>> {
        let key = VendKey { warehouse: warehouse.id, version: warehouse.version, files };
        let now_ms = self.core.now_ms();
        let vended = self.vended.get(&key, now_ms, vendor.vend(&key.files, now_ms)).await;
        vended.map_err(|error| self.not_vended(&error))
    }

    /// Returns the files of a table that the caller may access.
    async fn reachable(&self, cx: &RequestContext, ident: &TabularIdent) -> Result<Access> {
        let kind = TabularKind::Table;
        self.core.environment.check_findable(kind, ident)?;
        let store = self.core.store().durable();
        let target = Target { warehouse: &cx.warehouse, kind, ident };
        let Loadable { rules, privileges, record, .. } =
            self.core.access.loadable(&store, &cx.operation, target, true).await?;
        if rules.is_some_and(|rules| rules.enforcement == Enforcement::NoFiles) {
            return Ok(Access::Denied(Denial::Restricted));
        }
        self.reachable_at(record.id, &cx.warehouse, privileges, locations_of(&record)).await
    }

    /// Returns the files of a staged table that the caller may access.
    async fn reachable_staged(&self, cx: &RequestContext, staged: &StagedTable) -> Result<Access> {
        let target =
            Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident: &staged.ident };
        let privileges = match self.core.access.ask(&cx.operation)? {
            Decider::Unrestricted(_) => self.core.access.all_privileges(),
            Decider::Policies(asking) => {
                let wanted = asking.wants_attributes(&FILE_ACTIONS);
                let store = self.core.store().durable();
                let (resource, _) =
                    self.core.access.tabular_resource(&store, wanted, target).await?;
                self.core.access.privileges(&asking, &resource)
            }
        };
        // No table has the nil id, so every table at this location counts as another table.
        self.reachable_at(Uuid::nil(), &cx.warehouse, privileges, [&staged.location].into_iter())
            .await
    }

    /// Returns the files that the caller may access in the table `ident`, or in the staged table
    /// with the id `staged`. After the commit of a staged table, the table is treated like any
    /// other table.
    async fn reachable_by(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        staged: Option<Uuid>,
    ) -> Result<Access> {
        let found = staged.and_then(|name| self.staged.0.get(&name)).filter(|staged| {
            staged.warehouse == cx.warehouse.id
                && staged.ident == *ident
                && staged.owner == cx.operation.owner()
                && self.core.now_ms() < staged.until_ms
        });
        if let Some(staged) = found {
            match self.reachable_staged(cx, &staged).await? {
                // A commit may have created the staged table, which now occupies the location.
                Access::Denied(Denial::SharedLocation) => {}
                reachable => return Ok(reachable),
            }
        }
        self.reachable(cx, ident).await
    }

    /// Returns the files at these locations that a principal with these privileges may access. The
    /// first location is the `location` of the table, the others are from its properties.
    async fn reachable_at(
        &self,
        id: Uuid,
        warehouse: &Warehouse,
        privileges: Privileges,
        mut locations: impl Iterator<Item = &String> + Send,
    ) -> Result<Access> {
        let objects = self.core.objects();
        let parsed = |text: &String| Location::parse(text).ok();
        let Some((prefix, location)) =
            locations.next().and_then(|text| Some((text, parsed(text)?)))
        else {
            return Ok(Access::Denied(Denial::NotDelegated));
        };
        let Some(vendor) = objects.vendor(warehouse.id, &location) else {
            return Ok(Access::Denied(Denial::NotDelegated));
        };
        if !privileges.read && !privileges.write {
            return Ok(Access::Denied(Denial::NoRights));
        }
        let store = self.core.store().latest();
        if !is_generated_for(&location, id) && !is_alone(&store, id, &location).await? {
            return Ok(Access::Denied(Denial::SharedLocation));
        }
        let mut all = vec![location];
        for other in locations.filter_map(parsed) {
            // Paths from properties may also contain files of other tables. Such paths are skipped
            // without an error.
            let usable = other.authority() == all[0].authority()
                && objects.vendor(warehouse.id, &other).is_some_and(|it| Arc::ptr_eq(it, vendor));
            if usable && is_alone(&store, id, &other).await? {
                all.push(other);
            }
        }
        let files = Files { table: id, locations: all, privileges };
        let (prefix, vendor) = (prefix.clone(), Arc::clone(vendor));
        Ok(Access::Granted(AccessibleFiles { files, prefix, vendor }))
    }

    /// Returns the access for a client that requests one of the `wanted` modes. `None` if the
    /// client has no access through the catalog.
    async fn delegate_if_any(
        &self,
        warehouse: &Warehouse,
        ident: &TabularIdent,
        found: Access,
        wanted: &[Delegation],
    ) -> Result<Option<DelegatedAccess>> {
        match found {
            Access::Granted(reachable) => {
                self.tell(warehouse, reachable, wanted, None).await.map(Some)
            }
            Access::Denied(reason @ Denial::SharedLocation) => {
                tracing::warn!(table = %ident, %reason, "no access to files is delegated");
                Ok(None)
            }
            Access::Denied(_) => Ok(None),
        }
    }

    /// Returns the access for a client that requests one of the `wanted` modes.
    async fn tell(
        &self,
        warehouse: &Warehouse,
        reachable: AccessibleFiles,
        wanted: &[Delegation],
        staged: Option<Uuid>,
    ) -> Result<DelegatedAccess> {
        let AccessibleFiles { files, prefix, vendor } = reachable;
        let (id, refresh_key) = (files.table, vendor.refresh_key());
        let store = Arc::clone(vendor.client_config());
        let mode = match first_common(vendor.delegation(), wanted) {
            None => AccessMode::Own,
            Some(Delegation::RemoteSigning) => AccessMode::Signatures,
            Some(Delegation::VendedCredentials) => {
                AccessMode::Credentials(self.vended(warehouse, &vendor, files).await?)
            }
        };
        Ok(DelegatedAccess { id, prefix, store, mode, staged, refresh_key })
    }

    fn not_vended(&self, cause: &(dyn std::error::Error + 'static)) -> Error {
        let reason = self.core.objects().redacted(&chain(cause));
        Error::unavailable("Access to the table's files cannot be delegated at present", reason)
    }
}

/// Returns the first mode of a warehouse that the client supports. If the warehouse offers no
/// credentials, a client that requests only credentials gets signatures, because signatures
/// disclose no secrets.
fn first_common(modes: &[Delegation], wanted: &[Delegation]) -> Option<Delegation> {
    let both = modes.iter().find(|mode| wanted.contains(mode));
    let signs = || modes.iter().find(|mode| **mode == Delegation::RemoteSigning);
    let falls_back = wanted.contains(&Delegation::VendedCredentials);
    both.or_else(|| signs().filter(|_| falls_back)).copied()
}

fn forbidden(ident: &TabularIdent, reason: Denial) -> Error {
    Error::Forbidden(format!("Not allowed: the files of {}: {reason}", brief(ident)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_common_delegation_mode_is_used() {
        use Delegation::{RemoteSigning as Signing, VendedCredentials as Vended};
        assert_eq!(first_common(&[Vended, Signing], &[Signing, Vended]), Some(Vended));
        assert_eq!(first_common(&[Signing, Vended], &[Vended]), Some(Vended));
        assert_eq!(first_common(&[Signing], &[Vended]), Some(Signing), "there is nothing else");
        assert_eq!(first_common(&[Vended], &[Signing]), None, "credentials were not requested");
        assert_eq!(first_common(&[Vended, Signing], &[]), None);
    }
}
