//! The parameters of a simulated cluster that tests vary, and the invariants that they check.

use crate::election::Flaw;

/// The parameters of a simulated cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) nodes: usize,
    pub(super) lease_ms: u64,
    pub(super) renew_ms: u64,
    /// Whether the driver can read epochs, so that an open claims exactly one.
    pub(super) reads_epochs: bool,
    pub(super) mistake: Mistake,
    pub(super) faults: Faults,
}

/// A mistake of the protocol, of the driver or of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mistake {
    None,
    Protocol(Flaw),
    PutWithoutCondition,
    StoreWithoutFence,
}

/// The number of faults that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    pub(super) lost_responses: u8,
    pub(super) stops: u8,
    pub(super) transfers: u8,
    pub(super) pauses: u8,
    /// Notices that the register has changed, true or not.
    pub(super) notices: u8,
    pub(super) crashes: u8,
    pub(super) foreign_opens: u8,
    pub(super) commits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Invariant {
    /// I1: a commit is acknowledged only by the process that opened the store last.
    Fence,
    /// I2: terms rise by one, and each term has one holder.
    Terms,
    /// I3: at most one process may answer reads, and it knows every acknowledged commit.
    Reads,
    /// I4: a process serves only after its put of `serving` with the epoch of its store.
    Confirmation,
    /// I5: a register changes its holder only after the lease, if it is released, or by a put of the
    /// holder.
    Patience,
    /// I6: a paused register is replaced only by an operator, and no process answers reads meanwhile.
    Pause,
}
