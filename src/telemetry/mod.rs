//! Rank 2: what the process tells about itself: logs, and counters.

pub mod cache;
pub mod counters;
pub mod logs;
pub mod settings;
