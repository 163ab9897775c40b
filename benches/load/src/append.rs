//! Appends to a table as a client does: on the state that it knows, reloads after a conflict, and
//! looks for its snapshot after an unknown outcome before it retries.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::bodies::{Head, History};
use super::connection::{Answer, Call};
use super::load::{Caller, Verdict};
use super::prepare::snapshot_id;
use super::target::{CONFLICT, Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};

/// Outcomes of the appends to one table.
#[derive(Debug, Default)]
pub struct Journal {
    /// Snapshots that the server acknowledged.
    acknowledged: Vec<i64>,
    /// Snapshots that the server rejected.
    refused: Vec<i64>,
    /// Number of commits sent.
    attempts: u64,
    /// Number of responses with an unknown outcome.
    unknown: u64,
    /// Number of appends that were found after such a response.
    found: u64,
}

/// A journal shared by all clients of a table.
pub type SharedJournal = Arc<Mutex<Journal>>;

/// A client that appends to a table.
pub struct Appender {
    path: String,
    head: Head,
    step: Step,
    journal: SharedJournal,
}

/// Next step of an appender.
enum Step {
    /// It sends a commit.
    Commit,
    /// It waits for the response to a commit, after which `then` is the head of the table.
    Committing { id: i64, then: Head },
    /// It waits for the current table.
    Loading,
    /// It waits for the current table, to check whether this snapshot exists.
    Looking { id: i64 },
}

impl Appender {
    /// Creates a client that knows the head of the table at this path.
    pub fn new(path: String, head: Head, journal: SharedJournal) -> Self {
        Self { path, head, step: Step::Commit, journal }
    }

