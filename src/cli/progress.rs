//! Progress of long commands on standard error: a line that is redrawn on a terminal, or else a new
//! line every few seconds.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::output::grouped;
use slateberg_base::progress::{Progress, ProgressSink};

/// Interval between redraws on a terminal.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Creates a progress display on standard error.
pub(super) fn progress() -> Progress {
    let is_terminal = std::io::stderr().is_terminal();
    Progress::new(Arc::new(Screen { is_terminal, running: Mutex::new(None) }))
}

struct Screen {
    is_terminal: bool,
    running: Mutex<Option<Running>>,
}

/// The current phase.
struct Running {
    bar: ProgressBar,
    failed: Arc<AtomicU64>,
    /// Stops the printing thread when dropped.
    _lines: Option<mpsc::Sender<()>>,
}

impl Screen {
    fn change(&self, change: impl FnOnce(&mut Option<Running>)) {
        change(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ProgressSink for Screen {
    fn begin(&self, phase: &str, total: Option<u64>) {
        let target = if self.is_terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target).with_message(phase.to_owned());
        let failed = Arc::<AtomicU64>::default();
        let lines = if self.is_terminal {
            bar.set_style(style(Arc::clone(&failed)));
            bar.enable_steady_tick(DRAW_INTERVAL);
            None
        } else {
            print_lines(bar.clone(), Arc::clone(&failed))
        };
        self.change(|running| *running = Some(Running { bar, failed, _lines: lines }));
    }

    fn advance(&self, by: u64) {
        self.change(|running| {
            if let Some(running) = running {
                running.bar.inc(by);
            }
        });
    }

    fn fail(&self, by: u64) {
        self.change(|running| {
            if let Some(running) = running {
                running.failed.fetch_add(by, Ordering::Relaxed);
            }
        });
    }

    fn end(&self) {
        self.change(|running| {
            if let Some(running) = running.take() {
                running.bar.finish_and_clear();
            }
        });
    }
}

/// Shows the same text on a terminal as in separate lines.
fn style(failed: Arc<AtomicU64>) -> ProgressStyle {
    let words = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let words = words(&At {
            done: state.pos(),
            total: state.len(),
            failed: failed.load(Ordering::Relaxed),
            per_second: state.per_sec(),
            elapsed: state.elapsed(),
            remaining: state.eta(),
        });
        // If drawing fails, the next tick draws the line again.
        let _ = out.write_str(&words);
    };
    let style = ProgressStyle::with_template("{spinner} {msg}: {words}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("words", words)
}

/// Prints a line at intervals until the sender is dropped. Returns `None` if the thread cannot be
/// started; the work continues without lines.
fn print_lines(bar: ProgressBar, failed: Arc<AtomicU64>) -> Option<mpsc::Sender<()>> {
    let (stop, stopped) = mpsc::channel::<()>();
    let print = move || {
        while stopped.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let words = words(&At {
                done: bar.position(),
                total: bar.length(),
                failed: failed.load(Ordering::Relaxed),
                per_second: bar.per_sec(),
                elapsed: bar.elapsed(),
                remaining: bar.eta(),
            });
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{}: {words}", bar.message());
        }
    };
    thread::Builder::new().name("progress".to_owned()).spawn(print).is_ok().then_some(stop)
}

/// The state of a phase.
#[derive(Clone, Copy)]
struct At {
    done: u64,
    total: Option<u64>,
    failed: u64,
    per_second: f64,
    elapsed: Duration,
    remaining: Duration,
}

/// Describes the state of a phase.
fn words(at: &At) -> String {
    let At { done, total, failed, per_second, elapsed, remaining } = *at;
    if done == 0 && total.is_none() {
        return time(elapsed);
    }
    let mut words = grouped(done);
    if let Some(total) = total {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        let _ = write!(words, " of {} ({percent} %)", grouped(total));
    }
    if failed > 0 {
        let _ = write!(words, ", {} failed", grouped(failed));
    }
    let _ = write!(words, ", {}/s", grouped(per_second as u64));
    if total.is_some_and(|total| total > done) && per_second > 0.0 {
        let _ = write!(words, ", {} left", time(remaining));
    }
    words
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: At = At {
        done: 12_345,
        total: Some(100_000),
        failed: 0,
        per_second: 3200.5,
        elapsed: Duration::from_secs(4),
        remaining: Duration::from_secs(27),
    };

    #[test]
    fn a_known_total_comes_with_a_percentage_a_rate_and_the_remaining_time() {
        let of = |done, seconds| words(&At { done, remaining: Duration::from_secs(seconds), ..AT });
        assert_eq!(of(12_345, 27), "12,345 of 100,000 (12 %), 3,200/s, 27 s left");
        assert_eq!(of(12_345, 127), "12,345 of 100,000 (12 %), 3,200/s, 2 min 7 s left");
        assert_eq!(of(12_345, 7380), "12,345 of 100,000 (12 %), 3,200/s, 2 h 3 min left");
        assert_eq!(of(100_000, 0), "100,000 of 100,000 (100 %), 3,200/s");
    }

    #[test]
    fn an_unknown_total_comes_with_the_rate_alone() {
        assert_eq!(words(&At { done: 1_000, total: None, ..AT }), "1,000, 3,200/s");
        let empty = At { done: 0, total: Some(0), per_second: 0.0, ..AT };
        assert_eq!(words(&empty), "0 of 0 (100 %), 0/s");
    }

    #[test]
    fn work_that_cannot_be_counted_comes_with_its_elapsed_time() {
        let elapsed = Duration::from_secs(64);
        let opening = At { done: 0, total: None, per_second: 0.0, elapsed, ..AT };
        assert_eq!(words(&opening), "1 min 4 s");
    }

    #[test]
    fn failures_are_counted() {
        let words = words(&At { failed: 3, ..AT });
        assert_eq!(words, "12,345 of 100,000 (12 %), 3 failed, 3,200/s, 27 s left");
    }
}
