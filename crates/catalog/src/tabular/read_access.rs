//! Read restrictions: the part of a table that policies let a principal read.
//!
//! The catalog does not read rows. It returns the restrictions, and clients apply them. A client
//! with direct access to the files could bypass the restrictions. So [`Enforcement`] determines
//! whether a principal with restrictions gets scan plans, credentials and signatures.

use std::sync::Arc;

use uuid::Uuid;

use super::metadata::metadata_of;
use super::state::TabularState;
use crate::attributes::{attributes, namespace_resource};
use crate::core::Core;
use crate::version_cache::{CachedVersion, Version};
use crate::{Error, RequestContext, Result};
use slateberg_authz::action::{Action, Load, ReadPermittedFiles, ReadRestricted};
use slateberg_authz::authority::{Decider, PrincipalDecider};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Node, Resource};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::read_restrictions::{Problem, ReadRestrictions, ReadRules, RulesKey};
use slateberg_model::schema::Schema;
use slateberg_model::table::TableMetadata;
use slateberg_objects::vend::files::Privileges;
use slateberg_store::keys::TabularKey;
use slateberg_store::labels::LabelsRecord;
use slateberg_store::read::StoreRead;

/// The actions that determine the enforcement of read restrictions.
pub(crate) const ENFORCEMENT_ACTIONS: [&str; 2] = [ReadRestricted::NAME, ReadPermittedFiles::NAME];

/// A version of a table or view in the form in which a principal may read it. It identifies the
/// content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadVersion {
    /// The id of the table or view.
    pub id: Uuid,
    /// The version of the record.
    pub version: u64,
    /// The key of the read restrictions, and their enforcement. `None` if there are none.
    pub rules: Option<(RulesKey, Enforcement)>,
    /// The revision of the labels. `None` if there are none.
    pub labels: Option<Uuid>,
}

/// The enforcement of the read restrictions of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// The principal gets no scan plans, and no access to files.
    NoFiles,
    /// The principal may read those files in which statistics prove that the row filter permits
    /// every row (action `ReadPermittedFiles`). It gets scan plans with these files, and signatures
    /// to read them, but no credentials.
    PermittedFiles,
    /// The principal is an engine that applies the restrictions (action `ReadRestricted`). It gets
    /// scan plans, and may read the files.
    TrustedEngine,
}

/// The rights of a principal on the files of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRights {
    pub(crate) privileges: Privileges,
    /// Whether the privileges are valid only for files that a row filter permits. The principal
    /// then gets a signature for each of these files, and no credentials.
    pub(crate) permitted_only: bool,
}

impl From<Privileges> for FileRights {
    fn from(privileges: Privileges) -> Self {
        Self { privileges, permitted_only: false }
    }
}

/// The read rules of a principal, and their enforcement.
#[derive(Debug, Clone)]
pub(crate) struct EnforcedRules {
    pub(crate) rules: Arc<ReadRules>,
    pub(crate) enforcement: Enforcement,
}

impl EnforcedRules {
    /// Returns the rules of a principal for a table that it may load. `None` if it may read
    /// everything.
    pub(crate) fn of(
        asking: &PrincipalDecider<'_>,
        resource: &Resource,
        permit: &Permit<Load>,
    ) -> Option<Self> {
        let rules = Arc::clone(permit.decision()?.read_rules.as_ref()?);
        let enforcement = if asking.may::<ReadRestricted>(resource) {
            Enforcement::TrustedEngine
        } else if asking.may::<ReadPermittedFiles>(resource) {
            Enforcement::PermittedFiles
        } else {
            Enforcement::NoFiles
        };
        Some(Self { rules, enforcement })
    }

    /// Limits privileges on the files of the table. Principals with restrictions never write files.
    pub(crate) fn limit(&self, privileges: Privileges) -> FileRights {
        let (read, permitted_only) = match self.enforcement {
            Enforcement::NoFiles => (false, false),
            Enforcement::PermittedFiles => (privileges.read, true),
            Enforcement::TrustedEngine => (privileges.read, false),
        };
        FileRights { privileges: Privileges { read, ..Privileges::NONE }, permitted_only }
    }

    /// Returns the key of the rules, and their enforcement.
    pub(crate) fn key(&self) -> (RulesKey, Enforcement) {
        (self.rules.key(), self.enforcement)
    }
}

/// The part of a table that a principal may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadAccess {
    /// The whole table. This is always so for views, which have no rows of their own.
    Whole,
    /// A part of the table, according to restrictions that the client must apply.
    Restricted {
        /// The key of the rules from which the restrictions were resolved.
        rules: RulesKey,
        /// The enforcement of the restrictions.
        enforcement: Enforcement,
        /// The restrictions.
        restrictions: Arc<ReadRestrictions>,
    },
}

/// The state of a table or view, and the part of it that the caller may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// The state.
    pub state: TabularState,
    /// The readable part.
    pub access: ReadAccess,
    /// The labels of the table or view and of its columns. `None` if there are none, and for a
    /// table that was only just created.
    pub labels: Option<Arc<LabelsRecord>>,
}

