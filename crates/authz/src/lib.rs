//! Rank 3: who may do what, by policies in Cedar. Pure: no IO, no async, no clock.
//!
//! Looking something up yields the thing and a [`permit::Permit`] for what is to be done with it; a
//! mutation demands the permit. So a handler cannot forget to authorize.
//!
//! 1. [`schema`] is what policies can speak of; [`policy_set`] is the policies in force, checked by it as a
//!    whole, with [`grants`] filled in.
//! 2. [`resource`] is what something is done to, [`context`] under which circumstances; `entities` puts
//!    both, and the principal, into Cedar's words.
//! 3. [`decide`] answers one question, [`page`] the same question for all names of a page, [`cache`] the
//!    questions that were answered before; [`authority`] is where permits are asked for.
//! 4. [`commit_kind`] tells which actions a commit needs permits for.
//! 5. [`lockout`] tells whether anybody could still manage policies after a change; [`expectations`] are
//!    tests of policies, for their authors; [`listing`] is for their readers, [`roles`] returns the
//!    principals that they mention, and [`notation`] how grantees and resources are called in one word.

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
pub mod facts;
pub mod grants;
pub mod listing;
pub mod lockout;
pub mod notation;
pub mod page;
pub mod permit;
pub mod policy_file;
pub mod policy_set;
pub mod problem;
mod relevant;
pub mod remedies;
pub mod resource;
pub mod roles;
mod rules;
pub mod schema;
pub mod settings;
