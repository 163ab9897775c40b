//! The next steps of an election, from its state.

use uuid::Uuid;

use super::state::{Attempt, Phase, Request, StoreState, older_first, patience};
use super::{Election, Step};
use crate::register::{WriterRecord, WriterState};
use crate::time::Moment;

impl Election {
    pub(super) fn proceed(
        &mut self,
        now: Moment,
        nonce: &mut dyn FnMut() -> Uuid,
        steps: &mut Vec<Step>,
    ) {
        while self.change_phase(now, steps) {}
        self.request_register(now, nonce, steps);
        steps.extend(self.wake_up(now).map(Step::WaitUntil));
    }

    /// Executes what needs no request of the register. Returns whether the phase has changed.
    fn change_phase(&mut self, now: Moment, steps: &mut Vec<Step>) -> bool {
        let before = self.phase;
        let is_closed = self.store == StoreState::Closed;
        if self.is_leaving() && self.leave(now, is_closed, steps) {
            return true;
        }
        match self.phase {
            Phase::Standby => {
                let may_claim = self.claim_from().is_some_and(|moment| moment <= now);
                if may_claim && self.request.is_none() {
                    self.phase = Phase::ReadingEpoch;
                }
            }
            Phase::Deposed if is_closed && now >= self.not_before => self.phase = Phase::Standby,
            Phase::Deposed | Phase::Checking => self.close_store(steps),
            Phase::ReadingEpoch if !self.is_reading_epoch => {
                self.is_reading_epoch = true;
                steps.push(Step::ReadEpoch);
            }
            Phase::OpeningStore => self.open_store(steps),
            Phase::Closing if is_closed => {
                self.phase = Phase::Releasing;
                self.next = now;
            }
            Phase::Closing => self.close_store(steps),
            // Every observer may take over, so a release would be pointless.
            Phase::Releasing if self.request.is_none() && self.lease_ends() <= Some(now) => {
                self.lose(now);
            }
            _ => {}
        }
        self.phase != before
    }

    /// Whether the operator ends the term or the process.
    fn is_leaving(&self) -> bool {
        self.is_stopping || self.is_pausing || self.successor.is_some()
    }

    /// Leaves the current phase on the way to the end of the term or of the process. Returns whether
    /// the phase has changed.
    fn leave(&mut self, now: Moment, is_closed: bool, steps: &mut Vec<Step>) -> bool {
        let before = self.phase;
        match self.phase {
            Phase::Standby | Phase::Deposed if is_closed && self.is_stopping => {
                self.phase = Phase::Stopped;
                steps.push(Step::Done);
            }
            Phase::ReadingEpoch | Phase::Naming(_) if self.held.is_none() => {
                let is_certain = self.request.is_none() && !self.is_unresolved;
                if self.attempts.is_empty() || is_certain {
                    self.lose(now);
                }
            }
            Phase::Serving => {
                self.phase = Phase::Draining;
                self.next = now;
                steps.push(Step::Drain);
            }
            Phase::Checking
            | Phase::ReadingEpoch
            | Phase::Naming(_)
            | Phase::OpeningStore
            | Phase::Confirming => self.phase = Phase::Closing,
            _ => {}
        }
        self.phase != before
    }

    fn close_store(&mut self, steps: &mut Vec<Step>) {
        match self.store {
            StoreState::Open(_) => {
                self.store = StoreState::Closing;
                steps.push(Step::CloseStore);
            }
            // An open that the operator does not stop ends by itself.
            StoreState::Opening if self.is_leaving() => {
                self.store = StoreState::Aborting;
                steps.push(Step::AbortOpen);
            }
            _ => {}
        }
    }

    fn open_store(&mut self, steps: &mut Vec<Step>) {
        let epoch = self.held.as_ref().map_or(0, |held| held.record.epoch);
        if self.store == StoreState::Closed {
            self.store = StoreState::Opening;
            steps.push(Step::OpenStore { expected_epoch: epoch.checked_sub(1) });
        }
    }

