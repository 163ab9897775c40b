//! Progress of long commands on standard error: one line of a terminal that is drawn again, or a line
//! every few seconds elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use slateberg_base::progress::{Progress, ProgressSink};

/// Between two drawings of a terminal's line.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress that is shown on standard error.
pub(super) fn progress() -> Progress {
    let is_terminal = std::io::stderr().is_terminal();
    Progress::new(Arc::new(Screen { is_terminal, running: Mutex::new(None) }))
}

struct Screen {
    is_terminal: bool,
    running: Mutex<Option<Running>>,
}

/// The phase that is shown.
struct Running {
    bar: ProgressBar,
    /// Stops the thread that prints lines when it is dropped.
    _lines: Option<mpsc::Sender<()>>,
}

impl Screen {
    fn change(&self, change: impl FnOnce(&mut Option<Running>)) {
        change(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ProgressSink for Screen {
    fn begin(&self, phase: &str, total: Option<u64>) {
        let target = match self.is_terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(total, target).with_message(phase.to_owned());
        let lines = if self.is_terminal {
            bar.set_style(style());
            bar.enable_steady_tick(DRAW_INTERVAL);
            None
        } else {
            print_lines(bar.clone())
        };
        self.change(|running| *running = Some(Running { bar, _lines: lines }));
    }

    fn advance(&self, by: u64) {
        self.change(|running| {
            if let Some(running) = running {
                running.bar.inc(by);
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

/// The same words on a terminal as in a line.
fn style() -> ProgressStyle {
    let words = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let words = words(state.pos(), state.len(), state.per_sec(), state.eta());
        // A line that is not drawn is drawn at the next tick.
        let _ = out.write_str(&words);
    };
    let style = ProgressStyle::with_template("{spinner} {msg}: {words}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("words", words)
}

/// Prints a line now and then, until the sender is dropped. `None` if no thread can be started: the work
/// goes on without lines.
fn print_lines(bar: ProgressBar) -> Option<mpsc::Sender<()>> {
    let (stop, stopped) = mpsc::channel::<()>();
    let print = move || {
        while stopped.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let words = words(bar.position(), bar.length(), bar.per_sec(), bar.eta());
            // Nothing is left to report to if standard error is gone.
            let _ = writeln!(std::io::stderr(), "{}: {words}", bar.message());
        }
    };
    thread::Builder::new().name("progress".to_owned()).spawn(print).is_ok().then_some(stop)
}

/// The state of a phase in words.
fn words(done: u64, total: Option<u64>, per_second: f64, remaining: Duration) -> String {
    let mut words = grouped(done);
    if let Some(total) = total {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        let _ = write!(words, " of {} ({percent} %)", grouped(total));
    }
    let _ = write!(words, ", {}/s", grouped(per_second as u64));
    if total.is_some_and(|total| total > done) && per_second > 0.0 {
        let seconds = remaining.as_secs();
        let _ = match seconds {
            0..60 => write!(words, ", {seconds} s left"),
            60..3600 => write!(words, ", {} min {} s left", seconds / 60, seconds % 60),
            _ => write!(words, ", {} h {} min left", seconds / 3600, seconds / 60 % 60),
        };
    }
    words
}

/// A number with a comma between each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_total_comes_with_a_percentage_a_rate_and_the_remaining_time() {
        let of = |done, seconds| words(done, Some(100_000), 3200.5, Duration::from_secs(seconds));
        assert_eq!(of(12_345, 27), "12,345 of 100,000 (12 %), 3,200/s, 27 s left");
        assert_eq!(of(12_345, 127), "12,345 of 100,000 (12 %), 3,200/s, 2 min 7 s left");
        assert_eq!(of(12_345, 7380), "12,345 of 100,000 (12 %), 3,200/s, 2 h 3 min left");
        assert_eq!(of(100_000, 0), "100,000 of 100,000 (100 %), 3,200/s");
    }

    #[test]
    fn an_unknown_total_comes_with_the_rate_alone() {
        assert_eq!(words(1_000, None, 250.0, Duration::ZERO), "1,000, 250/s");
        assert_eq!(words(0, Some(0), 0.0, Duration::ZERO), "0 of 0 (100 %), 0/s");
    }
}
