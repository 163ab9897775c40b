//! The state machine of one process.

mod config;
mod flaw;
mod proceed;
mod reports;
mod state;
mod step;

#[cfg(test)]
mod tests;

use uuid::Uuid;

pub use config::{ElectionConfig, Role};
#[cfg(test)]
pub(crate) use flaw::Flaw;
pub use step::{Event, PutOutcome, Step};

use crate::register::{Successor, WriterRecord, WriterState};
use crate::time::Moment;
use state::{Attempt, Held, Observed, Phase, Request, StoreState, margin};

/// The election as one process sees it. Deterministic: the same events at the same moments with
/// the same nonces return the same steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Election {
    config: ElectionConfig,
    catalog: Option<Uuid>,
    phase: Phase,
    store: StoreState,
    is_reading_epoch: bool,
    /// The request of the register that is under way. Never more than one.
    request: Option<Request>,
    /// The start of the last put.
    last_put: Moment,
    /// The earliest moment of the next request of the register.
    next: Moment,
    /// Whether the register has been read, so that an absent `observed` means an absent object.
    has_read: bool,
    observed: Option<Observed>,
    held: Option<Held>,
    /// Own puts since the last one that is known to have succeeded.
    attempts: Vec<Attempt>,
    /// Whether the last put had no success, so that the register has to be read first.
    is_unresolved: bool,
    /// Whether an eligible process that reads only the present format of the store may take over.
    has_older_candidates: bool,
    /// This process is no candidate before this moment.
    not_before: Moment,
    failed_opens: u8,
    served_from: Moment,
    /// The process to which this holder gives its term.
    successor: Option<Successor>,
    /// Whether this holder ends its term so that no process takes over.
    is_pausing: bool,
    is_stopping: bool,
    #[cfg(test)]
    flaw: Option<Flaw>,
}

impl Election {
    /// Creates the machine. Its first event is [`Event::Started`].
    pub fn new(config: ElectionConfig) -> Self {
        let start = Moment::default();
        Self {
            config,
            catalog: None,
            phase: Phase::Standby,
            store: StoreState::Closed,
            is_reading_epoch: false,
            request: None,
            last_put: start,
            next: start,
            has_read: false,
            observed: None,
            held: None,
            attempts: Vec::new(),
            is_unresolved: false,
            has_older_candidates: true,
            not_before: start,
            failed_opens: 0,
            served_from: start,
            successor: None,
            is_pausing: false,
            is_stopping: false,
            #[cfg(test)]
            flaw: None,
        }
    }

    /// Creates a machine with a deliberate mistake.
    #[cfg(test)]
    pub(crate) fn with_flaw(config: ElectionConfig, flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::new(config) }
    }

    /// Processes an event that was observed at `now`, and returns the next steps. `nonce` returns
    /// another random id with each call. `now` must not be earlier than in the previous call.
    pub fn handle(
        &mut self,
        now: Moment,
        event: Event,
        mut nonce: impl FnMut() -> Uuid,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.phase != Phase::Stopped {
            self.report(now, event, &mut steps);
            self.proceed(now, &mut nonce, &mut steps);
        }
        steps
    }

    /// Sets the id of the catalog, which the next put contains.
    pub fn set_catalog(&mut self, catalog: Uuid) {
        self.catalog = Some(catalog);
    }

    /// Notes whether an eligible process that reads only the present format of the store may take
    /// over. Until then, the election assumes this. While it is the case, a process that would raise
    /// the format leaves the term to the other one for some leases, because the other one could not take
    /// over afterwards.
    pub fn note_older_candidates(&mut self, exist: bool) {
        self.has_older_candidates = exist;
    }

    /// Whether this process would raise the format of the store by opening it. The last holder has
    /// raised it to its own format.
    pub fn raises_format(&self) -> bool {
        let format = |record: &WriterRecord| record.holder.store_format;
        self.last_record().is_some_and(|it| format(it) < self.config.member.store_format)
    }

    /// Returns the current role.
    pub fn role(&self) -> Role {
        match self.phase {
            Phase::Standby => Role::Standby,
            Phase::ReadingEpoch | Phase::Naming(_) if self.held.is_none() => Role::Candidate,
            Phase::ReadingEpoch
            | Phase::Naming(_)
            | Phase::OpeningStore
            | Phase::Confirming
            | Phase::Checking => Role::Opening,
            Phase::Serving => Role::Writer,
            Phase::Draining | Phase::Closing | Phase::Releasing => Role::Leaving,
            Phase::Deposed => Role::Deposed,
            Phase::Stopped => Role::Stopped,
        }
    }

    /// Returns the moment until which this process may answer reads from its store, exclusively.
    /// `None` if it may not answer any. Only a writer has this authority, and keeps it while it
    /// finishes its requests. The check of a read must come after the arrival of the read.
    pub fn authority_until(&self) -> Option<Moment> {
        let is_serving = matches!(self.phase, Phase::Serving | Phase::Draining);
        let is_open = matches!(self.store, StoreState::Open(_));
        let held = self.held.as_ref().filter(|_| is_serving && is_open)?;
        Some(held.since + self.config.lease().saturating_sub(margin(self.config.lease_ms)))
    }

    /// Whether this process holds the register, to its own knowledge.
    pub fn holds_term(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the record of the writer that processes requests, to the knowledge of this process.
    /// The writer itself gets its own record.
    pub fn known_writer(&self) -> Option<&WriterRecord> {
        let record = self.observed.as_ref().map(|observed| &observed.record)?;
        let is_own = record.holder.node == self.config.member.node;
        let is_serving = record.state == WriterState::Serving;
        (is_serving && (!is_own || self.phase == Phase::Serving)).then_some(record)
    }

    /// Returns the last known record, whatever its state.
    pub fn last_record(&self) -> Option<&WriterRecord> {
        self.observed.as_ref().map(|observed| &observed.record)
    }

    /// Returns the settings of this process.
    pub fn config(&self) -> &ElectionConfig {
        &self.config
    }
}
