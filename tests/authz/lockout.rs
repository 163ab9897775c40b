//! Every change of policies leaves at least one principal that can manage the catalog.

use slateberg_authz::context::Context;
use slateberg_authz::lockout::{LockedOut, check};

use crate::support::{defaults_and, only, person};

#[test]
fn policy_set_without_a_policy_manager_is_rejected() {
    let candidates = [person("ann", Some("admin")), person("bob", Some("writer"))];
    let context = Context::default();
    assert_eq!(check(&defaults_and("", &[]), &candidates, &context), Ok(()));
    assert_eq!(check(&only(""), &candidates, &context), Err(LockedOut));
    let only_bob = "@id(\"bob\") permit (principal == User::\"bob\", action, resource);";
    assert_eq!(check(&only(only_bob), &candidates, &context), Ok(()));
    assert_eq!(check(&only(only_bob), &candidates[..1], &context), Err(LockedOut));
    let forbidden =
        "@id(\"no\") forbid (principal, action == Action::\"ManagePolicies\", resource);";
    assert_eq!(check(&defaults_and(forbidden, &[]), &candidates, &context), Err(LockedOut));
}

#[test]
fn manager_with_a_warehouse_credential_does_not_count() {
    let mut scoped = (*person("key", Some("admin"))).clone();
    scoped.warehouses = Some(["prod".to_owned()].into());
    let checked = check(&defaults_and("", &[]), &[scoped.into()], &Context::default());
    assert_eq!(checked, Err(LockedOut));
}
