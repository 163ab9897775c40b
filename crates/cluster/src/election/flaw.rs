//! The decisions that safety depends on. A test can replace each of them by a mistake, which proves
//! that the tests find mistakes of this kind. Everything else is the same code in tests and in
//! servers.

use super::Election;
use super::state::Phase;
use super::step::PutOutcome;
use crate::register::WriterState;
use crate::time::Moment;

/// A mistake in the protocol.
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
    PauseBeforeStoreCloses,
    TakeOverPaused,
}

impl Election {
    /// Whether a test has asked for this mistake.
    #[cfg(test)]
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Servers make no mistake on purpose.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "it has the signature of the function of tests")]
    const fn has(&self, _flaw: Flaw) -> bool {
        false
    }

    /// A lease runs from the start of its put, because an observer may see the put before it ends.
    pub(super) fn start_of_lease(&self, started: Moment, now: Moment) -> Moment {
        if self.has(Flaw::AuthorityFromEndOfPut) { now } else { started }
    }

    /// Patience runs from the end of a read, because the content may be as new as that.
    pub(super) fn start_of_patience(&self, started: Moment, now: Moment) -> Moment {
        if self.has(Flaw::PatienceFromStartOfRead) {
            return started;
        }
        let earlier = self.observed.as_ref().filter(|_| self.has(Flaw::PatienceNotRestarted));
        earlier.map_or(now, |it| it.seen)
    }

    /// An unknown outcome of a put stays unknown until the register is read.
    pub(super) fn resolve(&self, outcome: PutOutcome) -> PutOutcome {
        match (outcome, self.attempts.last()) {
            (PutOutcome::Unknown, Some(attempt)) if self.has(Flaw::UnknownPutIsWritten) => {
                PutOutcome::Written(crate::register::Tag(attempt.record.nonce.to_string()))
            }
            (outcome, _) => outcome,
        }
    }

    /// A member serves only after the register has confirmed its term.
    pub(super) fn needs_confirmation(&self) -> bool {
        !self.has(Flaw::ServeWithoutConfirmation)
    }

    /// A holder that drains still has its authority.
    pub(super) fn state_of_draining(&self) -> WriterState {
        if self.has(Flaw::ReleaseBeforeAuthorityEnds) {
            return WriterState::Released;
        }
        if self.has(Flaw::PauseBeforeStoreCloses) && self.is_pausing {
            return WriterState::Paused;
        }
        WriterState::Leaving
    }

    /// Only an operator ends a pause.
    pub(super) fn respects_pause(&self) -> bool {
        !self.has(Flaw::TakeOverPaused)
    }

    /// A holder gives its term only after its store has closed, so that no read of this store comes
    /// after a commit of the successor.
    pub(super) fn gives_term(&self) -> bool {
        let is_early = self.has(Flaw::GiveBeforeStoreCloses) && self.phase == Phase::Draining;
        is_early || self.phase == Phase::Releasing
    }

    /// Only the register proves that a term has ended.
    pub(super) fn notice_releases(&self) -> bool {
        self.has(Flaw::NoticeReleases)
    }
}
