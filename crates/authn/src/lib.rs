//! Rank 5: authentication. Resolves a credential to its principal.
//!
//! Terms:
//! - a **credential** is part of a request: an **API key** (`sb_...`), or a **token** (a JWT);
//! - an **API key** has 256 random bits ([`key_text`]). The store contains only its SHA-256
//!   ([`api_keys`]). All keys are in memory, indexed by that hash ([`key_index`]). So
//!   authentication does not read from the store, and a revocation applies to the next request;
//! - an **issuer** is an external party that signs tokens ([`issuers`]). Its **key set** verifies
//!   them ([`key_set`]). This crate does no HTTP: other code fetches the key sets and stores them
//!   here;
//! - a **client certificate** authenticates the client of a connection ([`client_certificates`]).
//!   The TLS handshake verifies the certificate. If a request contains a key or token as well, that
//!   credential takes precedence;
//! - an **own token** is a short-lived token that slateberg signs for the holder of an API key
//!   ([`own_tokens`]). It becomes invalid together with the key.
//!
//! All rejections have the same response, so the client does not learn the reason. The log contains
//! the reason.

pub mod advice;
mod algorithms;
pub mod api_keys;
pub mod authenticator;
mod claims;
pub mod client_certificates;
pub mod error;
mod failures;
pub mod issuer_rules;
pub mod issuers;
pub mod key_index;
pub mod key_listing;
pub mod key_set;
pub mod key_text;
mod own_tokens;
pub mod settings;

pub use authenticator::Authenticator;
pub use error::{Error, Result};