    fn note(&self, note: impl FnOnce(&mut Journal)) {
        note(&mut self.journal.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn committed(&mut self, id: i64, then: Head, status: u16) -> Verdict {
        match status {
            200..300 => {
                self.note(|journal| journal.acknowledged.push(id));
                self.head = then;
                Verdict::Done
            }
            CONFLICT => {
                self.note(|journal| journal.refused.push(id));
                self.step = Step::Loading;
                Verdict::Again
            }
            500.. => self.cannot_know(id),
            _ => {
                self.note(|journal| journal.refused.push(id));
                self.step = Step::Loading;
                Verdict::Failed
            }
        }
    }

    fn cannot_know(&mut self, id: i64) -> Verdict {
        self.note(|journal| journal.unknown += 1);
        self.step = Step::Looking { id };
        Verdict::Again
    }

    fn loaded(&mut self, body: &[u8]) -> Verdict {
        match Head::read(body) {
            Ok(head) => {
                self.head = head;
                Verdict::Again
            }
            Err(_) => {
                self.step = Step::Loading;
                Verdict::Failed
            }
        }
    }

    fn looked(&mut self, id: i64, body: &[u8]) -> Verdict {
        let there = History::read(body).is_ok_and(|history| history.has(id));
        match self.loaded(body) {
            Verdict::Again if there => {
                self.note(|journal| {
                    journal.acknowledged.push(id);
                    journal.found += 1;
                });
                Verdict::Done
            }
            verdict => verdict,
        }
    }
}

impl Caller for Appender {
    fn next(&mut self) -> Option<Call> {
        match self.step {
            Step::Loading | Step::Looking { .. } => Some(Call::get(&self.path).keeping_body()),
            Step::Commit | Step::Committing { .. } => {
                let id = snapshot_id();
                let (body, then) = self.head.append(&[id], SystemClock.now_ms());
                self.note(|journal| journal.attempts += 1);
                self.step = Step::Committing { id, then };
                Some(Call::post(&self.path, body))
            }
        }
    }

    fn seen(&mut self, answer: &Answer) -> Verdict {
        match std::mem::replace(&mut self.step, Step::Commit) {
            Step::Committing { id, then } => self.committed(id, then, answer.status),
            step if !answer.is_good() => {
                self.step = step;
                Verdict::Failed
            }
            Step::Looking { id } => self.looked(id, &answer.body),
            Step::Loading | Step::Commit => self.loaded(&answer.body),
        }
    }

    fn lost(&mut self) -> Verdict {
        match std::mem::replace(&mut self.step, Step::Commit) {
            Step::Committing { id, .. } => self.cannot_know(id),
            step => {
                self.step = step;
                Verdict::Failed
            }
        }
    }
}

/// Loads a table and checks it: every acknowledged append is on its main branch, and no rejected
/// one is in its history.
pub async fn check(
    target: &Target,
    path: &str,
    journal: &SharedJournal,
) -> Result<Value, TargetError> {
    let body = target.ask(Call::get(path)).await?.body;
    let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(journal.compare(&History::read(&body)?))
}

impl Journal {
    fn compare(&self, history: &History) -> Value {
        let mut main = history.main();
        main.sort_unstable();
        let lost = self.acknowledged.iter().filter(|id| main.binary_search(id).is_err()).count();
        let untrue = self.refused.iter().filter(|id| history.has(**id)).count();
        let successes = self.acknowledged.len() as f64;
        json!({
            "attempts": self.attempts,
            "acknowledged": self.acknowledged.len(),
            "conflicts": self.refused.len(),
            "unknown": self.unknown,
            "found_after_unknown": self.found,
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

    fn loaded(ids: &[i64]) -> Vec<u8> {
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

    fn answer(status: u16, body: Vec<u8>) -> Answer {
        Answer { status, headers: HeaderMap::new(), body: body.into() }
    }

    /// Returns an appender that has just sent a commit, and its id.
    fn committing() -> (Appender, i64) {
        let head = Head::read(&loaded(&[])).expect("valid");
        let mut appender = Appender::new("/t".to_owned(), head, SharedJournal::default());
        let call = appender.next().expect("a commit");
        let body: Value = serde_json::from_slice(&call.body).expect("JSON");
        let id = body["updates"][0]["snapshot"]["snapshot-id"].as_i64().expect("an id");
        (appender, id)
    }

    fn compare(appender: &Appender, ids: &[i64]) -> Value {
        let history = History::read(&loaded(ids)).expect("valid");
        appender.journal.lock().expect("no panic").compare(&history)
    }

    #[test]
    fn a_conflict_is_cured_by_looking_at_what_is_there() {
        let (mut appender, id) = committing();
        assert_eq!(appender.seen(&answer(409, vec![])), Verdict::Again);
        assert_eq!(appender.next().expect("a load").method, "GET");
        assert_eq!(appender.seen(&answer(200, loaded(&[5]))), Verdict::Again);
        let body = appender.next().expect("a commit").body;
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["requirements"][0]["snapshot-id"], 5);
        assert_eq!(body["updates"][0]["snapshot"]["sequence-number"], 2);
        assert_eq!(appender.seen(&answer(200, vec![])), Verdict::Done);
        assert_eq!(compare(&appender, &[5, id])["untrue_refusals"], 1);
        assert_eq!(compare(&appender, &[5])["lost"], 1);
    }

    #[test]
    fn an_unknown_outcome_is_looked_up_before_anything_else() {
        for there in [true, false] {
            let (mut appender, id) = committing();
            assert_eq!(appender.seen(&answer(500, vec![])), Verdict::Again);
            assert_eq!(appender.next().expect("a load").method, "GET");
            let ids = if there { vec![id] } else { vec![] };
            let expected = if there { Verdict::Done } else { Verdict::Again };
            assert_eq!(appender.seen(&answer(200, loaded(&ids))), expected);
            assert_eq!(appender.next().expect("a commit").method, "POST");
            let compared = compare(&appender, &ids);
            assert_eq!((&compared["lost"], &compared["untrue_refusals"]), (&json!(0), &json!(0)));
        }
    }
}
