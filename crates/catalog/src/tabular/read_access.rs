//! How much of a table somebody may read, as policies say it.
//!
//! The catalog does not read rows: it tells its clients what they have to apply. Clients that go to the
//! files on their own could pass it by, so that whoever is restricted gets nothing to go there with:
//! whatever hands out credentials or signatures for files asks for [`ReadAccess::Whole`].

use std::sync::Arc;

use uuid::Uuid;

use super::metadata::metadata_of;
use super::state::TabularState;
use crate::attributes::{attributes, namespace_resource};
use crate::core::Core;
use crate::version_cache::{CachedVersion, Version};
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::{Action, Load};
use slateberg_authz::authority::{Asked, Asking};
use slateberg_authz::resource::{Attributes, Node, Resource};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::read_restrictions::{Problem, ReadRestrictions, ReadRules, RulesKey};
use slateberg_model::schema::Schema;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::Read;

/// A version of a table or view, as somebody may read it: tells an answer from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadVersion {
    /// Its id.
    pub id: Uuid,
    /// The version of its record.
    pub version: u64,
    /// What policies say of reading it; none if it may be read as a whole.
    pub rules: Option<RulesKey>,
}

/// How much of a table somebody may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadAccess {
    /// All of it. Views, which have no rows of their own, are read so.
    Whole,
    /// What is left by restrictions, which the client has to apply. No credential and no signature for the
    /// table's files is handed out with it.
    Restricted(RulesKey, Arc<ReadRestrictions>),
}

/// The state of a table or view, and how much of it whoever asks may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// Its state.
    pub state: TabularState,
    /// How much may be read.
    pub access: ReadAccess,
}

impl Readable {
    /// What tells it from every other.
    pub fn version(&self) -> ReadVersion {
        let rules = match &self.access {
            ReadAccess::Whole => None,
            ReadAccess::Restricted(key, _) => Some(*key),
        };
        ReadVersion { id: self.state.id, version: self.state.version, rules }
    }
}

impl Core {
    /// What policies leave of a version of a table for somebody. It is not shown at all if a column is to be
    /// masked that cannot be: the mask may be for the values that another column has by now.
    pub(super) fn restricted(
        &self,
        rules: &Arc<ReadRules>,
        ident: &TabularIdent,
        version: Version,
        cached: &CachedVersion,
    ) -> Result<ReadAccess> {
        let metadata = self.environment.parsed::<TableMetadata>(version, cached)?;
        resolved(rules, ident, metadata.current_schema()?).map_err(|problem| {
            let how = "is restricted in a way that does not fit it";
            Error::Forbidden(format!("Not allowed: reading {} {how}: {problem}", brief(ident)))
        })
    }

    /// How much whoever made or registered a table may read of it. The table is there by now: what would
    /// refuse a load shows no row here.
    pub(crate) async fn made_readable(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        state: TabularState,
    ) -> Result<Readable> {
        let asking = match self.access.ask(&cx.operation)? {
            Asked::Nobody(_) => return Ok(Readable { state, access: ReadAccess::Whole }),
            Asked::Policies(asking) => asking,
        };
        let resource =
            self.made_resource(&cx.operation, &asking, &cx.warehouse, ident, &state).await;
        // The table was made, whatever the store has to say to this question.
        let resource = resource.map_err(Error::unknown)?;
        let rules = match asking.permit::<Load>(&resource) {
            Ok(permit) => permit.decision().and_then(|decision| decision.read_rules.clone()),
            Err(_) => Some(nothing()),
        };
        let Some(rules) = rules else { return Ok(Readable { state, access: ReadAccess::Whole }) };
        let metadata: TableMetadata = metadata_of(state.id, &state.text)?;
        let schema = metadata.current_schema()?;
        let access = match resolved(&rules, ident, schema) {
            Ok(access) => access,
            Err(_) => resolved(&nothing(), ident, schema).map_err(Error::internal)?,
        };
        Ok(Readable { state, access })
    }

    /// What was made, as policies know it.
    async fn made_resource(
        &self,
        operation: &Operation,
        asking: &Asking<'_>,
        warehouse: &Warehouse,
        ident: &TabularIdent,
        state: &TabularState,
    ) -> Result<Resource> {
        let store = self.store().latest();
        let wanted = asking.wants_attributes(&[Load::NAME]);
        let inside = namespace_resource(&store, wanted, warehouse, &ident.namespace).await?;
        if !wanted {
            return Ok(inside.tabular(TabularKind::Table, Node::named(&ident.name)));
        }
        let metadata: TableMetadata = metadata_of(state.id, &state.text)?;
        let attributes = match store.get(&TabularKey(state.id)).await? {
            Some(record) => attributes(&record, &metadata.properties),
            // It is staged, or gone again.
            None => Attributes {
                properties: metadata.properties,
                location: Some(metadata.location),
                owner: operation.owner(),
            },
        };
        let node = Node::known(&ident.name, Arc::new(attributes));
        Ok(inside.tabular(TabularKind::Table, node))
    }
}

/// The rules of somebody who may read no row.
fn nothing() -> Arc<ReadRules> {
    Arc::new(ReadRules::new(Vec::new()))
}

/// What rules come to for a table with this schema. What does not fit is told to the operator, who alone can
/// mend it.
fn resolved(
    rules: &Arc<ReadRules>,
    ident: &TabularIdent,
    schema: &Schema,
) -> std::result::Result<ReadAccess, Problem> {
    let restrictions = rules.resolve(schema).inspect_err(|problem| {
        tracing::warn!(table = %ident, %problem, "a table cannot be masked as policies want");
    })?;
    for problem in &restrictions.inexpressible {
        tracing::debug!(table = %ident, %problem, "a row filter cannot be expressed: no row is shown");
    }
    Ok(ReadAccess::Restricted(rules.key(), Arc::new(restrictions)))
}
