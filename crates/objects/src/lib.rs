//! Rank 4: the warehouse's files.
//!
//! A [`location`] is the text that Iceberg metadata holds; [`warehouse_files`] resolves one to an
//! object of a store, if the warehouse may use it. A [`metadata_file`] is written once, under a new
//! name, put-if-absent. [`reachable`] tells which files a table's metadata leads to, and a
//! [`directory`] what else there is. Of no file more is read than its [`content`] may have.
//!
//! [`stores`] opens what a warehouse is kept in that is made at run time: whoever makes one says
//! where, with [`harmless`] options alone, and a [`probe`] shows that it works. What they are told
//! is [`scrub`]bed.
//!
//! Buckets are opened so that a name is taken only where something is there ([`conditional`]).
//! Whether a store keeps that up among many writers is what a [`race`] shows, and whether it is
//! there at all [`reach`].
//!
//! No location of a warehouse or a table may overlap with one that the catalog has [`reserved`] for
//! itself.
//!
//! Clients go to the files of tables on their own: with credentials that a [`vend`]or gets for
//! them, or with a signature for each request ([`sign`]).

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
