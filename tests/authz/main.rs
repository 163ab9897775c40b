//! Authorization: the permissions of the default policies, and equal decisions however they are
//! evaluated.

mod actions;
mod cli;
mod decisions;
mod documents;
mod lockout;
mod matrix;
mod properties;
mod support;
