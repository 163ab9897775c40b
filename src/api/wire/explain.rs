//! The shapes of bodies of `POST /management/v1/authorize` and `GET /management/v1/permissions`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::management::kind_word;
use super::policies::{effect_word, origin_word};
use slateberg_catalog::policies::explain::{Explained, Permissions, Remedies};
use slateberg_catalog::policies::listing::InForce;
use slateberg_model::expression::Expression;
use slateberg_model::principal::{ANY_USER_ID, Identity, IdentityKind, Method};
use slateberg_model::read_restrictions::{ReadRule, ReadRules};

/// Body of `POST /management/v1/authorize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AuthorizeRequest {
    /// Who would do it; whoever asks if it is not there.
    #[serde(default)]
    pub principal: Option<PrincipalWord>,
    /// What would be done, such as `Load`.
    pub action: String,
    /// What it would be done to, such as `table:prod/sales/orders`.
    pub resource: String,
    /// What would be known of the resource, in the place of what is.
    #[serde(default)]
    pub attributes: Option<AttributesWord>,
    /// The circumstances.
    #[serde(default)]
    pub context: ContextWord,
}

/// Somebody: one who has an API key, or anybody as they are described.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PrincipalWord {
    /// The id of an API key, or a name that only one has: its roles and warehouses are those that it has.
    pub key: Option<String>,
    /// The id of a user.
    pub user: Option<String>,
    /// The id of a service account, which need not be there.
    pub service_account: Option<String>,
    /// The roles that they would have.
    pub roles: BTreeSet<String>,
    /// The groups that they would belong to.
    pub groups: BTreeSet<String>,
    /// The only warehouses that the credential would be good for; all if it is not there.
    pub warehouses: Option<BTreeSet<String>>,
    /// How they would have proven it: `jwt`, `api-key`, `mtls` or `embedded`.
    pub authentication: Option<MethodWord>,
}

/// A way to prove who one is.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodWord {
    /// A token of an outside issuer.
    Jwt,
    /// An API key.
    ApiKey,
    /// The certificate of the connection.
    Mtls,
    /// None: they have the catalog in their own process.
    Embedded,
}

/// What would be known of a resource.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AttributesWord {
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Where its files would be.
    pub location: Option<String>,
    /// The id of whoever would have made it.
    pub owner: Option<String>,
}

/// The circumstances of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ContextWord {
    /// When, such as `2026-01-31T09:00:00Z`; now if it is not there.
    pub time: Option<String>,
    /// From where.
    pub source_address: Option<IpAddr>,
    /// What the client would say that it is.
    pub client: Option<String>,
}

impl PrincipalWord {
    /// The identity that is described; none if the words fit no one.
    pub fn identity(self) -> Option<Identity> {
        let (kind, id) = match (self.user, self.service_account, &self.key) {
            (Some(id), None, None) => (IdentityKind::User, id),
            (None, Some(id), None) => (IdentityKind::ServiceAccount, id),
            // Roles and groups alone are those of any user.
            (None, None, None) if !(self.roles.is_empty() && self.groups.is_empty()) => {
                (IdentityKind::User, ANY_USER_ID.to_owned())
            }
            _ => return None,
        };
        let method = match (self.authentication, kind) {
            (Some(MethodWord::Jwt), _) | (None, IdentityKind::User) => Method::Jwt,
            (Some(MethodWord::ApiKey), _) | (None, IdentityKind::ServiceAccount) => Method::ApiKey,
            (Some(MethodWord::Mtls), _) => Method::Mtls,
            (Some(MethodWord::Embedded), _) => Method::Embedded,
        };
        Some(Identity {
            kind,
            name: id.clone(),
            id,
            groups: self.groups,
            roles: self.roles,
            method,
            warehouses: self.warehouses,
        })
    }
}

/// Whom an answer is about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Whose {
    /// `user` or `service-account`.
    pub kind: &'static str,
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The roles.
    pub roles: BTreeSet<String>,
    /// The groups.
    pub groups: BTreeSet<String>,
}

impl From<&Identity> for Whose {
    fn from(identity: &Identity) -> Self {
        Self {
            kind: kind_word(identity.kind),
            id: identity.id.clone(),
            name: identity.name.clone(),
            roles: identity.roles.clone(),
            groups: identity.groups.clone(),
        }
    }
}

