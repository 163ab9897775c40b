//! Rank 7: settings. The product of every room's own, and the only reader of files and of the
//! environment.
//!
//! Later ones win: the defaults, then `config/*.toml` or the file of `--config`, then variables
//! `SLATEBERG__SECTION__KEY`, then flags.

pub mod client;
pub mod load;
pub mod settings;

pub use load::{Error, Sources, load};
pub use settings::{FileAccessSettings, Settings, WarehouseSettings};
