//! Who asks.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Whoever a request speaks for, once it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Nobody in particular: the server runs without authentication.
    Anonymous,
    /// One of slateberg's own background tasks, by name.
    Task(&'static str),
    /// Somebody who has proven who they are.
    Identified(Arc<Identity>),
}

/// Somebody who has proven who they are, and what was said of them by whoever vouches for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// A person, or a program.
    pub kind: IdentityKind,
    /// Unique over all issuers and keys: `<issuer's name>/<subject>`, `mtls/<name>`,
    /// `embedded/<name>`, or an API key's id.
    pub id: String,
    /// What people call them.
    pub name: String,
    /// The groups that they belong to.
    pub groups: BTreeSet<String>,
    /// The roles that they have.
    pub roles: BTreeSet<String>,
    /// How they have proven it.
    pub method: Method,
    /// The names of the only warehouses that the credential is good for; none if it is good for all.
    pub warehouses: Option<BTreeSet<String>>,
}

/// What kind of principal an identity is. The names are those of the policies' entity types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdentityKind {
    /// A person whom an issuer of tokens vouches for, or a certificate.
    User,
    /// A program, known by an API key or a certificate.
    ServiceAccount,
}

/// How an identity was proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// A token of an outside issuer.
    Jwt,
    /// An API key, sent as it is or exchanged for a token of slateberg's own.
    ApiKey,
    /// The certificate of the connection.
    Mtls,
    /// Not at all: the program that has the catalog in its own process says whom it acts for.
    Embedded,
}

/// What the ids of programs begin with that have the catalog in their own process, unless they say
/// another. No issuer has this name, so that no token speaks for them.
pub const EMBEDDED_ID_PREFIX: &str = "embedded";

/// The id of the user that a question about policies is about if it names roles or groups alone.
pub const ANY_USER_ID: &str = "anyone";

/// Bytes that the name of a group, role or warehouse takes beside its text.
const NAME_BYTES: usize = 40;

impl Identity {
    /// A program that has the catalog in its own process: the service account `embedded/<name>`, without
    /// roles.
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

    /// The same with these roles alone.
    #[must_use]
    pub fn with_roles<R: Into<String>>(self, roles: impl IntoIterator<Item = R>) -> Self {
        Self { roles: roles.into_iter().map(Into::into).collect(), ..self }
    }

    /// The bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let names = self.groups.iter().chain(&self.roles).chain(self.warehouses.iter().flatten());
        let names = names.map(|name| name.len() + NAME_BYTES);
        size_of::<Self>() + self.id.len() + self.name.len() + names.sum::<usize>()
    }
}

impl Hash for Identity {
    /// By the id, which hardly anybody has twice: an identity stands in the key of every decision.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Method {
    /// The word for it, in policies, logs and answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::ApiKey => "api-key",
            Self::Mtls => "mtls",
            Self::Embedded => "embedded",
        }
    }
}

impl Principal {
    /// A short text that names the principal in keys and logs.
    pub fn id(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Task(name) => name,
            Self::Identified(identity) => &identity.id,
        }
    }
}
