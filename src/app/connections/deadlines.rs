//! [`Deadlines`]: the time for which a connection may wait for its client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::activity::{Activity, Phase, PhaseEpoch};
use slateberg_config::server::Settings;

/// Timeouts of a connection, by phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    header_max: Duration,
    idle_max: Duration,
}

/// The deadline of the connection's current phase. The timer is reset only when it expires or when
/// an earlier deadline is needed, so that most requests do not touch it.
pub(super) struct Deadlines {
    timeouts: Timeouts,
    epoch: PhaseEpoch,
    /// `None` while the client waits for the server.
    deadline: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Timeouts {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { header_max: settings.header_max(), idle_max: settings.idle_max() }
    }

    fn for_phase(self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Header => Some(self.header_max),
            Phase::Idle | Phase::Stalled => Some(self.idle_max),
            Phase::Request => None,
        }
    }
}

impl Deadlines {
    /// Creates the deadlines of a new connection.
    pub(super) fn new(timeouts: Timeouts, activity: &Activity) -> Self {
        let epoch = activity.phase_epoch();
        let timer = Box::pin(sleep(timeouts.header_max));
        Self { timeouts, epoch, deadline: Some(timer.deadline()), timer }
    }

    /// Sets the deadline of a connection that the server has begun to close. Until then, the
    /// connection may end by itself.
    pub(super) fn set_close_deadline(&mut self, time: Duration) {
        self.deadline = Some(Instant::now() + time);
    }

    /// Returns the phase that timed out, once its deadline has passed. Must be polled after each
    /// step of the connection.
    pub(super) fn poll_expired(
        &mut self,
        context: &mut Context<'_>,
        activity: &Activity,
    ) -> Poll<Phase> {
        let epoch = activity.phase_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            let timeout = self.timeouts.for_phase(epoch.phase);
            self.deadline = timeout.map(|timeout| Instant::now() + timeout);
        }
        if let Some(deadline) = self.deadline.filter(|it| *it < self.timer.deadline()) {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let now = Instant::now();
            let next = self.deadline.unwrap_or(now + self.timeouts.idle_max);
            if next <= now {
                return Poll::Ready(epoch.phase);
            }
            self.timer.as_mut().reset(next);
        }
    }
}
