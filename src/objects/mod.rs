//! Rank 4: the warehouse's files.
//!
//! A [`location`] is the text that Iceberg metadata holds; [`warehouse_files`] resolves one to an
//! object of a store, if the warehouse may use it. A [`metadata_file`] is written once, under a new
//! name, put-if-absent. [`reachable`] tells which files a purged table's metadata leads to.

pub mod error;
pub mod location;
pub mod metadata_file;
pub mod open;
pub mod reachable;
pub mod warehouse_files;

pub use error::Error;
pub use warehouse_files::Objects;
