//! Progress of long work: the code that does the work reports it, the command that started it shows it.

use std::sync::Arc;

/// Shows the progress of long work, one phase after the other.
pub trait ProgressSink: Send + Sync {
    /// A phase begins. `total` is `None` while the amount of work is unknown.
    fn begin(&self, phase: &str, total: Option<u64>);
    /// More of the running phase is done.
    fn advance(&self, by: u64);
    /// Part of what is done has failed.
    fn fail(&self, by: u64);
    /// The running phase has ended.
    fn end(&self);
}

/// A handle through which library code reports progress. Cheap to clone; the default one is silent.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn ProgressSink>>);

/// A phase of long work. It ends when this is dropped.
#[must_use = "a phase ends when this is dropped"]
pub struct Phase(Option<Arc<dyn ProgressSink>>);

impl Progress {
    /// A handle that reports to `sink`.
    pub fn new(sink: Arc<dyn ProgressSink>) -> Self {
        Self(Some(sink))
    }

    /// Begins a phase, named like `checking tables`. `total` is `None` if the amount of work is unknown.
    pub fn phase(&self, name: &str, total: Option<u64>) -> Phase {
        if let Some(sink) = &self.0 {
            sink.begin(name, total);
        }
        Phase(self.0.clone())
    }
}

impl Phase {
    /// Reports that more of the phase is done.
    pub fn advance(&self, by: u64) {
        if let Some(sink) = &self.0 {
            sink.advance(by);
        }
    }

    /// Reports that part of what is done has failed.
    pub fn fail(&self, by: u64) {
        if let Some(sink) = &self.0 {
            sink.fail(by);
        }
    }

    /// Ends this phase, and begins the next one.
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
