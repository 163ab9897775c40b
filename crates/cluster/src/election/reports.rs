//! The effect of each event on the state of an election.

use super::state::{Attempt, Held, MAX_FAILED_OPENS, Observed, Phase, StoreState, patience};
use super::{Election, Event, PutOutcome, Step};
use crate::register::{Successor, Tag, WriterRecord, WriterState};
use crate::time::Moment;

type Found = Option<(WriterRecord, Tag)>;

impl Election {
    pub(super) fn report(&mut self, now: Moment, event: Event, steps: &mut Vec<Step>) {
        match event {
            Event::Started => self.next = now,
            Event::RegisterRead { started, found } => {
                self.request = None;
                self.on_read(now, started, found, steps);
            }
            Event::ReadFailed => {
                self.request = None;
                self.next = now + self.config.retry();
                // A candidate that stops does not wait for the bucket to learn that it lost.
                if self.is_stopping && matches!(self.phase, Phase::Naming(_)) {
                    self.lose(now);
                }
            }
            Event::PutDone { started, outcome } => {
                self.request = None;
                self.on_put(now, started, outcome, steps);
            }
            Event::EpochRead { epoch } => {
                self.is_reading_epoch = false;
                if self.phase == Phase::ReadingEpoch {
                    self.phase = Phase::Naming(epoch.map_or(0, |epoch| epoch.saturating_add(1)));
                    self.next = now;
                }
            }
            Event::EpochReadFailed => self.on_epoch_failed(now),
            Event::Opened { epoch } => {
                self.store = StoreState::Open(epoch);
                self.on_opened(now, steps);
            }
            Event::OpenFailed => {
                self.store = StoreState::Closed;
                if self.phase == Phase::OpeningStore {
                    self.on_store_failed(now);
                }
            }
            Event::Fenced => self.on_store_lost(now),
            Event::StoreClosed => {
                self.store = StoreState::Closed;
                self.on_store_lost(now);
            }
            Event::Transfer { successor } => {
                let is_other = successor.member.node != self.config.member.node;
                let may_transfer = self.held.is_some() && !self.is_pausing;
                self.successor = Some(successor).filter(|_| is_other && may_transfer);
            }
            Event::Pause if self.held.is_some() => {
                self.is_pausing = true;
                self.successor = None;
            }
            Event::Stop => self.is_stopping = true,
            Event::RegisterChanged if self.phase == Phase::Standby => {
                self.next = now;
                if self.notice_releases() && self.request.is_none() {
                    self.phase = Phase::ReadingEpoch;
                }
            }
            Event::Drained if self.phase == Phase::Draining => self.phase = Phase::Closing,
            Event::Drained | Event::RegisterChanged | Event::Pause | Event::Tick => {}
        }
    }

    fn on_read(&mut self, now: Moment, started: Moment, found: Found, steps: &mut Vec<Step>) {
        self.is_unresolved = false;
        let is_changed = self.observe(now, started, found.as_ref());
        if let Some((record, tag)) = &found
            && let Some(own) = self.attempts.iter().find(|it| it.record.is_same_put(record))
        {
            self.on_written(now, own.clone(), tag.clone(), steps);
            return;
        }
        // One round of put and read per interval, even if every put fails at once.
        let retry = now.max(self.last_put + self.config.retry());
        if let Some(held) = &self.held {
            let renewal = now.max(held.since + self.config.renewal());
            let is_own = found.as_ref().is_some_and(|(it, _)| it.is_same_put(&held.record));
            match (is_own, self.phase) {
                (false, Phase::Releasing) if self.is_continued() => self.give_up_term(now),
                (false, _) => self.lose(now),
                (true, Phase::Checking) => {
                    self.phase = Phase::ReadingEpoch;
                    self.next = renewal;
                }
                (true, _) => self.next = retry,
            }
            return;
        }
        match self.phase {
            Phase::Naming(_) if is_changed || self.is_stopping => self.lose(now),
            Phase::Naming(_) => self.next = retry,
            Phase::Standby => self.on_observed(now),
            _ => self.next = now + self.config.renewal(),
        }
    }

    /// A standby has read the register. If a holder has given its term to this process, this process
    /// continues it.
    fn on_observed(&mut self, now: Moment) {
        self.next = now + self.config.renewal();
        let Some(Observed { record, tag, .. }) = &self.observed else { return };
        let is_own = record.holder.node == self.config.member.node;
        let may_continue = self.config.eligible && !self.is_stopping;
        match record.state {
            WriterState::Serving | WriterState::Paused => {}
            WriterState::Opening if is_own && may_continue && self.store == StoreState::Closed => {
                // The time of the put is unknown, so it gives no authority: this begins with the
                // own put of `serving`.
                self.held = Some(Held { record: record.clone(), tag: tag.clone(), since: now });
                self.phase = Phase::OpeningStore;
            }
            // The writer changes.
            _ => self.next = now + self.config.retry(),
        }
    }

    /// Whether the last content of the register is that of the successor of this holder.
    fn is_continued(&self) -> bool {
        let holds = |held: &Held, observed: &Observed, successor: &Successor| {
            let (record, term) = (&observed.record, held.record.term);
            record.term == term.saturating_add(1) && record.holder.node == successor.member.node
        };
        match (&self.held, &self.observed, &self.successor) {
            (Some(held), Some(observed), Some(successor)) => holds(held, observed, successor),
            _ => false,
        }
    }

