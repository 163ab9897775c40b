//! Rank 7: HTTP. Status codes, headers, paths and the shapes of bodies occur only here.
//!
//! A handler extracts its input, calls the catalog, and renders the response. All routes are in
//! [`router`], all errors in [`error`], and all shapes in [`wire`], with the names of the
//! specification.

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
