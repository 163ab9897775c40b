//! Progress of long operations, reported by library code and displayed by the command.

use std::sync::Arc;

/// Displays the progress of a long operation in consecutive phases.
pub trait ProgressSink: Send + Sync {
    /// Begins a phase. `total` is `None` if the amount of work is unknown.
    fn begin(&self, phase: &str, total: Option<u64>);
    /// Adds completed work to the current phase.
    fn advance(&self, by: u64);
    /// Marks part of the completed work as failed.
    fn fail(&self, by: u64);
    /// Ends the current phase.
    fn end(&self);
}

/// A handle by which library code reports progress. Cheap to clone. The default handle discards
/// reports.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn ProgressSink>>);

/// Handle of the current phase of a long operation. Dropping the handle ends the phase.
#[must_use = "the phase ends when this value is dropped"]
pub struct Phase(Option<Arc<dyn ProgressSink>>);

impl Progress {
    /// Creates a handle that reports to `sink`.
    pub fn new(sink: Arc<dyn ProgressSink>) -> Self {
        Self(Some(sink))
    }

    /// Begins a phase with a name such as `checking tables`. `total` is `None` if the amount of
    /// work is unknown.
    pub fn phase(&self, name: &str, total: Option<u64>) -> Phase {
        if let Some(sink) = &self.0 {
            sink.begin(name, total);
        }
        Phase(self.0.clone())
    }
}

impl Phase {
    /// Reports completed work.
    pub fn advance(&self, by: u64) {
        if let Some(sink) = &self.0 {
            sink.advance(by);
        }
    }

    /// Reports that part of the completed work has failed.
    pub fn fail(&self, by: u64) {
        if let Some(sink) = &self.0 {
            sink.fail(by);
        }
    }

    /// Ends this phase and begins the next one.
    pub fn next(&mut self, name: &str, total: Option<u64>) {
        if let Some(sink) = &self.0 {
            sink.end();
            sink.begin(name, total);
        }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if let Some(sink) = &self.0 {
            sink.end();
        }
    }
}
