//! Progress of long commands on standard error. On a terminal, one line is redrawn. Otherwise, a
//! new line is printed every few seconds.

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
/// Interval between lines if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Creates a progress display on standard error.
pub(super) fn progress() -> Progress {
    let is_terminal = std::io::stderr().is_terminal();
    Progress::new(Arc::new(TerminalProgress { is_terminal, running: Mutex::new(None) }))
}

struct TerminalProgress {
    is_terminal: bool,
    running: Mutex<Option<RunningPhase>>,
}

/// The current phase.
struct RunningPhase {
    bar: ProgressBar,
    failed: Arc<AtomicU64>,
    /// Stops the printing thread when dropped.
    _lines: Option<mpsc::Sender<()>>,
}

impl TerminalProgress {
    fn change(&self, change: impl FnOnce(&mut Option<RunningPhase>)) {
        change(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ProgressSink for TerminalProgress {
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
        self.change(|running| *running = Some(RunningPhase { bar, failed, _lines: lines }));
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

/// Returns the style of the line on a terminal. The line contains the same text as a line of
/// [`print_lines`].
fn style(failed: Arc<AtomicU64>) -> ProgressStyle {
    let status = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let status = progress_text(&ProgressSnapshot {
            done: state.pos(),
            total: state.len(),
            failed: failed.load(Ordering::Relaxed),
            per_second: state.per_sec(),
            elapsed: state.elapsed(),
            remaining: state.eta(),
        });
        // If drawing fails, the next tick draws the line again.
        let _ = out.write_str(&status);
    };
    let style = ProgressStyle::with_template("{spinner} {msg}: {status}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("status", status)
}

/// Prints a line at intervals until the returned sender is dropped. Returns `None` if the thread
/// cannot be started; the work then continues without lines.
fn print_lines(bar: ProgressBar, failed: Arc<AtomicU64>) -> Option<mpsc::Sender<()>> {
    let (stop, stopped) = mpsc::channel::<()>();
    let print = move || {
        while stopped.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let status = progress_text(&ProgressSnapshot {
                done: bar.position(),
                total: bar.length(),
                failed: failed.load(Ordering::Relaxed),
                per_second: bar.per_sec(),
                elapsed: bar.elapsed(),
                remaining: bar.eta(),
            });
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{}: {status}", bar.message());
        }
    };
    thread::Builder::new().name("progress".to_owned()).spawn(print).is_ok().then_some(stop)
}

/// The state of a phase.
#[derive(Clone, Copy)]
struct ProgressSnapshot {
    done: u64,
    total: Option<u64>,
    failed: u64,
    per_second: f64,
    elapsed: Duration,
    remaining: Duration,
}

/// Describes the state of a phase.
fn progress_text(snapshot: &ProgressSnapshot) -> String {
    let ProgressSnapshot { done, total, failed, per_second, elapsed, remaining } = *snapshot;
    if done == 0 && total.is_none() {
        return time(elapsed);
    }
    let mut status = grouped(done);
    if let Some(total) = total {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        let _ = write!(status, " of {} ({percent} %)", grouped(total));
    }
    if failed > 0 {
        let _ = write!(status, ", {} failed", grouped(failed));
    }
    let _ = write!(status, ", {}/s", grouped(per_second as u64));
    if total.is_some_and(|total| total > done) && per_second > 0.0 {
        let _ = write!(status, ", {} left", time(remaining));
    }
    status
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

    const SNAPSHOT: ProgressSnapshot = ProgressSnapshot {
        done: 12_345,
        total: Some(100_000),
        failed: 0,
        per_second: 3200.5,
        elapsed: Duration::from_secs(4),
        remaining: Duration::from_secs(27),
    };

    #[test]
    fn known_total_shows_percentage_rate_and_remaining_time() {
        let text = |done, seconds| {
            progress_text(&ProgressSnapshot {
                done,
                remaining: Duration::from_secs(seconds),
                ..SNAPSHOT
            })
        };
        assert_eq!(text(12_345, 27), "12,345 of 100,000 (12 %), 3,200/s, 27 s left");
        assert_eq!(text(12_345, 127), "12,345 of 100,000 (12 %), 3,200/s, 2 min 7 s left");
        assert_eq!(text(12_345, 7380), "12,345 of 100,000 (12 %), 3,200/s, 2 h 3 min left");
        assert_eq!(text(100_000, 0), "100,000 of 100,000 (100 %), 3,200/s");
    }

    #[test]
    fn unknown_total_shows_the_rate_alone() {
        assert_eq!(
            progress_text(&ProgressSnapshot { done: 1_000, total: None, ..SNAPSHOT }),
            "1,000, 3,200/s"
        );
        let empty = ProgressSnapshot { done: 0, total: Some(0), per_second: 0.0, ..SNAPSHOT };
        assert_eq!(progress_text(&empty), "0 of 0 (100 %), 0/s");
    }

    #[test]
    fn uncountable_work_shows_its_elapsed_time() {
        let elapsed = Duration::from_secs(64);
        let opening =
            ProgressSnapshot { done: 0, total: None, per_second: 0.0, elapsed, ..SNAPSHOT };
        assert_eq!(progress_text(&opening), "1 min 4 s");
    }

    #[test]
    fn failures_are_shown() {
        let status = progress_text(&ProgressSnapshot { failed: 3, ..SNAPSHOT });
        assert_eq!(status, "12,345 of 100,000 (12 %), 3 failed, 3,200/s, 27 s left");
    }
}
