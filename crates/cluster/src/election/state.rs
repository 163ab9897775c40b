//! The parts of the state of an election.

use std::time::Duration;

use crate::register::{Tag, WriterRecord};
use crate::time::Moment;

/// Failed or fenced opens after which a holder gives the register back.
pub(super) const MAX_FAILED_OPENS: u8 = 3;

/// Number of leases for which a process leaves the term to processes of an older version.
const OLDER_FIRST_LEASES: u32 = 10;

/// The position of this process in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Standby,
    /// Reads the epoch that the next put of `opening` names: a candidate without, or a holder with
    /// the register.
    ReadingEpoch,
    /// Puts `opening` with the epoch that it will claim. 0 if the driver cannot read epochs.
    Naming(u64),
    OpeningStore,
    /// The store is open, and the put of `serving` with its epoch has not succeeded yet.
    Confirming,
    Serving,
    /// The store is lost. The holder has to find itself in the register before it opens again.
    Checking,
    Draining,
    Closing,
    Releasing,
    Deposed,
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StoreState {
    Closed,
    Opening,
    Aborting,
    Open(u64),
    Closing,
}

/// A body of the register, and the moment from which its patience runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Observed {
    pub(super) record: WriterRecord,
    pub(super) tag: Tag,
    pub(super) seen: Moment,
}

/// The last own put that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) record: WriterRecord,
    pub(super) tag: Tag,
    /// The start of that put, from which the lease runs.
    pub(super) since: Moment,
}

/// An own put that may be in the bucket, now or later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) record: WriterRecord,
    pub(super) started: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Read,
    Put,
}

/// Returns how much earlier than the lease a holder's authority ends, and how much later than the
/// lease an observer's patience ends.
pub(super) fn margin(lease_ms: u64) -> Duration {
    Duration::from_millis((lease_ms / 20).max(200))
}

/// Returns how long an observer waits for a change of a record before it takes over.
pub(super) fn patience(record: &WriterRecord) -> Duration {
    Duration::from_millis(record.lease_ms).saturating_add(margin(record.lease_ms))
}

/// Returns the time for which a process leaves the term to processes of an older version. The time is
/// limited because they may respond to other members without reaching the bucket.
pub(super) fn older_first(record: &WriterRecord) -> Duration {
    Duration::from_millis(record.lease_ms).saturating_mul(OLDER_FIRST_LEASES)
}
