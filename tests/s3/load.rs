//! Concurrent writers of one table, and the outcomes of their commits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::client::{Client, Reply};

/// The table that is written.
pub const TABLE: &str = "namespaces/ns/tables/t";
const WRITERS: usize = 8;

/// Running writers.
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Outcomes>>,
}

/// Outcomes of the commits, by the property that each of them sets.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Acknowledged commits.
    pub done: BTreeSet<String>,
    /// Rejected commits: 503.
    pub rejected: BTreeSet<String>,
    /// Commits with an unknown outcome: 500.
    pub unknown: BTreeSet<String>,
    /// The longest response time.
    pub slowest: Duration,
}

impl Load {
    /// Starts the writers. `name` distinguishes the keys of several loads.
    pub fn start(client: &Client, name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..WRITERS).map(|writer| {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            let name = format!("{name}-{writer}");
            tokio::spawn(async move { write(&client, &stop, &name).await })
        });
        Self { writers: writers.collect(), stop }
    }

    /// Stops the writers, and waits for the last responses.
    pub async fn stop(self) -> Outcomes {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Outcomes::default();
        for writer in self.writers {
            let answers = writer.await.expect("the writer got only expected responses");
            all.done.extend(answers.done);
            all.rejected.extend(answers.rejected);
            all.unknown.extend(answers.unknown);
            all.slowest = all.slowest.max(answers.slowest);
        }
        all
    }
}

async fn write(client: &Client, stop: &AtomicBool, name: &str) -> Outcomes {
    let mut answers = Outcomes::default();
    for commit in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{name}-{commit}");
        let since = Instant::now();
        let reply = client.set(TABLE, &key).await;
        answers.slowest = answers.slowest.max(since.elapsed());
        match reply {
            Reply::Answered(200, _) => answers.done.insert(key),
            Reply::Answered(503, body) => {
                assert_eq!(body["error"]["type"], "SlowDownException", "{body}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                answers.rejected.insert(key)
            }
            Reply::Answered(500, body) => {
                assert_eq!(body["error"]["type"], "CommitStateUnknownException", "{body}");
                answers.unknown.insert(key)
            }
            other => panic!("{key} was answered {other:?} after {:?}", since.elapsed()),
        };
    }
    answers
}

impl Outcomes {
    /// Asserts that a table contains all acknowledged changes and no rejected ones.
    pub fn check(&self, loaded: &Value, what: &str) {
        let properties = &loaded["metadata"]["properties"];
        let has = |key: &&String| !properties[key.as_str()].is_null();
        let lost: Vec<_> = self.done.iter().filter(|key| !has(key)).collect();
        assert!(lost.is_empty(), "{what}: acknowledged and lost: {lost:?}");
        let reappeared: Vec<_> = self.rejected.iter().filter(has).collect();
        assert!(reappeared.is_empty(), "{what}: rejected, but present: {reappeared:?}");
    }
}
