//! The state machine of one process.

mod step;

use uuid::Uuid;

pub use step::{Event, PutOutcome, Step};

use crate::register::{Member, Peer, WriterRecord};
use crate::time::Moment;

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

/// The election as one process sees it. Deterministic: the same events at the same moments with
/// the same nonces return the same steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Election {
    config: ElectionConfig,
}

impl Election {
    /// Creates the machine. Its first event is [`Event::Started`].
    pub fn new(config: ElectionConfig) -> Self {
        Self { config }
    }

    /// Processes an event that was observed at `now`, and returns the next steps. `nonce` returns
    /// another random id with each call.
    pub fn handle(
        &mut self,
        _now: Moment,
        _event: Event,
        _nonce: impl FnMut() -> Uuid,
    ) -> Vec<Step> {
        Vec::new()
    }

    /// Sets the id of the catalog, which the next put contains.
    pub fn set_catalog(&mut self, _catalog: Uuid) {}

    /// Returns the current role.
    pub fn role(&self) -> Role {
        Role::Standby
    }

    /// Returns the moment until which this process may answer reads from its store. `None` if it
    /// may not answer any.
    pub fn authority_until(&self) -> Option<Moment> {
        None
    }

    /// Returns the record of the writer that processes requests, to the knowledge of this process.
    pub fn known_writer(&self) -> Option<&WriterRecord> {
        None
    }

    /// Returns the settings of this process.
    pub fn config(&self) -> &ElectionConfig {
        &self.config
    }
}
