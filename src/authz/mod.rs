//! Rank 3: who may do what. Pure: no IO, no async, no clock.
//!
//! Looking something up yields the thing and a [`permit::Permit`] for what is to be done with it; a
//! mutation demands the permit. So a handler cannot forget to authorize.

pub mod action;
pub mod decide;
pub mod permit;
