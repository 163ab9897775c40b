//! Opens a catalog with its background tasks from settings, and performs operations on a catalog
//! without a running server: restore, export, import, clone, fsck.
//!
//! - [`build`]: opens all parts of a catalog in the order of their dependencies.
//! - [`background`]: background tasks of an open catalog, for a server and for an embedding
//!   program.
//! - [`stopped`], [`clone`], [`fsck`], [`loss`]: operations on a catalog without a running server.

pub mod background;
pub mod build;
pub mod clone;
mod data_dir;
mod directory_probe;
pub mod error;
pub mod fsck;
pub mod issuers;
pub mod locations;
pub mod lock;
pub mod loss;
mod measure;
pub mod offline;
mod place;
pub mod policies;
pub mod preview;
pub mod seams;
mod start_log;
pub mod state;
pub mod stopped;
pub mod tasks;
pub mod warehouses;

pub use build::Runtime;
