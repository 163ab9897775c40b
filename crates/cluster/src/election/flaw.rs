//! The decisions that safety depends on. A test can replace each of them by a mistake, which proves
//! that the tests find mistakes of this kind.

use super::Election;
use super::state::Phase;
use super::step::PutOutcome;
use crate::register::WriterState;
use crate::time::Moment;

#[cfg(not(test))]
impl Election {
    /// A lease runs from the start of its put, because an observer may see the put before it ends.
    pub(super) fn start_of_lease(&self, started: Moment, _now: Moment) -> Moment {
        started
    }

    /// Patience runs from the end of a read, because the content may be as new as that.
    pub(super) fn start_of_patience(&self, _started: Moment, now: Moment) -> Moment {
        now
    }

    pub(super) fn resolve(&self, outcome: PutOutcome) -> PutOutcome {
        outcome
    }

    pub(super) fn needs_confirmation(&self) -> bool {
        true
    }

    pub(super) fn state_of_draining(&self) -> WriterState {
        WriterState::Leaving
    }

    /// A holder gives its term only after its store has closed, so that no read of this store comes
    /// after a commit of the successor.
    pub(super) fn gives_term(&self) -> bool {
        self.phase == Phase::Releasing
    }

    /// Only the register proves that a term has ended.
    pub(super) fn notice_releases(&self) -> bool {
        false
    }
}

/// A mistake in the protocol.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    AuthorityFromEndOfPut,
    PatienceFromStartOfRead,
    PatienceNotRestarted,
    ServeWithoutConfirmation,
    UnknownPutIsWritten,
    ReleaseBeforeAuthorityEnds,
    GiveBeforeStoreCloses,
    NoticeReleases,
}

#[cfg(test)]
impl Election {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(super) fn start_of_lease(&self, started: Moment, now: Moment) -> Moment {
        if self.has(Flaw::AuthorityFromEndOfPut) { now } else { started }
    }

    pub(super) fn start_of_patience(&self, started: Moment, now: Moment) -> Moment {
        let earlier = self.observed.as_ref().map(|it| it.seen);
        match self.flaw {
            Some(Flaw::PatienceFromStartOfRead) => started,
            Some(Flaw::PatienceNotRestarted) => earlier.unwrap_or(now),
            _ => now,
        }
    }

    pub(super) fn resolve(&self, outcome: PutOutcome) -> PutOutcome {
        let attempt = self.attempts.last();
        match (outcome, attempt) {
            (PutOutcome::Unknown, Some(attempt)) if self.has(Flaw::UnknownPutIsWritten) => {
                PutOutcome::Written(crate::register::Tag(attempt.record.nonce.to_string()))
            }
            (outcome, _) => outcome,
        }
    }

    pub(super) fn needs_confirmation(&self) -> bool {
        !self.has(Flaw::ServeWithoutConfirmation)
    }

    pub(super) fn state_of_draining(&self) -> WriterState {
        if self.has(Flaw::ReleaseBeforeAuthorityEnds) {
            return WriterState::Released;
        }
        WriterState::Leaving
    }

    pub(super) fn gives_term(&self) -> bool {
        let is_early = self.has(Flaw::GiveBeforeStoreCloses) && self.phase == Phase::Draining;
        is_early || self.phase == Phase::Releasing
    }

    pub(super) fn notice_releases(&self) -> bool {
        self.has(Flaw::NoticeReleases)
    }
}
