//! A catalog embedded in the process of another program, without HTTP.
//!
//! The *host* is the program that opens the catalog. It uses no protocol and no credential.
//! Instead, it names the principal of each call, and policies decide as they do for HTTP requests.
//!
//! - [`open`]: opens a catalog from settings, in the same way as a server.
//! - `shared`: the open catalog that all handles share, and its shutdown.
//! - [`handle`]: the entry point of the typed API, with a warehouse, a principal and an idempotency
//!   key.
//! - `fingerprint`: the hash of a call to which an idempotency key is bound.
//! - `call`: runs a call in a span for the host's traces.
//! - [`namespaces`], [`tables`], [`views`]: the methods, one per operation of
//!   [`slateberg_catalog`].
//! - `iceberg_catalog`, with the feature `iceberg`: the same operations as an implementation of
//!   `iceberg::Catalog`, for engines that use that trait. `translate` converts arguments to JSON,
//!   so that the parsers of HTTP requests can read them.
//!
//! By design, this crate does not access records, policies or keys. A call has the same steps as an
//! HTTP request: it resolves a warehouse that the principal may see, and then runs an operation of
//! the catalog, which authorizes the principal.

mod call;
#[cfg(feature = "iceberg")]
pub mod cause;
mod fingerprint;
mod handle;
#[cfg(feature = "iceberg")]
mod iceberg_catalog;
mod namespaces;
mod open;
mod shared;
mod tables;
#[cfg(feature = "iceberg")]
mod translate;
mod views;

#[cfg(feature = "iceberg")]
pub use cause::cause;
pub use handle::EmbeddedCatalog;
#[cfg(feature = "iceberg")]
pub use iceberg_catalog::IcebergCatalog;
pub use open::Builder;

/// The error and result of an operation.
pub use slateberg_catalog::{Error, Result};
pub use slateberg_config::Settings;
pub use slateberg_model::principal::{Identity, IdentityKind};
pub use slateberg_runtime::dependencies::Dependencies;
pub use slateberg_runtime::error::BuildError as OpenError;
/// The error of a store that has closed, or did not close cleanly.
pub use slateberg_store::Error as StoreError;
