//! Converts grants to the form of responses.

use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::policies::GrantRecord;
use slateberg_catalog::policies::grants::GrantPage;
use slateberg_management::grants::{Grant, GrantList, GrantWithPolicy};

/// Returns a grant, with the names of the API keys in it.
pub fn grant(record: GrantRecord, keys: &ApiKeys) -> Grant {
    let account = record.grantee.strip_prefix("service-account:");
    Grant {
        id: record.id.to_string(),
        template: record.template,
        grantee_name: account.and_then(|id| keys.name_of(id)),
        grantee: record.grantee,
        resource: record.resource,
        created_at_ms: record.created_ms,
        created_by_name: keys.name_of(&record.created_by),
        created_by: record.created_by,
    }
}

/// Returns a grant with the id of its policy.
pub fn grant_with_policy(
    (record, policy): (GrantRecord, String),
    keys: &ApiKeys,
) -> GrantWithPolicy {
    GrantWithPolicy { grant: grant(record, keys), policy }
}

/// Returns a page of grants.
pub fn grant_list(page: GrantPage, keys: &ApiKeys) -> GrantList {
    let grants = page.grants.into_iter().map(|it| grant_with_policy(it, keys)).collect();
    GrantList { grants, next_page_token: page.next }
}
