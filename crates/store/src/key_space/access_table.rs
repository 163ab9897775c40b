//! The rules of the key spaces for policies, credentials, webhooks and cursors.

use super::rules::{
    CacheRule, Check, CloneRule, ExportRule, FilesRule, LineKind, Removal, ReplicaRule,
    RestoreRule, Rules,
};

pub(super) const POLICY_HEAD: Rules = Rules {
    name: "head of the policy log",
    key: "–",
    value: "number of the newest revision",
    check: Check::Policies,
    restore: RestoreRule::Revise,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::Never,
    files: FilesRule::None,
};

pub(super) const POLICY_LOG: Rules = Rules {
    name: "policy log",
    key: "number of the revision",
    value: "who changed which policies and grants and when, and their contents before and after the change",
    check: Check::Policies,
    restore: RestoreRule::Revise,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Never,
    files: FilesRule::None,
};

pub(super) const POLICIES: Rules = Rules {
    name: "policies",
    key: "id",
    value: "Cedar source of a policy that was created at run time",
    check: Check::Policies,
    restore: RestoreRule::Revise,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Policy),
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const GRANTS: Rules = Rules {
    name: "grants",
    key: "id (time-ordered)",
    value: "template, grantee, resource",
    check: Check::Policies,
    restore: RestoreRule::Revise,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Grant),
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const API_KEYS: Rules = Rules {
    name: "API keys",
    key: "id (time-ordered)",
    value: "name, SHA-256 of the key, roles, warehouses, expiry",
    check: Check::ApiKeys,
    restore: RestoreRule::Keep,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::ApiKey),
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const SIGNING_KEYS: Rules = Rules {
    name: "signing keys",
    key: "id (time-ordered)",
    value: "seed of an Ed25519 key with which slateberg signs its tokens",
    check: Check::Decoding,
    restore: RestoreRule::Keep,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::Rotation,
    files: FilesRule::None,
};

pub(super) const REVOKED_KEYS: Rules = Rules {
    name: "revoked API keys",
    key: "id (time-ordered)",
    value: "the key before its revocation, time of the revocation, principal that revoked it",
    check: Check::Decoding,
    restore: RestoreRule::Keep,
    clone: CloneRule::Share,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::Limit,
    files: FilesRule::None,
};

pub(super) const WEBHOOKS: Rules = Rules {
    name: "webhooks",
    key: "id (time-ordered)",
    value: "name, URL, filter, keys of the signatures, owner, whether it is suspended",
    check: Check::Decoding,
    restore: RestoreRule::Keep,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const WEBHOOK_CURSORS: Rules = Rules {
    name: "webhook cursors",
    key: "id of the webhook",
    value: "position in the change feed, begin of the present failures",
    check: Check::Decoding,
    restore: RestoreRule::Keep,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const WATCH_CURSORS: Rules = Rules {
    name: "watch cursors",
    key: "name",
    value: "position of a consumer in the change feed, process and principal that stored it",
    check: Check::Decoding,
    restore: RestoreRule::Keep,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};
