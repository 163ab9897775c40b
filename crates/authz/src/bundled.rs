//! The policies in the binary: `policies/default`.

use super::policy_file::PolicyFile;

const ROLES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/default/roles.cedar"));
const GRANTS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/default/grants.cedar"));

/// Returns the default policies: permissions of the roles, and templates of grants.
pub fn default_policies() -> Vec<PolicyFile> {
    [("policies/default/grants.cedar", GRANTS), ("policies/default/roles.cedar", ROLES)]
        .map(|(name, text)| PolicyFile { name: name.to_owned(), text: text.to_owned() })
        .into()
}

/// Whether this is the text of a default policy file.
pub(crate) fn is_default(text: &str) -> bool {
    text == ROLES || text == GRANTS
}
