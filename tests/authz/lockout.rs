//! Every change of policies leaves at least one principal that can manage the catalog.

use slateberg_authz::context::Context;
use slateberg_authz::lockout::{LockedOut, check};

use crate::support::{defaults_and, only, person};

#[test]
fn a_set_needs_somebody_who_manages_policies() {
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
fn nobody_counts_whose_credential_is_not_good_for_the_catalog() {
    let mut scoped = (*person("key", Some("admin"))).clone();
    scoped.warehouses = Some(["prod".to_owned()].into());
    let checked = check(&defaults_and("", &[]), &[scoped.into()], &Context::default());
    assert_eq!(checked, Err(LockedOut));
}