/// A policy that decided.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Deciding {
    /// Its id.
    pub id: String,
    /// `permit` or `forbid`.
    pub effect: &'static str,
    /// `file`, `api` or `grant`; `credential` if it is not good for the resource.
    pub origin: &'static str,
    /// Its `@description`; null if it has none.
    pub description: Option<String>,
}

impl From<InForce> for Deciding {
    fn from(policy: InForce) -> Self {
        Self {
            id: policy.id,
            effect: effect_word(policy.forbids),
            origin: origin_word(policy.origin),
            description: policy.description,
        }
    }
}

/// What a policy lets be read of a table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReadRuleWord {
    /// The id of the policy.
    pub policy: String,
    /// The rows, as an expression with columns by name; `true` for all.
    pub row_filter: Value,
    /// How columns are shown, by their names.
    pub column_masks: BTreeMap<String, &'static str>,
}

/// What all policies that let a table be loaded say of reading it.
fn read_rules(rules: Option<&ReadRules>) -> Option<Vec<ReadRuleWord>> {
    let word = |rule: &Arc<ReadRule>| ReadRuleWord {
        policy: rule.policy.clone(),
        row_filter: rule.filter.as_ref().map_or(Value::Bool(true), Expression::to_json),
        column_masks: rule.masks.iter().map(|(name, mask)| (name.clone(), mask.word())).collect(),
    };
    Some(rules?.rules().iter().map(word).collect())
}

/// What would permit a denied action. Each role and each grant is enough.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PermittedWith {
    /// Roles.
    pub roles: Vec<String>,
    /// Templates that can be granted on the resource.
    pub grants: Vec<String>,
}

impl PermittedWith {
    fn of(remedies: Remedies) -> Option<Self> {
        let Remedies { roles, grants } = remedies;
        (!(roles.is_empty() && grants.is_empty())).then_some(Self { roles, grants })
    }
}

/// Answer of `POST /management/v1/authorize`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuthorizeResponse {
    /// `allow` or `deny`.
    pub decision: &'static str,
    /// The policies that decided; none if it is denied because no permit matches.
    pub policies: Vec<Deciding>,
    /// What each of them lets be read, if a table may be loaded but not be read as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_rules: Option<Vec<ReadRuleWord>>,
    /// Who would do it.
    pub principal: Whose,
    /// What would permit it, if no policy does and the caller may read policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permitted_with: Option<PermittedWith>,
    /// Whether the resource exists; null if the caller may not see it.
    pub resource_exists: Option<bool>,
    /// What would be done.
    pub action: String,
    /// What it would be done to.
    pub resource: String,
    /// The number of the newest revision of policies and grants.
    pub revision: u64,
    /// Which set of policies was asked.
    pub in_force: String,
}

impl AuthorizeResponse {
    /// The answer to a question about this action.
    pub fn new(action: String, explained: Explained) -> Self {
        Self {
            decision: if explained.allow { "allow" } else { "deny" },
            policies: explained.policies.into_iter().map(Deciding::from).collect(),
            read_rules: read_rules(explained.read_rules.as_deref()),
            principal: Whose::from(&*explained.identity),
            permitted_with: PermittedWith::of(explained.remedies),
            resource_exists: explained.exists,
            action,
            resource: explained.resource,
            revision: explained.revision,
            in_force: explained.in_force,
        }
    }
}

/// Answer of `GET /management/v1/permissions`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PermissionsResponse {
    /// Who.
    pub principal: Whose,
    /// To what.
    pub resource: String,
    /// The actions that are allowed.
    pub actions: Vec<String>,
    /// What each policy lets be read, if a table may be loaded but not be read as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_rules: Option<Vec<ReadRuleWord>>,
    /// Which set of policies was asked.
    pub in_force: String,
}

impl From<Permissions> for PermissionsResponse {
    fn from(permissions: Permissions) -> Self {
        Self {
            principal: Whose::from(&*permissions.identity),
            resource: permissions.resource,
            actions: permissions.actions,
            read_rules: read_rules(permissions.read_rules.as_deref()),
            in_force: permissions.in_force,
        }
    }
}
