//! Rank 8: the composition root, the only room that knows all others: settings become components,
//! components become a server, and the server stops in order.

pub mod background;
pub mod banner;
pub mod build;
pub mod check;
pub mod clone;
pub mod connections;
mod directory_probe;
pub mod doctor;
pub mod fsck;
pub mod issuers;
mod locations;
pub mod lock;
pub mod loss;
mod measure;
mod offline;
pub mod policies;
pub mod preview;
pub mod run;
mod start_log;
pub mod state;
pub mod stop_signals;
pub mod stopped;
pub mod tasks;
pub mod tls;
mod warehouses;

pub use build::App;
