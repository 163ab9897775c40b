//! Extractors: the inputs of handlers, with a rejection for each missing or malformed one.

pub mod accept_encoding;
pub mod body;
pub mod conditional;
pub mod delegation;
pub mod operation;
pub mod paging;
pub mod path;
pub mod query;
