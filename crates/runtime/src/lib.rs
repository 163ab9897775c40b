//! From settings to an open catalog with its background tasks, and the operations on a catalog that no server
//! serves: restore, export, import, clone, fsck.
//!
//! - [`build`]: opens a catalog with all its parts, in the order in which they need each other.
//! - [`background`]: what an open catalog does besides answering, for a server and for an embedding program
//!   alike.
//! - [`stopped`], [`clone`], [`fsck`], [`loss`]: work on a catalog that is not served.

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
