//! Layer 4: the files of warehouses.
//!
//! [`warehouse_files`] resolves a [`location`] in Iceberg metadata to an object of a store, if the
//! warehouse may use it. A [`metadata_file`] is written once, under a new name, with a conditional
//! put. [`reachable`] lists the files that a table's metadata references, and a [`directory`] lists
//! all files. [`content`] limits how much of a file is read.
//!
//! [`stores`] opens the storage of warehouses that are created at run time. Requests may only set
//! [`harmless`] options, and a [`probe`] tests the location. [`scrub`] removes secrets from
//! messages.
//!
//! [`conditional`] reports an existing object only if there is one. A [`race`] tests conditional
//! puts of many writers, and [`reach`] whether a store responds.
//!
//! No location of a warehouse or table may overlap with a location that the catalog has
//! [`reserved`].
//!
//! Clients access the files of tables directly: with credentials of a [`vend`]or, or with a
//! signature for each request ([`sign`]).

mod avro;
mod cloud;
pub mod conditional;
pub mod content;
pub mod credentials;
pub mod directory;
pub mod error;
pub mod found;
pub mod harmless;
pub mod location;
pub mod measured;
pub mod metadata_file;
pub mod open;
mod option_names;
pub mod probe;
pub mod race;
pub mod reach;
pub mod reachable;
pub mod reserved;
pub mod scrub;
pub mod sign;
pub mod stores;
pub mod vend;
pub mod warehouse_files;

pub use error::Error;
pub use warehouse_files::Objects;
