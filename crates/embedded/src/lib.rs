//! A catalog in the process of another program, without HTTP.
//!
//! Vocabulary: the *host* is the program that opens the catalog. It reads no protocol and shows no
//! credential: it says whom it acts for, and policies decide as they do for requests.
//!
//! - [`open`]: from settings to an open catalog, by the same composition as a server's.
//! - `house`: the open catalog that all handles share, and its end.
//! - [`handle`]: the typed API begins here: in which warehouse, as whom, under which key.
//! - `asked`: what a call asks for, as its key is bound to it.
//! - `call`: what becomes of each call, and the span that it is for the host's own traces.
//! - [`namespaces`], [`tables`], [`views`]: its methods, one for each use case of [`slateberg_catalog`].
//! - `iceberg_catalog`, with the feature `iceberg`: the same as `iceberg::Catalog`, for engines that know
//!   that trait. Its arguments become JSON (`translate`), which the parsers of requests read.
//!
//! What it deliberately does not do: know anything of records, policies or keys of its own. A call goes
//! the way of a request, from the warehouse that it may see to a use case that asks for its permit.

mod asked;
mod call;
#[cfg(feature = "iceberg")]
pub mod cause;
pub mod handle;
mod house;
#[cfg(feature = "iceberg")]
pub mod iceberg_catalog;
pub mod namespaces;
pub mod open;
pub mod tables;
#[cfg(feature = "iceberg")]
mod translate;
pub mod views;

#[cfg(feature = "iceberg")]
pub use cause::cause;
pub use handle::EmbeddedCatalog;
#[cfg(feature = "iceberg")]
pub use iceberg_catalog::IcebergCatalog;
pub use open::Builder;

/// Why a use case did not succeed.
pub use slateberg_catalog::{Error, Result};
pub use slateberg_config::Settings;
pub use slateberg_model::principal::{Identity, IdentityKind};
pub use slateberg_runtime::error::BuildError as OpenError;
pub use slateberg_runtime::seams::Seams;
/// Why a store did not close in order, or has shut.
pub use slateberg_store::Error as StoreError;
