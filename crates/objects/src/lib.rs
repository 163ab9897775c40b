//! Rank 4 (`docs/architecture.md`): the files of warehouses.
//!
//! [`warehouse_files`] finds the object for a [`location`] in Iceberg metadata. It rejects
//! locations that the warehouse may not use. A [`metadata_file`] is written once, under a new name,
//! with a conditional put. A [`manifest_list`] of a rebased append is read and written in the same
//! way. Scan planning reads each [`manifest`] into columns. [`reachable`] lists the files that a
//! table's metadata references, and a [`directory`] lists all files. [`content`] limits how much of
//! a file is read.
//!
//! [`stores`] opens the storage of warehouses that are created at run time. Requests may set only
//! the options in [`option_allowlist`], and a [`probe`] tests the location. [`redact`] removes
//! secrets from messages.
//!
//! Files on the [`local`] file system can be synced together after they were written.
//!
//! Stores in a network are [`hedged`]: a slow put is sent a second time. [`conditional`] verifies a
//! store's response that an object already exists. A
//! [`conditional_put_test`] tests conditional puts of many writers, and [`ping`] tests whether a
//! store responds.
//!
//! A [`register`] is one object that several processes replace on the condition that it is
//! unchanged, and a [`folder`] contains small objects.
//!
//! No location of a warehouse or table may overlap with a location that the catalog has
//! [`reserved`].
//!
//! Clients access the files of tables directly: with vended credentials ([`vend`]), or with a
//! signature for each request ([`sign`]).

mod avro;
mod cloud;
pub mod conditional;
pub mod conditional_put_test;
pub mod content;
mod credentials;
pub mod directory;
pub mod error;
pub mod folder;
mod forward;
pub mod hedged;
pub mod local;
pub mod location;
pub mod manifest;
pub mod manifest_list;
pub mod measured;
pub mod metadata_discovery;
pub mod metadata_file;
pub mod open;
pub mod option_allowlist;
mod option_names;
pub mod ping;
pub mod probe;
pub mod reachable;
mod redact;
pub mod register;
pub mod reserved;
pub mod sign;
pub mod stores;
pub mod vend;
pub mod warehouse_files;

pub use error::Error;
pub use warehouse_files::Objects;
