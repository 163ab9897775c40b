//! Authorization: what the default policies allow, and that decisions are what policies say, however they
//! are asked for.

mod actions;
mod cli;
mod decisions;
mod documents;
mod lockout;
mod matrix;
mod properties;
mod support;
