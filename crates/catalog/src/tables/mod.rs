//! Tables, use case by use case.

pub mod commit;
pub mod create;
pub mod drop;
pub mod group;
pub(super) mod head;
mod judging;
pub mod load;
pub mod plan;
pub mod register;
