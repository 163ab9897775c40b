//! Gives clients access to the files of a table: with vended credentials, with signatures (remote
//! signing), or with the client's own credentials.
//!
//! Policies determine whether a principal may read and write files (`ReadData`, `WriteData`).
//! Principals with a read restriction get neither credentials nor signatures. There are two
//! exceptions ([`Enforcement`]): trusted engines may read, and other principals may get signatures
//! to read those files that the row filter permits. Credentials and signatures permit no more than
//! the policies do. They are valid only for the table's own locations. They are not valid for a
//! location that also contains files of other tables, or for a whole warehouse.

use std::sync::Arc;

use tracing::instrument;
use uuid::Uuid;

pub use super::delegated_access::{AccessMode, DelegatedAccess};
use super::metadata::metadata_of;
use super::read_access::{Enforcement, FileRights, ReadAccess, Readable};
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
use slateberg_objects::sign::request::{Allowed, SignError, SignRequest};
use slateberg_objects::sign::{CheckedRequest, Signed};
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

/// The files of a table that a principal may access.
struct AccessibleFiles {
    files: Files,
    prefix: String,
    vendor: Arc<Vendor>,
    /// Whether the principal gets only signatures, and only for files that a row filter permits.
    permitted_only: bool,
}

/// A request to the object store that the caller may send, if it reads a file that the row filter
/// of the caller permits.
pub(crate) struct Signable {
    /// The checked request.
    pub(crate) request: CheckedRequest,
    /// Whether the caller may read only files that a row filter permits.
    pub(crate) permitted_only: bool,
    files: Files,
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
    #[error(
        "the principal may read only those that its row filter permits, so it gets signatures, and no credentials"
    )]
    OnlySignatures,
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

    /// Returns the access to a loaded table's files with these rights, in one of the `wanted`
    /// modes. `None` if the client has no access through the catalog.
    #[instrument(target = TARGET, name = "delegate", level = "debug", skip_all)]
    pub(crate) async fn delegated(
        &self,
        target: Target<'_>,
        record: &TabularRecord,
        rights: FileRights,
        wanted: &[Delegation],
    ) -> Result<Option<DelegatedAccess>> {
        let Target { warehouse, ident, .. } = target;
        let found = self.reachable_at(record.id, warehouse, rights, locations_of(record)).await?;
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
            Access::Granted(reachable) if reachable.permitted_only => {
                Err(forbidden(ident, Denial::OnlySignatures))
            }
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

    /// Checks that a request to the object store is for files of the table, and that the caller has
    /// the necessary privileges. If the caller may read only files that a row filter permits, this
    /// still has to be checked.
    pub(crate) async fn signable(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        staged: Option<Uuid>,
        request: &SignRequest,
    ) -> Result<Signable> {
        let reachable = self.reachable_by(cx, ident, staged).await?;
        let AccessibleFiles { files, vendor, permitted_only, .. } = match reachable {
            Access::Granted(reachable) => reachable,
            Access::Denied(reason) => return Err(forbidden(ident, reason)),
        };
        let signs = vendor.delegation().contains(&Delegation::RemoteSigning);
        let Some(signer) = vendor.signer().filter(|_| signs) else {
            let why = "the warehouse signs no requests";
            return Err(Error::Invalid(format!("Cannot sign for {}: {why}", brief(ident))));
        };
        let allowed = Allowed { locations: &files.locations, privileges: files.privileges };
        let checked = signer.check(request, &allowed);
        let request = checked.map_err(|error| self.not_signed(error))?;
        Ok(Signable { request, permitted_only, files, vendor })
    }

    /// Signs a request.
    pub(crate) async fn sign(&self, cx: &RequestContext, signable: Signable) -> Result<Signed> {
        let Signable { request, files, vendor, .. } = signable;
        let vended = match vendor.vends() {
            true => Some(self.vended(&cx.warehouse, &vendor, files).await?),
            false => None,
        };
        let vended = vended.as_deref().map(|credentials| &*credentials.vended.config);
        let signer =
            vendor.signer().ok_or_else(|| Error::internal("the warehouse signs nothing"))?;
        let signed = signer.sign(&request, vended, self.core.now_ms()).await;
        signed.map_err(|error| self.not_signed(error))
    }

    fn not_signed(&self, error: SignError) -> Error {
        match error {
            SignError::Invalid(message) => Error::Invalid(message),
            SignError::NotAllowed(message) => Error::Forbidden(message),
            SignError::Unavailable(cause) => self.not_vended(&cause),
        }
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
        let Loadable { rules, rights, record, .. } =
            self.core.access.loadable(&store, &cx.operation, target, true).await?;
        if rules.is_some_and(|rules| rules.enforcement == Enforcement::NoFiles) {
            return Ok(Access::Denied(Denial::Restricted));
        }
        self.reachable_at(record.id, &cx.warehouse, rights, locations_of(&record)).await
    }

    /// Returns the files of a staged table that the caller may access.
    async fn reachable_staged(&self, cx: &RequestContext, staged: &StagedTable) -> Result<Access> {
        let target =
            Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident: &staged.ident };
        let privileges: Privileges = match self.core.access.ask(&cx.operation)? {
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
        let locations = [&staged.location].into_iter();
        self.reachable_at(Uuid::nil(), &cx.warehouse, privileges.into(), locations).await
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

    /// Returns the files at these locations that a principal with these rights may access. The
    /// first location is the `location` of the table, the others are from its properties.
    async fn reachable_at(
        &self,
        id: Uuid,
        warehouse: &Warehouse,
        FileRights { privileges, permitted_only }: FileRights,
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
        Ok(Access::Granted(AccessibleFiles { files, prefix, vendor, permitted_only }))
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
        let AccessibleFiles { files, prefix, vendor, permitted_only } = reachable;
        let (id, refresh_key) = (files.table, vendor.refresh_key());
        let store = Arc::clone(vendor.client_config());
        let mut modes = vendor.delegation();
        if permitted_only {
            let is_signing = modes.contains(&Delegation::RemoteSigning);
            modes = if is_signing { &[Delegation::RemoteSigning] } else { &[] };
        }
        let mode = match first_common(modes, wanted) {
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
