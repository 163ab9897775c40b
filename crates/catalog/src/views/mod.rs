//! Views, use case by use case.

pub mod commit;
pub mod create;
pub mod drop;
pub mod load;
