//! Rank 2: what the process tells about itself: logs, counters, and who did what.

pub mod audit;
pub mod cache;
#[cfg(feature = "console")]
mod console;
pub mod counters;
pub mod jobs;
pub mod logs;
pub mod settings;
