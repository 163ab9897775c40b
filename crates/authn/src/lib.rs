//! Rank 5: authentication: resolves a credential to its principal.
//!
//! Terms:
//! - a **credential** is part of a request: an **API key** (`sb_...`), or a **token** (a JWT);
//! - an **API key** has 256 random bits ([`key_text`]). The store contains only its SHA-256
//!   ([`api_keys`]). All keys are in memory by that hash ([`key_index`]), so authentication reads
//!   nothing and a revoked key is rejected from the next request on;
//! - an **issuer** is an external party that signs tokens, with the **key set** that verifies them
//!   ([`issuers`], [`key_set`]). Callers push key sets into it: this crate does no HTTP;
//! - a **client certificate** authenticates the client of a connection ([`client_certificates`]).
//!   The handshake has verified it. Another credential in a request takes precedence over it;
//! - an **own token** is a short-lived token that slateberg signs for the holder of an API key
//!   ([`own_tokens`]). It is valid only as long as the key.
//!
//! All rejections have the same response, so the caller does not learn the reason. The log contains
//! it.

pub mod advice;
mod algorithms;
pub mod api_keys;
pub mod authenticator;
pub mod claims;
pub mod client_certificates;
pub mod error;
pub mod failures;
pub mod issuer_rules;
pub mod issuers;
pub mod key_index;
pub mod key_listing;
pub mod key_set;
pub mod key_text;
pub mod own_tokens;
pub mod settings;

pub use authenticator::Authenticator;
pub use error::Error;

/// The result of managing credentials.
pub type Result<T> = std::result::Result<T, Error>;
