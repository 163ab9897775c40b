//! Authorization: permissions of the default policies, and consistent decisions across all ways of
//! evaluation.

mod actions;
mod cli;
mod decisions;
mod documents;
mod lockout;
mod matrix;
mod properties;
mod support;
