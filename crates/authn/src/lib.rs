//! Rank 5: from a credential to the principal that it proves.
//!
//! Nouns:
//! - a **credential** is what a request brings: an **API key** (`sb_...`), or a **token** (a JWT);
//! - an **API key** is 256 random bits as text ([`key_text`]); the store has its SHA-256 alone
//!   ([`api_keys`]), and all keys are kept in memory by that hash ([`key_index`]), so that a request
//!   costs no read and a revoked key is refused from the next request on;
//! - an **issuer** is an outside party that signs tokens, with the **key set** that they are verified by
//!   ([`issuers`], [`key_set`]). Key sets are pushed in by whoever fetches them: this room knows no HTTP;
//! - a **client certificate** proves who is at the other end of a connection ([`client_certificates`]); the
//!   handshake has verified it, and a request that brings another credential does without it;
//! - an **own token** is a short-lived one that slateberg signs for the holder of an API key
//!   ([`own_tokens`]). It speaks for the key, and dies with it.
//!
//! What is refused is refused with one text: whoever asks learns nothing about why. The reason goes to
//! the log.

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
