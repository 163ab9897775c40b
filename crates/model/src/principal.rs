//! Principals: the callers on whose behalf requests run.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// An anonymous caller: the server runs without authentication.
    Anonymous,
    /// A background task of slateberg, by name.
    Task(&'static str),
    /// A caller that has authenticated.
    Identified(Arc<Identity>),
}

/// An authenticated caller, with the information in its credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Person or program.
    pub kind: IdentityKind,
    /// Id, unique over all issuers and keys: `<issuer's name>/<subject>`, `mtls/<name>`,
    /// `embedded/<name>`, or an API key's id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The groups of the caller.
    pub groups: BTreeSet<String>,
    /// The roles of the caller.
    pub roles: BTreeSet<String>,
    /// The method of authentication.
    pub method: Method,
    /// Names of the warehouses to which the credential is limited. `None` if it is valid for all
    /// warehouses.
    pub warehouses: Option<BTreeSet<String>>,
}

/// The kind of a principal. The names are those of the policies' entity types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdentityKind {
    /// A person, identified by a token issuer or a certificate.
    User,
    /// A program, identified by an API key or a certificate.
    ServiceAccount,
}

/// A method of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// A token of an external issuer.
    Jwt,
    /// An API key, sent directly or exchanged for a token of slateberg.
    ApiKey,
    /// The client certificate of the connection.
    Mtls,
    /// No authentication: the program that embeds the catalog names the principal.
    Embedded,
}

/// Prefix of the default ids of programs that embed the catalog. No issuer may have this name, so
/// no principal with a token gets such an id.
pub const EMBEDDED_ID_PREFIX: &str = "embedded";

/// Name of the background task that maintains tables. Its commits appear in the change log like those
/// of a request.
pub const MAINTENANCE_TASK: &str = "maintenance";

/// Id of a placeholder user. Policies are evaluated for this user if an operator requests an
/// evaluation only for roles or groups.
pub const ANY_USER_ID: &str = "anyone";

/// Approximate memory overhead of the name of a group, role or warehouse, in bytes.
const NAME_BYTES: usize = 40;

impl Identity {
    /// Creates the identity of a program that embeds the catalog: the service account
    /// `embedded/<name>`, without roles.
    pub fn embedded(name: &str) -> Self {
        Self {
            kind: IdentityKind::ServiceAccount,
            id: format!("{EMBEDDED_ID_PREFIX}/{name}"),
            name: name.to_owned(),
            groups: BTreeSet::new(),
            roles: BTreeSet::new(),
            method: Method::Embedded,
            warehouses: None,
        }
    }

    /// Returns the same identity with exactly these roles.
    #[must_use]
    pub fn with_roles<R: Into<String>>(self, roles: impl IntoIterator<Item = R>) -> Self {
        Self { roles: roles.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns the approximate memory used, in bytes.
    pub fn bytes(&self) -> usize {
        let names = self.groups.iter().chain(&self.roles).chain(self.warehouses.iter().flatten());
        let names = names.map(|name| name.len() + NAME_BYTES);
        size_of::<Self>() + self.id.len() + self.name.len() + names.sum::<usize>()
    }
}

impl Hash for Identity {
    /// Hashes only the id, which is practically unique. This must be fast, because the identity is
    /// part of the cache key of every policy decision.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Method {
    /// Returns the name in policies, logs and responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::ApiKey => "api-key",
            Self::Mtls => "mtls",
            Self::Embedded => "embedded",
        }
    }
}

impl Principal {
    /// Returns the short name of the principal in keys and logs.
    pub fn id(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Task(name) => name,
            Self::Identified(identity) => &identity.id,
        }
    }

    /// Returns the display name of the principal. `None` if it has not authenticated.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Anonymous | Self::Task(_) => None,
            Self::Identified(identity) => Some(&identity.name),
        }
    }
}
