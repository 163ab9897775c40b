//! Rank 6: HTTP. The only room that knows a status code, a header, a path or the shape of a body.
//!
//! A handler extracts, calls the catalog, and shapes the answer. All routes stand on one page
//! ([`router`]), all errors in one table ([`error`]), and all shapes in [`wire`], with the names that
//! the specification gives them.

pub mod access_log;
pub mod admission;
pub mod answers;
pub mod authenticate;
pub mod coding;
pub mod cors;
pub mod cross_origin;
pub mod endpoints;
pub mod error;
pub mod extract;
pub mod files;
pub mod guard;
pub mod host;
pub mod iceberg;
pub mod leaving;
pub mod management;
pub mod oauth;
pub mod observe;
pub mod ops;
pub mod peer;
pub mod rate_limits;
pub mod rejection_log;
pub mod request_id;
pub mod respond;
pub mod router;
pub mod state;
pub mod tag;
pub mod unread;
pub mod wire;
