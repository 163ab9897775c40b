//! What background jobs have done.

use super::collection::{Collection, attributes};
use super::counters::Counter;

/// What is counted of background jobs.
#[derive(Debug, Default)]
pub struct JobCounters {
    /// Jobs that came to their end.
    pub jobs_done: Counter,
    /// Jobs that turned out to be impossible.
    pub jobs_failed: Counter,
    /// Jobs that were cancelled.
    pub jobs_cancelled: Counter,
    /// Times that a job has met a failure, and goes on later.
    pub retries: Counter,
    /// Files that jobs have deleted.
    pub files_deleted: Counter,
}

impl JobCounters {
    /// Tells them all.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Background jobs, by result.";
        let ends = [
            ("done", &self.jobs_done),
            ("failed", &self.jobs_failed),
            ("cancelled", &self.jobs_cancelled),
        ];
        for (result, counter) in ends {
            let series = attributes([("result", result)]);
            into.counter("slateberg.jobs", "{job}", help, series, counter.get());
        }
        let help = "Failures of background jobs that go on later.";
        into.counter("slateberg.job.retries", "{failure}", help, Vec::new(), self.retries.get());
        let help = "Files that background jobs have deleted.";
        let deleted = self.files_deleted.get();
        into.counter("slateberg.job.files_deleted", "{file}", help, Vec::new(), deleted);
    }
}
