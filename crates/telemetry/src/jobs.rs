//! Counters of background jobs.

use super::collection::{Collection, attributes};
use super::counters::Counter;

/// Counts of background jobs.
#[derive(Debug, Default)]
pub struct JobCounters {
    /// Jobs that completed.
    pub jobs_done: Counter,
    /// Jobs that failed permanently.
    pub jobs_failed: Counter,
    /// Jobs that were cancelled.
    pub jobs_cancelled: Counter,
    /// Failures after which a job is retried.
    pub retries: Counter,
    /// Files deleted by jobs.
    pub files_deleted: Counter,
}

impl JobCounters {
    /// Adds the counters to the collection.
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
        let help = "Failed attempts of background jobs that will be retried.";
        into.counter("slateberg.job.retries", "{failure}", help, Vec::new(), self.retries.get());
        let help = "Files that background jobs have deleted.";
        let deleted = self.files_deleted.get();
        into.counter("slateberg.job.files_deleted", "{file}", help, Vec::new(), deleted);
    }
}
