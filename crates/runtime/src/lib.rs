//! Opens a catalog and its background tasks from settings. Also performs operations on a catalog
//! without a running server: restore, export, import, clone, fsck.
//!
//! - [`build`]: opens all parts of a catalog in the order of their dependencies.
//! - [`background`]: background tasks of an open catalog, for a server and for an embedding
//!   program.
//! - [`offline_writer`], [`clone`], [`fsck`], [`loss`]: operations on a catalog without a running
//!   server.

pub mod background;
pub mod build;
pub mod clone;
pub mod cluster;
mod data_dir;
pub mod dependencies;
mod directory_probe;
pub mod error;
pub mod fsck;
pub mod issuers;
pub mod locations;
pub mod lock;
pub mod loss;
mod metrics;
pub mod offline;
pub mod offline_writer;
pub mod policies;
pub mod preview;
mod start_log;
pub mod state;
pub mod tasks;
mod warehouse_location;
pub mod warehouses;

pub use build::Runtime;