impl Readable {
    /// Returns the version as this principal may read it.
    pub fn version(&self) -> ReadVersion {
        let rules = match &self.access {
            ReadAccess::Whole => None,
            ReadAccess::Restricted { rules, enforcement, .. } => Some((*rules, *enforcement)),
        };
        let labels = self.labels.as_ref().map(|labels| labels.revision);
        ReadVersion { id: self.state.id, version: self.state.version, rules, labels }
    }
}

impl Core {
    /// Resolves the read rules of a principal for a version of a table. Errors with `Forbidden` if
    /// a mask cannot be applied to its column, because the protected column may have been renamed.
    pub(crate) fn restricted(
        &self,
        rules: &EnforcedRules,
        ident: &TabularIdent,
        version: Version,
        cached: &CachedVersion,
    ) -> Result<ReadAccess> {
        let metadata = self.environment.parsed::<TableMetadata>(version, cached)?;
        let restrictions = resolved_or_forbidden(rules, ident, &metadata)?;
        let (rules, enforcement) = rules.key();
        Ok(ReadAccess::Restricted { rules, enforcement, restrictions })
    }

    /// Adds the read access of the caller to a created or registered table. The table exists
    /// already. So a caller that may not load it gets restrictions that permit no rows, instead of
    /// an error.
    pub(crate) async fn creator_read_access(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        state: TabularState,
    ) -> Result<Readable> {
        let asking = match self.access.ask(&cx.operation)? {
            Decider::Unrestricted(_) => {
                return Ok(Readable { state, access: ReadAccess::Whole, labels: None });
            }
            Decider::Policies(asking) => asking,
        };
        let resource = self.created_resource(cx, &asking, ident, &state).await;
        // The table has already been created, so an error of this check must not claim that nothing
        // was written.
        let resource = resource.map_err(Error::unknown)?;
        let rules = match asking.permit::<Load>(&resource) {
            Ok(permit) => EnforcedRules::of(&asking, &resource, &permit),
            Err(_) => Some(nothing()),
        };
        let Some(mut rules) = rules else {
            return Ok(Readable { state, access: ReadAccess::Whole, labels: None });
        };
        let metadata: TableMetadata = metadata_of(state.id, &state.text)?;
        let schema = metadata.current_schema()?;
        let restrictions = match resolved(&rules, ident, schema) {
            Ok(restrictions) => restrictions,
            Err(_) => {
                rules = nothing();
                resolved(&rules, ident, schema).map_err(Error::internal)?
            }
        };
        let (rules, enforcement) = rules.key();
        let access = ReadAccess::Restricted { rules, enforcement, restrictions };
        Ok(Readable { state, access, labels: None })
    }

    /// Returns a created table as a resource for policies.
    async fn created_resource(
        &self,
        cx: &RequestContext,
        asking: &PrincipalDecider<'_>,
        ident: &TabularIdent,
        state: &TabularState,
    ) -> Result<Resource> {
        let store = self.store().latest();
        let wanted =
            asking.wants_attributes(&[Load::NAME]) || asking.wants_attributes(&ENFORCEMENT_ACTIONS);
        let inside = namespace_resource(&store, wanted, &cx.warehouse, &ident.namespace).await?;
        if !wanted {
            return Ok(inside.tabular(TabularKind::Table, Node::named(&ident.name)));
        }
        let metadata: TableMetadata = metadata_of(state.id, &state.text)?;
        let attributes = match store.get(&TabularKey(state.id)).await? {
            Some(record) => attributes(&record, &metadata.properties),
            // The table is staged, or was dropped in the meantime.
            None => Attributes {
                properties: metadata.properties,
                location: Some(metadata.location),
                owner: cx.operation.owner(),
            },
        };
        let node = Node::known(&ident.name, Arc::new(attributes));
        Ok(inside.tabular(TabularKind::Table, node))
    }
}

/// Returns rules that permit no rows.
fn nothing() -> EnforcedRules {
    EnforcedRules { rules: Arc::new(ReadRules::new(Vec::new())), enforcement: Enforcement::NoFiles }
}

/// Resolves rules for the current schema of a table. Errors with `Forbidden` if a mask cannot be
/// applied to its column.
pub(crate) fn resolved_or_forbidden(
    rules: &EnforcedRules,
    ident: &TabularIdent,
    table: &TableMetadata,
) -> Result<Arc<ReadRestrictions>> {
    resolved(rules, ident, table.current_schema()?).map_err(|problem| {
        let how = "is restricted by a policy that does not match the table's schema";
        Error::Forbidden(format!("Not allowed: reading {} {how}: {problem}", brief(ident)))
    })
}

/// Resolves rules for a table with this schema. Rules that do not apply to the schema are logged
/// for the operator, who has to correct the policies.
fn resolved(
    rules: &EnforcedRules,
    ident: &TabularIdent,
    schema: &Schema,
) -> std::result::Result<Arc<ReadRestrictions>, Problem> {
    let restrictions = rules.rules.resolve(schema).inspect_err(|problem| {
        tracing::warn!(table = %ident, %problem, "cannot apply the column masks of the policies to a table");
    })?;
    for problem in &restrictions.inexpressible {
        tracing::warn!(table = %ident, %problem, "a row filter of the policies does not apply to a table: the filter selects no row");
    }
    Ok(Arc::new(restrictions))
}
