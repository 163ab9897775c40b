//! How far a migration is, on standard error: one line that changes for people, and a line now and then for
//! logs.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

/// Between two words to a person, and between two lines of a log.
const TERMINAL_EVERY: Duration = Duration::from_millis(200);
const LOG_EVERY: Duration = Duration::from_secs(5);

/// What is counted.
#[derive(Default)]
struct Counted {
    done: AtomicUsize,
    failed: AtomicUsize,
}

/// Tells how far it is until it is dropped.
pub(super) struct Progress {
    counted: Arc<Counted>,
    total: usize,
    is_terminal: bool,
    telling: JoinHandle<()>,
}

impl Progress {
    /// Of so many tables and views.
    pub(super) fn of(total: usize) -> Self {
        let counted = Arc::new(Counted::default());
        let is_terminal = stderr().is_terminal();
        let telling = tokio::spawn(tell(Arc::clone(&counted), total, is_terminal));
        Self { counted, total, is_terminal, telling }
    }

    /// One more is through.
    pub(super) fn one(&self, failed: bool) {
        self.counted.done.fetch_add(1, Ordering::Relaxed);
        self.counted.failed.fetch_add(usize::from(failed), Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.telling.abort();
        say(&self.counted, self.total, self.is_terminal);
        if self.is_terminal {
            let _ = stderr().write_all(b"\n");
        }
    }
}

async fn tell(counted: Arc<Counted>, total: usize, is_terminal: bool) {
    let every = if is_terminal { TERMINAL_EVERY } else { LOG_EVERY };
    loop {
        tokio::time::sleep(every).await;
        say(&counted, total, is_terminal);
    }
}

fn say(counted: &Counted, total: usize, is_terminal: bool) {
    let (done, failed) =
        (counted.done.load(Ordering::Relaxed), counted.failed.load(Ordering::Relaxed));
    let text = format!("{done} of {total} tables and views, {failed} not migrated");
    let line = if is_terminal { format!("\r{text}\u{1b}[K") } else { format!("{text}\n") };
    // Nobody is left to tell if standard error is gone.
    let _ = stderr().write_all(line.as_bytes());
}
