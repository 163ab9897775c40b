//! The decision: may this principal do this?
//!
//! The server does not authenticate yet, so that every request comes from
//! [`Principal::Anonymous`], who may do everything, as on any server that was started without
//! authentication.

use super::action::Action;
use super::permit::Permit;
use crate::model::principal::Principal;

/// The answer "no".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied;

/// Decides whether `principal` may do `A`, and gives the permit if so.
pub fn decide<A: Action>(principal: &Principal) -> Result<Permit<A>, Denied> {
    match principal {
        Principal::Anonymous => Ok(Permit::granted()),
        // Whoever is known may do everything, until policies say otherwise.
        Principal::Identified(_) => Ok(Permit::granted()),
        // Background tasks have permits of their own, and no way to borrow another's.
        Principal::Task(_) => Err(Denied),
    }
}
