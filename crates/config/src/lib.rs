//! Rank 6 (`docs/architecture.md`): all settings. Only this crate reads settings files and the
//! environment.
//!
//! Later sources take precedence: the defaults, then `config/*.toml` or the file of `--config`,
//! then variables `SLATEBERG__SECTION__KEY`, then command line options.

mod bounds;
pub mod client;
pub mod cluster;
mod layers;
pub mod load;
mod memory;
pub mod problem;
mod rules;
mod secrets;
pub mod server;
pub mod setting_source;
mod settings;
mod shared_hashes;
pub mod show;
mod type_names;
mod variables;

pub use load::{Error, LoadedSettings, Sources, load, read};
pub use settings::{FileAccessSettings, Settings, WarehouseSettings};
