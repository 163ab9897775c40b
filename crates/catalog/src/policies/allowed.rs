//! [`Allowed`]: the permit for a change of policies or grants.

use slateberg_authz::action::{ManageGrants, ManagePolicies};
use slateberg_authz::permit::Permit;
use slateberg_store::records::GrantRecord;

/// The permit for a change of policies or grants.
pub(super) enum Allowed {
    Policies(Permit<ManagePolicies>),
    Grants(Permit<ManageGrants>),
}

/// Returns the name of a grant in the change log.
pub(super) fn name_of_grant(record: &GrantRecord) -> String {
    let GrantRecord { template, grantee, resource, .. } = record;
    format!("{template} to {grantee} on {resource}")
}
