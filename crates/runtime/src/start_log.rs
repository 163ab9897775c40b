//! The log of a slow start: the current step and its progress.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use slateberg_base::progress::{Progress, ProgressSink};

const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Runs a start. Logs its progress every few seconds until it ends.
pub(super) async fn logged<F: Future>(start: impl FnOnce(Progress) -> F) -> F::Output {
    let log = Arc::<StartLog>::default();
    let progress = Progress::new(Arc::clone(&log) as Arc<dyn ProgressSink>);
    let mut started = Box::pin(start(progress));
    loop {
        tokio::select! {
            started = &mut started => return started,
            () = sleep(LINE_INTERVAL) => log.line(),
        }
    }
}

#[derive(Default)]
struct StartLog(Mutex<Vec<StartPhase>>);

/// A running phase of a start. In the list of phases, each phase runs inside the phase before it.
struct StartPhase {
    name: String,
    begun: Instant,
    done: u64,
    total: Option<u64>,
}

impl StartLog {
    fn change(&self, change: impl FnOnce(&mut Vec<StartPhase>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn line(&self) {
        self.change(|steps| {
            let Some(StartPhase { name, begun, done, total }) = steps.last() else { return };
            let (step, seconds) = (name.as_str(), begun.elapsed().as_secs());
            // `done` has no meaning without a total.
            let done = total.map(|_| *done);
            tracing::info!(step, seconds, done, total = *total, "start in progress");
        });
    }
}

impl ProgressSink for StartLog {
    fn begin(&self, phase: &str, total: Option<u64>) {
        let name = phase.to_owned();
        self.change(|steps| steps.push(StartPhase { name, begun: Instant::now(), done: 0, total }));
    }

    fn advance(&self, by: u64) {
        self.change(|steps| steps.last_mut().into_iter().for_each(|step| step.done += by));
    }

    fn fail(&self, _: u64) {}

    fn end(&self) {
        self.change(|steps| drop(steps.pop()));
    }
}
