//! Rank 7: settings. The product of every room's own, and the only reader of files and of the
//! environment.
//!
//! Later ones win: the defaults, then `config/*.toml` or the file of `--config`, then variables
//! `SLATEBERG__SECTION__KEY`, then flags.

pub mod client;
pub mod layers;
pub mod load;
mod memory;
pub mod problem;
mod secrets;
pub mod settings;
pub mod show;

pub use load::{Error, Read, Sources, load, read};
pub use settings::{FileAccessSettings, Settings, WarehouseSettings};
