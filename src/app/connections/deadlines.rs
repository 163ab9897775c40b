//! [`Deadlines`]: the time for which a connection may wait for its client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::activity::{Activity, Moment, Phase};
use slateberg_config::server::Settings;

/// Timeouts of a connection, by phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    header_max: Duration,
    idle_max: Duration,
}

/// The deadline of the connection's current phase. The timer is reset only when it expires or when
/// an earlier deadline is needed, so that most requests do not touch it.
pub(super) struct Deadlines {
    patience: Patience,
    moment: Moment,
    /// `None` while the client waits for the server.
    deadline: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { header_max: settings.header_max(), idle_max: settings.idle_max() }
    }

    fn of(self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Header => Some(self.header_max),
            Phase::Idle | Phase::Stalled => Some(self.idle_max),
            Phase::Request => None,
        }
    }
}

impl Deadlines {
    /// Creates the deadlines of a new connection.
    pub(super) fn new(patience: Patience, activity: &Activity) -> Self {
        let moment = activity.moment();
        let timer = Box::pin(sleep(patience.header_max));
        Self { patience, moment, deadline: Some(timer.deadline()), timer }
    }

    /// Sets a deadline for the connection to end by itself.
    pub(super) fn give(&mut self, time: Duration) {
        self.deadline = Some(Instant::now() + time);
    }

    /// Ready once the deadline has passed, with the phase that timed out. The caller polls this
    /// after each step of the connection.
    pub(super) fn poll_expired(
        &mut self,
        context: &mut Context<'_>,
        activity: &Activity,
    ) -> Poll<Phase> {
        let moment = activity.moment();
        if moment != self.moment {
            self.moment = moment;
            let patience = self.patience.of(moment.phase);
            self.deadline = patience.map(|patience| Instant::now() + patience);
        }
        if let Some(deadline) = self.deadline.filter(|it| *it < self.timer.deadline()) {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let now = Instant::now();
            let next = self.deadline.unwrap_or(now + self.patience.idle_max);
            if next <= now {
                return Poll::Ready(moment.phase);
            }
            self.timer.as_mut().reset(next);
        }
    }
}
