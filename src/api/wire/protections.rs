//! Converts protections to the form of responses.

use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::protections::{NewProtection, ProtectionInfo, ProtectionPage};
use slateberg_management::protections::{ProtectRequest, Protection, ProtectionList};

/// Returns the protection that a request describes.
pub fn new_protection(request: ProtectRequest) -> NewProtection {
    let ProtectRequest { resource, comment } = request;
    NewProtection { resource, comment }
}

/// Returns a protection.
pub fn protection(info: ProtectionInfo, keys: &ApiKeys) -> Protection {
    Protection {
        id: info.id,
        resource: info.resource,
        protected_at_ms: info.protected_ms,
        protected_by_name: keys.name_of(&info.protected_by),
        protected_by: info.protected_by,
        comment: info.comment,
    }
}

/// Returns a page of protections.
pub fn protection_list(page: ProtectionPage, keys: &ApiKeys) -> ProtectionList {
    let protections = page.protections.into_iter().map(|info| protection(info, keys)).collect();
    ProtectionList { protections, next_page_token: page.next }
}
