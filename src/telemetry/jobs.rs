//! What background jobs have done, readable in Prometheus' text format.

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
    /// The text that a Prometheus server scrapes.
    pub fn render(&self) -> String {
        format!(
            "# HELP slateberg_jobs_total Background jobs, by how they ended.\n\
             # TYPE slateberg_jobs_total counter\n\
             slateberg_jobs_total{{result=\"done\"}} {}\n\
             slateberg_jobs_total{{result=\"failed\"}} {}\n\
             slateberg_jobs_total{{result=\"cancelled\"}} {}\n\
             # HELP slateberg_job_retries_total Failures of background jobs that go on later.\n\
             # TYPE slateberg_job_retries_total counter\n\
             slateberg_job_retries_total {}\n\
             # HELP slateberg_job_files_deleted_total Files that background jobs have deleted.\n\
             # TYPE slateberg_job_files_deleted_total counter\n\
             slateberg_job_files_deleted_total {}\n",
            self.jobs_done.get(),
            self.jobs_failed.get(),
            self.jobs_cancelled.get(),
            self.retries.get(),
            self.files_deleted.get()
        )
    }
}
