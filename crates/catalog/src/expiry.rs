//! Removes expired records: old idempotency records, the oldest entries of the change log, old
//! finished jobs, and dropped namespaces, tables and views whose retention has ended.

use std::sync::Arc;

use std::collections::{BTreeSet, VecDeque};

use super::core::Core;
use super::{Error, Result};
use crate::tabular::Tabulars;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::boxed;
use slateberg_store::bulk_read::Pages;
use slateberg_store::key_space::{Expiry, KeySpace, Removal};
use slateberg_store::keys::{EndedJobKey, IdempotencyKey, Key};

/// Number of records that one transaction removes.
const BATCH_RECORDS_MAX: usize = 1000;

/// Removes expired records. Cheap to clone.
#[derive(Clone)]
pub struct Maintenance {
    core: Arc<Core>,
    tabulars: Tabulars,
}

impl Maintenance {
    pub(crate) fn new(core: &Arc<Core>, tabulars: &Tabulars) -> Self {
        Self { core: Arc::clone(core), tabulars: tabulars.clone() }
    }

    /// Removes expired records and returns their number.
    #[boxed]
    pub async fn expire(&self) -> Result<usize> {
        let mut removed = 0;
        let expiries: BTreeSet<_> = KeySpace::ALL
            .iter()
            .filter_map(|space| match space.rules().removal {
                Removal::Expiry(expiry) => Some(expiry),
                _ => None,
            })
            .collect();
        for expiry in expiries {
            removed += match expiry {
                Expiry::Idempotency => self.expire_idempotency().await?,
                Expiry::Changes => self.trim_change_log().await?,
                Expiry::Dropped => self.tabulars.expire_dropped().await?,
                Expiry::EndedJobs => self.expire_jobs().await?,
            };
        }
        Ok(removed)
    }

    /// Removes the markers of complete publications.
    #[boxed]
    pub async fn remove_completed_markers(&self) -> Result<()> {
        self.core.pipeline().remove_completed_markers().await
    }

    async fn expire_idempotency(&self) -> Result<usize> {
        let store = self.core.store().durable();
        let now_ms = self.core.now_ms();
        let mut pages =
            Pages::<IdempotencyKey>::of(KeySpace::Idempotency, BATCH_RECORDS_MAX).cached();
        let mut removed = 0;
        while let Some(records) = pages.next(&store).await? {
            let expired: Vec<_> = records
                .into_iter()
                .filter(|(_, record)| record.expires_ms <= now_ms)
                .map(|(key, _)| key)
                .collect();
            removed += self.remove_records(&expired).await?;
        }
        Ok(removed)
    }

    async fn trim_change_log(&self) -> Result<usize> {
        let store = self.core.store();
        // The newest entry always stays, because the next entry gets the number after it.
        let kept_max = self.core.settings().change_log_entries_max.max(1);
        let keep_from = store.current_horizon().saturating_sub(kept_max);
        let permit = Permit::for_task(Task::Expiry);
        let removed = store.remove_changes_before(keep_from, &permit).await?;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }

    /// Removes finished jobs whose retention has ended. If more than the maximum number remain,
    /// also removes the oldest of these.
    async fn expire_jobs(&self) -> Result<usize> {
        let settings = self.core.settings();
        let kept_ms = settings.jobs_kept_seconds.saturating_mul(1000);
        let kept_ms = i64::try_from(kept_ms).unwrap_or(i64::MAX);
        let since_ms = self.core.now_ms().saturating_sub(kept_ms);
        let (mut removed, mut left) = (0, VecDeque::new());
        let store = self.core.store().durable();
        let mut pages = Pages::<EndedJobKey>::of(KeySpace::EndedJobs, BATCH_RECORDS_MAX).cached();
        while let Some(jobs) = pages.next(&store).await? {
            let mut expired = Vec::new();
            for (key, job) in jobs {
                match job.ended.is_some_and(|ended| ended.at_ms > since_ms) {
                    true => left.push_back(key),
                    false => expired.push(key),
                }
            }
            let too_many = left.len().saturating_sub(settings.jobs_kept_max);
            expired.extend(left.drain(..too_many));
            removed += self.remove_records(&expired).await?;
        }
        Ok(removed)
    }

    async fn remove_records<K: Key>(&self, keys: &[K]) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let permit = Permit::for_task(Task::Expiry);
        let ((), accepted) = self
            .core
            .store()
            .transact("expire", &permit, |t| async move {
                keys.iter().try_for_each(|key| t.delete(key))?;
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await?;
        Ok(keys.len())
    }
}
