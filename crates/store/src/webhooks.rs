//! Records of webhooks, and of their positions in the change feed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{DecodeError, Value, decode_json, encode_json};
use slateberg_base::secret::Secret;
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// A webhook: a URL to which the server sends changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookRecord {
    /// Id of the webhook.
    pub id: Uuid,
    /// Unique name.
    pub name: String,
    /// URL of the receiver. It may contain a secret, so logs do not contain it.
    pub url: String,
    /// Resource whose changes are sent, such as `table:prod/sales/orders`. `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Types of events that are sent. Empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Key of the signatures: 32 bytes in base 64.
    pub secret: Secret,
    /// Earlier key, during a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret: Option<PreviousSecret>,
    /// Principal whose permissions determine the events. `None` for an anonymous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<WebhookOwner>,
    /// Time of creation.
    pub created_ms: i64,
    /// Id of the principal that created the webhook.
    pub created_by: String,
    /// Set while nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<WebhookSuspension>,
    /// Version, which increases by one with each change.
    pub version: u64,
}

/// A key that signs until it expires, in addition to the key that replaced it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// The key.
    pub secret: Secret,
    /// Time of expiry.
    pub expires_ms: i64,
}

/// The reason why nothing is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSuspension {
    /// Time of the suspension.
    pub at_ms: i64,
    /// The reason.
    pub reason: String,
    /// Id of the principal that suspended the webhook. `None` if the server did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The principal whose permissions determine the events of a webhook, as it was when it created or
/// resumed the webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookOwner {
    /// Kind of the principal.
    pub kind: OwnerKind,
    /// Id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Groups.
    pub groups: BTreeSet<String>,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Method of authentication.
    pub method: OwnerMethod,
    /// Warehouses to which the credential was limited. `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warehouses: Option<BTreeSet<String>>,
}

/// Kind of the owner of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "`IdentityKind` documents the variants")]
pub enum OwnerKind {
    User,
    ServiceAccount,
}

/// Method by which the owner of a webhook authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "`Method` documents the variants")]
pub enum OwnerMethod {
    Jwt,
    ApiKey,
    Mtls,
    Embedded,
}

/// The position of a webhook in the change feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookCursor {
    /// Position after the last event that the receiver has accepted.
    pub position: String,
    /// Time of the first of the failed attempts to send the next events. `None` if no attempt has
    /// failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since_ms: Option<i64>,
}

impl From<&Identity> for WebhookOwner {
    fn from(identity: &Identity) -> Self {
        let Identity { kind, id, name, groups, roles, method, warehouses } = identity.clone();
        Self {
            kind: match kind {
                IdentityKind::User => OwnerKind::User,
                IdentityKind::ServiceAccount => OwnerKind::ServiceAccount,
            },
            id,
            name,
            groups,
            roles,
            method: match method {
                Method::Jwt => OwnerMethod::Jwt,
                Method::ApiKey => OwnerMethod::ApiKey,
                Method::Mtls => OwnerMethod::Mtls,
                Method::Embedded => OwnerMethod::Embedded,
            },
            warehouses,
        }
    }
}

impl From<WebhookOwner> for Identity {
    fn from(owner: WebhookOwner) -> Self {
        let WebhookOwner { kind, id, name, groups, roles, method, warehouses } = owner;
        Self {
            kind: match kind {
                OwnerKind::User => IdentityKind::User,
                OwnerKind::ServiceAccount => IdentityKind::ServiceAccount,
            },
            id,
            name,
            groups,
            roles,
            method: match method {
                OwnerMethod::Jwt => Method::Jwt,
                OwnerMethod::ApiKey => Method::ApiKey,
                OwnerMethod::Mtls => Method::Mtls,
                OwnerMethod::Embedded => Method::Embedded,
            },
            warehouses,
        }
    }
}

impl Value for WebhookRecord {
    fn encode(&self) -> Vec<u8> {
        encode_json(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_json(bytes)
    }
}

impl Value for WebhookCursor {
    fn encode(&self) -> Vec<u8> {
        encode_json(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_json(bytes)
    }
}
