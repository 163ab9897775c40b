//! What a handler wants of a request, and the refusal if the request does not hold it.

pub mod accept_encoding;
pub mod body;
pub mod conditional;
pub mod delegation;
pub mod operation;
pub mod paging;
pub mod path;
pub mod query;
