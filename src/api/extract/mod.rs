//! Extractors of the inputs of handlers. They reject a request if an input is missing or malformed.

pub mod accept_encoding;
pub mod body;
pub mod conditional;
pub mod delegation;
pub mod operation;
pub mod paging;
pub mod path;
pub mod query;
pub mod referenced_by;
