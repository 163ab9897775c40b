//! Rank 3: permissions, by policies in Cedar. Pure: no I/O, no async, no clock.
//!
//! A [`permit::Permit`] proves that an action is allowed. A mutation requires the permit, so a
//! handler cannot forget to authorize the request.
//!
//! 1. [`schema`] defines principals, resources and actions. [`policy_set`] has the policies in
//!    force, including those of [`grants`]. They are validated as a whole.
//! 2. [`resource`] has the resource of a request, and [`context`] its context. `entities` converts
//!    the principal and the resource to Cedar's form.
//! 3. [`decide`] evaluates one request, and [`page`] evaluates one request for all names of a page.
//!    [`cache`] caches decisions. [`authority`] issues permits.
//! 4. [`commit_kind`] determines the actions of a commit.
//! 5. [`lockout`] checks whether a principal can still manage policies after a change.
//!    [`expectations`] are tests of policies, [`listing`] describes policies, [`roles`] returns the
//!    principals in policies, and [`notation`] parses grantees and resources.

pub mod action;
pub mod authority;
pub mod bundled;
pub mod cache;
pub mod commit_kind;
mod conditions;
pub mod context;
pub mod decide;
mod distinctions;
mod entities;
pub mod expectations;
pub mod grants;
pub mod listing;
pub mod lockout;
pub mod notation;
pub mod page;
pub mod permit;
pub mod policy_file;
mod policy_inputs;
pub mod policy_set;
pub mod problem;
pub mod remedies;
pub mod resource;
mod roles;
mod rules;
pub mod schema;
mod scope_filter;
pub mod settings;
