//! Grants: policies that are created from a template, with a principal and a resource.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use cedar_policy::{EntityUid, PolicyId, SlotId};

use super::resource::{Kind, Resource};
use super::schema::{Schema, uid};

/// The template of the policies that let a grantee see the parents of a resource on which it has a
/// grant.
const BROWSE: &str = "grant-browse";

/// Kind of the principal of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GranteeKind {
    /// A user.
    User,
    /// A program.
    ServiceAccount,
    /// All principals with a role.
    Role,
    /// All principals in a group.
    Group,
}

/// Principal of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grantee {
    /// Kind of principal.
    pub kind: GranteeKind,
    /// Id of the principal.
    pub id: String,
}

/// A template with the values of its slots: a principal and a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Id of the template, such as `grant-read`.
    pub template: String,
    /// The principal.
    pub grantee: Grantee,
    /// The resource.
    pub resource: Resource,
}

impl GranteeKind {
    /// Returns the name of the entity type.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::Group => "Group",
        }
    }
}

impl fmt::Display for Grant {
    /// Writes the id of the grant's policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template, grantee: Grantee { kind, id }, resource } = self;
        write!(f, "{template}[{}::\"{}\", {resource}]", kind.name(), id.escape_debug())
    }
}

/// A policy of a grant.
pub(super) struct GrantPolicy {
    pub(super) template: PolicyId,
    pub(super) values: HashMap<SlotId, EntityUid>,
}

/// Returns the policies of grants, by id. Each grant results in one policy for its resource, and
/// one for each parent of the resource. The policies for the parents make them visible, because
/// clients load a namespace before its tables.
pub(super) fn links(schema: &Schema, grants: &[Grant]) -> BTreeMap<String, GrantPolicy> {
    let mut links = BTreeMap::new();
    for grant in grants {
        for enclosing in grant.resource.enclosing() {
            let grantee = grant.grantee.clone();
            let way = Grant { template: BROWSE.to_owned(), grantee, resource: enclosing };
            links.insert(way.to_string(), link(schema, &way));
        }
        links.insert(grant.to_string(), link(schema, grant));
    }
    links
}

fn link(schema: &Schema, grant: &Grant) -> GrantPolicy {
    let types = &schema.types;
    let grantee_type = match grant.grantee.kind {
        GranteeKind::User => &types.user,
        GranteeKind::ServiceAccount => &types.service_account,
        GranteeKind::Role => &types.role,
        GranteeKind::Group => &types.group,
    };
    let principal = uid(grantee_type, &grant.grantee.id);
    let resource = uid(types.of(grant.resource.kind()), &grant.resource.id());
    GrantPolicy {
        template: PolicyId::new(&grant.template),
        values: HashMap::from([(SlotId::principal(), principal), (SlotId::resource(), resource)]),
    }
}

impl Grant {
    /// Whether a grant may be on this resource. The only resource without grants is the catalog
    /// itself.
    pub(crate) fn is_grantable(&self) -> bool {
        self.resource.kind() != Kind::Catalog
    }
}
