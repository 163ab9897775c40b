//! Appends to a table as a client does: a client commits on top of the state that it knows, and
//! reloads the table after a conflict. After an unknown outcome, the client checks whether the
//! table contains its snapshot before it retries.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::bodies::{Head, History};
use super::connection::{Call, CallResponse};
use super::load::{CallOutcome, Caller};
use super::prepare::snapshot_id;
use super::target::{CONFLICT, Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};

/// Outcomes of the appends to one table.
#[derive(Debug, Default)]
pub struct Journal {
    /// Snapshots that the server acknowledged.
    acknowledged: Vec<i64>,
    /// Snapshots that the server rejected.
    rejected: Vec<i64>,
    /// Number of commits sent.
    attempts: u64,
    /// Number of responses with an unknown outcome.
    unknown: u64,
    /// Number of appends with an unknown outcome that were then found in the table.
    found_after_unknown: u64,
}

/// A journal shared by all clients of a table.
pub type SharedJournal = Arc<Mutex<Journal>>;

/// A client that appends to a table.
pub struct Appender {
    path: String,
    head: Head,
    step: Step,
    journal: SharedJournal,
    accepts_gzip: bool,
}

/// Next step of an appender.
enum Step {
    /// The appender sends a commit.
    Commit,
    /// The appender waits for the response to a commit. If the commit succeeds, `head_after` is the
    /// new head.
    Committing { id: i64, head_after: Head },
    /// The appender waits for the current table.
    Loading,
    /// The appender waits for the current table, to check whether this snapshot exists.
    Verifying { id: i64 },
}

impl Appender {
    /// Creates a client that knows the head of the table at this path.
    pub fn new(path: String, head: Head, journal: SharedJournal) -> Self {
        Self { path, head, step: Step::Commit, journal, accepts_gzip: false }
    }

    /// Sets whether the client accepts gzip for responses to commits.
    pub fn accepting_gzip(self, accepts_gzip: bool) -> Self {
        Self { accepts_gzip, ..self }
    }

