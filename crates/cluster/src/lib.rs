//! Rank 1 (`docs/architecture.md`): the election of the writer among several processes.

pub mod election;
pub mod register;
pub mod time;

#[cfg(test)]
mod simulation;

pub use election::{Election, ElectionConfig, Event, PutOutcome, Role, Step};
pub use register::{Member, Peer, RecordError, Tag, WriterRecord, WriterState};
pub use time::Moment;
