//! Grants: templates of policies, filled in with a principal and a resource.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use cedar_policy::{EntityUid, PolicyId, SlotId};

use super::resource::{Kind, Resource};
use super::schema::{Schema, uid};

/// The template that lets somebody see the way to what was granted.
const BROWSE: &str = "grant-browse";

/// What kind of principal something is granted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GranteeKind {
    /// A person.
    User,
    /// A program.
    ServiceAccount,
    /// Whoever has a role.
    Role,
    /// Whoever belongs to a group.
    Group,
}

/// To whom something is granted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grantee {
    /// What kind of principal.
    pub kind: GranteeKind,
    /// Its id.
    pub id: String,
}

/// A template, filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The id of the template, such as `grant-read`.
    pub template: String,
    /// To whom.
    pub grantee: Grantee,
    /// On what.
    pub resource: Resource,
}

impl GranteeKind {
    /// The name of the entity type.
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
    /// The id of the policy that it becomes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template, grantee: Grantee { kind, id }, resource } = self;
        write!(f, "{template}[{}::\"{}\", {resource}]", kind.name(), id.escape_debug())
    }
}

/// A policy that a grant becomes.
pub(super) struct Link {
    pub(super) template: PolicyId,
    pub(super) values: HashMap<SlotId, EntityUid>,
}

/// The policies that grants become, by their ids: the grants themselves, and for each a way to see what its
/// resource is in, since clients look for a namespace before they look for its tables.
pub(super) fn links(schema: &Schema, grants: &[Grant]) -> BTreeMap<String, Link> {
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

fn link(schema: &Schema, grant: &Grant) -> Link {
    let types = &schema.types;
    let grantee_type = match grant.grantee.kind {
        GranteeKind::User => &types.user,
        GranteeKind::ServiceAccount => &types.service_account,
        GranteeKind::Role => &types.role,
        GranteeKind::Group => &types.group,
    };
    let principal = uid(grantee_type, &grant.grantee.id);
    let resource = uid(types.of(grant.resource.kind()), &grant.resource.id());
    Link {
        template: PolicyId::new(&grant.template),
        values: HashMap::from([(SlotId::principal(), principal), (SlotId::resource(), resource)]),
    }
}

impl Grant {
    /// Whether it is on something that can be granted: everything but the catalog itself.
    pub fn is_grantable(&self) -> bool {
        self.resource.kind() != Kind::Catalog
    }
}