    /// Returns the moment from which this standby may take over the observed record. `None` during a
    /// pause. Adds some leases while a process of an older version may take over.
    fn claim_from(&self) -> Option<Moment> {
        if !self.config.eligible || !self.has_read || self.store != StoreState::Closed {
            return None;
        }
        let Some(observed) = &self.observed else { return Some(self.not_before) };
        let record = &observed.record;
        let from = match record.state {
            WriterState::Released => observed.seen,
            WriterState::Paused if self.respects_pause() => return None,
            _ => observed.seen + patience(record),
        };
        let lets_older_first = self.raises_format() && self.has_older_candidates;
        let from = if lets_older_first { from + older_first(record) } else { from };
        Some(from.max(self.not_before))
    }

    fn lease_ends(&self) -> Option<Moment> {
        self.held.as_ref().map(|held| held.since + patience(&held.record))
    }

    fn wake_up(&self, now: Moment) -> Option<Moment> {
        let is_idle = match self.phase {
            Phase::Stopped => false,
            Phase::ReadingEpoch => self.request.is_none() && self.held.is_some(),
            _ => self.request.is_none(),
        };
        let other = match self.phase {
            Phase::Standby => self.claim_from(),
            Phase::Deposed => Some(self.not_before),
            Phase::Releasing => self.lease_ends(),
            _ => None,
        };
        let moments = [is_idle.then_some(self.next), other];
        moments.into_iter().flatten().filter(|moment| *moment > now).min()
    }

    fn request_register(
        &mut self,
        now: Moment,
        nonce: &mut dyn FnMut() -> Uuid,
        steps: &mut Vec<Step>,
    ) {
        if self.request.is_some() || now < self.next {
            return;
        }
        let state = match self.phase {
            Phase::Stopped => return,
            Phase::ReadingEpoch if self.held.is_none() => return,
            Phase::Standby | Phase::Deposed | Phase::Checking => None,
            _ if self.is_unresolved => None,
            Phase::ReadingEpoch | Phase::Naming(_) | Phase::OpeningStore => {
                Some(WriterState::Opening)
            }
            Phase::Confirming | Phase::Serving => Some(WriterState::Serving),
            Phase::Draining => Some(self.state_of_draining()),
            Phase::Closing => Some(WriterState::Leaving),
            Phase::Releasing if self.is_pausing => Some(WriterState::Paused),
            Phase::Releasing => Some(WriterState::Released),
        };
        let Some(state) = state else {
            self.request = Some(Request::Read);
            steps.push(Step::ReadRegister);
            return;
        };
        let record = self.next_record(state, nonce());
        let observed = self.observed.as_ref().map(|it| &it.tag);
        let replaces = self.held.as_ref().map(|it| &it.tag).or(observed).cloned();
        self.request = Some(Request::Put);
        self.last_put = now;
        self.attempts.push(Attempt { record: record.clone(), started: now });
        steps.push(Step::PutRegister { record: Box::new(record), replaces });
    }

    fn next_record(&self, state: WriterState, nonce: Uuid) -> WriterRecord {
        let held = self.held.as_ref().map(|it| &it.record);
        let previous = held.or(self.observed.as_ref().map(|it| &it.record));
        let (term, renewal) = previous.map_or((0, 0), |it| (it.term, it.renewal));
        let epoch = match (self.phase, self.store) {
            (Phase::Naming(epoch), _) | (_, StoreState::Open(epoch)) => epoch,
            _ => held.map_or(0, |it| it.epoch),
        };
        let record = WriterRecord {
            format: state.format(),
            catalog: self.catalog.or(previous.and_then(|it| it.catalog)),
            term: term.saturating_add(u64::from(held.is_none())),
            renewal: renewal.saturating_add(1),
            nonce,
            state,
            epoch,
            sequence: 0,
            policy_hash: String::new(),
            lease_ms: self.config.lease_ms,
            holder: self.config.member.clone(),
            peer: self.config.peer.clone(),
        };
        match self.successor.as_ref().filter(|_| self.gives_term()) {
            Some(successor) => WriterRecord {
                term: record.term.saturating_add(1),
                state: WriterState::Opening,
                // 0 if the driver cannot read epochs. Then the successor cannot either.
                epoch: if epoch == 0 { 0 } else { epoch.saturating_add(1) },
                holder: successor.member.clone(),
                peer: successor.peer.clone(),
                ..record
            },
            None => record,
        }
    }
}