    /// The successor has the term now, or the cluster is paused. This process is a standby as soon as
    /// its store is closed.
    fn give_up_term(&mut self, now: Moment) {
        self.attempts.clear();
        self.is_unresolved = false;
        self.held = None;
        self.successor = None;
        self.is_pausing = false;
        self.failed_opens = 0;
        self.phase = Phase::Deposed;
        self.next = now + self.config.retry();
    }

    /// Stores the content of the register. Returns whether it has changed since the last read.
    fn observe(
        &mut self,
        now: Moment,
        started: Moment,
        found: Option<&(WriterRecord, Tag)>,
    ) -> bool {
        self.has_read = true;
        let Some((record, tag)) = found else {
            let Some(removed) = self.observed.take() else { return false };
            // The holder of a record that an operator has removed may still answer reads.
            self.not_before = self.not_before.max(now + patience(&removed.record));
            return true;
        };
        let is_same = |it: &Observed| it.record.is_same_put(record) && it.tag == *tag;
        if self.observed.as_ref().is_some_and(is_same) {
            return false;
        }
        let seen = self.start_of_patience(started, now);
        self.observed = Some(Observed { record: record.clone(), tag: tag.clone(), seen });
        true
    }

    fn on_put(&mut self, now: Moment, started: Moment, put: PutOutcome, steps: &mut Vec<Step>) {
        let since = self.start_of_lease(started, now);
        let outcome = self.resolve(put);
        let Some(attempt) = self.attempts.last_mut() else { return };
        attempt.started = since;
        if let PutOutcome::Written(tag) = outcome {
            let attempt = attempt.clone();
            self.on_written(now, attempt, tag, steps);
            return;
        }
        // Even a conflict proves nothing: a proxy may have sent the request twice.
        self.is_unresolved = true;
        self.next = now;
    }

    /// An own put is in the register, and has counted since its start.
    fn on_written(&mut self, now: Moment, attempt: Attempt, tag: Tag, steps: &mut Vec<Step>) {
        let Attempt { record, started } = attempt;
        let (state, epoch) = (record.state, record.epoch);
        if record.holder.node != self.config.member.node {
            self.observed = Some(Observed { record, tag, seen: now });
            return self.give_up_term(now);
        }
        self.attempts.clear();
        self.is_unresolved = false;
        self.observed = Some(Observed { record: record.clone(), tag: tag.clone(), seen: now });
        self.held = Some(Held { record, tag, since: started });
        self.next = now.max(started + self.config.renewal());
        let is_own_store = self.store == StoreState::Open(epoch);
        match (self.phase, state) {
            (Phase::Naming(named), WriterState::Opening) if epoch == named => {
                self.phase = Phase::OpeningStore;
            }
            (Phase::Confirming, WriterState::Serving) if is_own_store => self.serve(now, steps),
            (Phase::Releasing, WriterState::Released) => self.lose(now),
            (Phase::Releasing, WriterState::Paused) => self.give_up_term(now),
            (Phase::Checking, _) => self.phase = Phase::ReadingEpoch,
            // An earlier put is in the register, and not the one that this phase needs.
            (Phase::Naming(_) | Phase::Confirming | Phase::Releasing, _) => self.next = now,
            _ => {}
        }
    }

    fn on_epoch_failed(&mut self, now: Moment) {
        self.is_reading_epoch = false;
        match (self.phase, &self.held) {
            (Phase::ReadingEpoch, None) => {
                self.not_before = now + self.config.retry();
                self.phase = Phase::Standby;
            }
            (Phase::ReadingEpoch, Some(_)) => self.on_store_failed(now),
            _ => {}
        }
    }

    fn on_opened(&mut self, now: Moment, steps: &mut Vec<Step>) {
        if self.phase != Phase::OpeningStore {
            return;
        }
        self.phase = Phase::Confirming;
        self.next = now;
        if !self.needs_confirmation() {
            self.serve(now, steps);
        }
    }

    fn serve(&mut self, now: Moment, steps: &mut Vec<Step>) {
        self.phase = Phase::Serving;
        self.served_from = now;
        steps.push(Step::Serve);
    }

    /// The open store is fenced or has closed.
    fn on_store_lost(&mut self, now: Moment) {
        match self.phase {
            Phase::Serving => {
                if now.since(self.served_from) >= self.config.lease() * 2 {
                    self.failed_opens = 0;
                }
                self.on_store_failed(now);
            }
            Phase::Confirming => self.on_store_failed(now),
            Phase::Draining => self.phase = Phase::Closing,
            _ => {}
        }
    }

    /// Opens again if this process still holds the register, or gives up after several failures.
    fn on_store_failed(&mut self, now: Moment) {
        self.failed_opens = self.failed_opens.saturating_add(1);
        self.next = now;
        self.phase = match self.failed_opens {
            MAX_FAILED_OPENS.. => Phase::Closing,
            _ => Phase::Checking,
        };
    }

    /// This process does not hold the register, or no longer. A former holder is no
    /// candidate for two leases.
    pub(super) fn lose(&mut self, now: Moment) {
        self.attempts.clear();
        self.is_unresolved = false;
        self.successor = None;
        self.is_pausing = false;
        self.next = now + self.config.renewal();
        if self.held.take().is_none() {
            self.phase = Phase::Standby;
            return;
        }
        self.failed_opens = 0;
        self.phase = Phase::Deposed;
        self.not_before = now + self.config.lease() * 2;
    }
}