    fn record(&self, note: impl FnOnce(&mut Journal)) {
        note(&mut self.journal.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn on_commit_response(&mut self, id: i64, head_after: Head, status: u16) -> CallOutcome {
        match status {
            200..300 => {
                self.record(|journal| journal.acknowledged.push(id));
                self.head = head_after;
                CallOutcome::Done
            }
            CONFLICT => {
                self.record(|journal| journal.rejected.push(id));
                self.step = Step::Loading;
                CallOutcome::Retry
            }
            500.. => self.on_unknown_outcome(id),
            _ => {
                self.record(|journal| journal.rejected.push(id));
                self.step = Step::Loading;
                CallOutcome::Failed
            }
        }
    }

    fn on_unknown_outcome(&mut self, id: i64) -> CallOutcome {
        self.record(|journal| journal.unknown += 1);
        self.step = Step::Verifying { id };
        CallOutcome::Retry
    }

    fn load_response(&mut self, body: &[u8]) -> CallOutcome {
        match Head::read(body) {
            Ok(head) => {
                self.head = head;
                CallOutcome::Retry
            }
            Err(_) => {
                self.step = Step::Loading;
                CallOutcome::Failed
            }
        }
    }

    fn on_verification(&mut self, id: i64, body: &[u8]) -> CallOutcome {
        let is_committed = History::read(body).is_ok_and(|history| history.contains(id));
        match self.load_response(body) {
            CallOutcome::Retry if is_committed => {
                self.record(|journal| {
                    journal.acknowledged.push(id);
                    journal.found_after_unknown += 1;
                });
                CallOutcome::Done
            }
            outcome => outcome,
        }
    }
}

impl Caller for Appender {
    fn next(&mut self) -> Option<Call> {
        match self.step {
            Step::Loading | Step::Verifying { .. } => Some(Call::get(&self.path).keeping_body()),
            Step::Commit | Step::Committing { .. } => {
                let id = snapshot_id();
                let (body, head_after) = self.head.append(&[id], SystemClock.now_ms());
                self.record(|journal| journal.attempts += 1);
                self.step = Step::Committing { id, head_after };
                let accepts_gzip = self.accepts_gzip;
                Some(Call { accepts_gzip, ..Call::post(&self.path, body) })
            }
        }
    }

    fn on_response(&mut self, response: &CallResponse) -> CallOutcome {
        match std::mem::replace(&mut self.step, Step::Commit) {
            Step::Committing { id, head_after } => {
                self.on_commit_response(id, head_after, response.status)
            }
            step if !response.is_success() => {
                self.step = step;
                CallOutcome::Failed
            }
            Step::Verifying { id } => self.on_verification(id, &response.body),
            Step::Loading | Step::Commit => self.load_response(&response.body),
        }
    }

    fn on_error(&mut self) -> CallOutcome {
        match std::mem::replace(&mut self.step, Step::Commit) {
            Step::Committing { id, .. } => self.on_unknown_outcome(id),
            step => {
                self.step = step;
                CallOutcome::Failed
            }
        }
    }
}

/// Loads a table and checks that every acknowledged append is on its main branch, and that no
/// rejected append is in its history.
pub async fn check(
    target: &Target,
    path: &str,
    journal: &SharedJournal,
) -> Result<Value, TargetError> {
    let body = target.request(Call::get(path)).await?.body;
    let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(journal.compare(&History::read(&body)?))
}

impl Journal {
    fn compare(&self, history: &History) -> Value {
        let mut main = history.main();
        main.sort_unstable();
        let lost = self.acknowledged.iter().filter(|id| main.binary_search(id).is_err()).count();
        let untrue = self.rejected.iter().filter(|id| history.contains(**id)).count();
        let successes = self.acknowledged.len() as f64;
        json!({
            "attempts": self.attempts,
            "acknowledged": self.acknowledged.len(),
            "conflicts": self.rejected.len(),
            "unknown": self.unknown,
            "found_after_unknown": self.found_after_unknown,
            "attempts_per_success": self.attempts as f64 / successes.max(1.0),
            "success_rate": successes / (self.attempts as f64).max(1.0),
            "snapshots": history.len(),
            "lost": lost,
            "untrue_refusals": untrue,
        })
    }
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;

    use super::*;

    fn load_response(ids: &[i64]) -> Vec<u8> {
        let snapshots: Vec<Value> = ids
            .iter()
            .enumerate()
            .map(|(at, id)| {
                json!({ "snapshot-id": id, "parent-snapshot-id": at.checked_sub(1).map(|at| ids[at]) })
            })
            .collect();
        json!({ "metadata": {
            "location": "s3://b/t", "current-snapshot-id": ids.last(), "snapshots": snapshots,
            "last-sequence-number": ids.len(), "last-updated-ms": 1,
        }})
        .to_string()
        .into_bytes()
    }

    fn response(status: u16, body: Vec<u8>) -> CallResponse {
        CallResponse { status, headers: HeaderMap::new(), body: body.into() }
    }

    /// Returns an appender that has just sent a commit, and its id.
    fn appender_with_a_pending_commit() -> (Appender, i64) {
        let head = Head::read(&load_response(&[])).expect("valid");
        let mut appender = Appender::new("/t".to_owned(), head, SharedJournal::default());
        let call = appender.next().expect("a commit");
        let body: Value = serde_json::from_slice(&call.body).expect("JSON");
        let id = body["updates"][0]["snapshot"]["snapshot-id"].as_i64().expect("an id");
        (appender, id)
    }

    fn compare(appender: &Appender, ids: &[i64]) -> Value {
        let history = History::read(&load_response(ids)).expect("valid");
        appender.journal.lock().expect("no panic").compare(&history)
    }

    #[test]
    fn conflict_reloads_the_table_and_commits_on_its_head() {
        let (mut appender, id) = appender_with_a_pending_commit();
        assert_eq!(appender.on_response(&response(409, vec![])), CallOutcome::Retry);
        assert_eq!(appender.next().expect("a load").method, "GET");
        assert_eq!(appender.on_response(&response(200, load_response(&[5]))), CallOutcome::Retry);
        let body = appender.next().expect("a commit").body;
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["requirements"][0]["snapshot-id"], 5);
        assert_eq!(body["updates"][0]["snapshot"]["sequence-number"], 2);
        assert_eq!(appender.on_response(&response(200, vec![])), CallOutcome::Done);
        assert_eq!(compare(&appender, &[5, id])["untrue_refusals"], 1);
        assert_eq!(compare(&appender, &[5])["lost"], 1);
    }

    #[test]
    fn unknown_outcome_is_verified_before_a_retry() {
        for is_committed in [true, false] {
            let (mut appender, id) = appender_with_a_pending_commit();
            assert_eq!(appender.on_response(&response(500, vec![])), CallOutcome::Retry);
            assert_eq!(appender.next().expect("a load").method, "GET");
            let ids = if is_committed { vec![id] } else { vec![] };
            let expected = if is_committed { CallOutcome::Done } else { CallOutcome::Retry };
            assert_eq!(appender.on_response(&response(200, load_response(&ids))), expected);
            assert_eq!(appender.next().expect("a commit").method, "POST");
            let compared = compare(&appender, &ids);
            assert_eq!((&compared["lost"], &compared["untrue_refusals"]), (&json!(0), &json!(0)));
        }
    }
}
