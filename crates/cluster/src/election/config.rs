//! The settings and the role of a process.

use std::time::Duration;

use crate::register::{Member, Peer};

/// The settings of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ElectionConfig {
    /// The duration of this process' leases.
    pub lease_ms: u64,
    /// The interval of renewals, and of reads by standbys.
    pub renew_ms: u64,
    /// Whether this process may become the writer.
    pub eligible: bool,
    /// This process.
    pub member: Member,
    /// The address of this process.
    pub peer: Peer,
}

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Observes the register, and forwards requests.
    Standby,
    /// Tries to take the register.
    Candidate,
    /// Holds the register, and opens the store or confirms its term.
    Opening,
    /// Processes requests.
    Writer,
    /// Finishes its requests, closes the store and releases the register.
    Leaving,
    /// Has lost the register or given it back after failures, and is no candidate for two leases.
    Deposed,
    /// Has ended.
    Stopped,
}

impl ElectionConfig {
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn renewal(&self) -> Duration {
        Duration::from_millis(self.renew_ms)
    }

    /// The shortest interval between two attempts of the same request.
    pub(super) fn retry(&self) -> Duration {
        Duration::from_millis((self.renew_ms / 4).max(1))
    }
}
