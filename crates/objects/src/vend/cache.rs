//! [`VendCache`]: recently vended credentials, with a maximum number of entries.
//!
//! The cache returns credentials until half of their lifetime is over, so that every client can use
//! them for at least the other half. Of several concurrent calls with the same key, only one sends
//! a request to the provider. The other calls wait for the result of this request. If the request
//! fails, the waiting calls get the failure, too. Later calls send a new request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use quick_cache::sync::Cache;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::files::{Files, VendError, Vended};

/// Everything that credentials depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VendKey {
    /// The warehouse.
    pub warehouse: Uuid,
    /// The warehouse's version. It changes with every change to the storage settings.
    pub version: u64,
    /// The files that the credentials give access to.
    pub files: Files,
}

/// Cache of recently vended credentials.
pub struct VendCache {
    slots: Cache<VendKey, Arc<Slot>>,
    generations: AtomicU64,
}

/// Vended credentials, with a number that is unique in the cache.
#[derive(Debug)]
pub struct Credentials {
    /// The credentials.
    pub vended: Vended,
    /// Their number.
    pub generation: u64,
}

/// The credentials for one key, if they were already vended.
#[derive(Default)]
struct Slot {
    ready: RwLock<Option<Ready>>,
    /// Locked while a request to the provider is in progress. Contains the last failure.
    asking: Mutex<Option<VendError>>,
    /// Number of failed requests to the provider.
    failures: AtomicU64,
}

#[derive(Clone)]
struct Ready {
    credentials: Arc<Credentials>,
    fresh_until_ms: i64,
}

impl VendCache {
    /// Creates a cache for at most `entries_max` keys.
    pub fn new(entries_max: usize) -> Self {
        Self { slots: Cache::new(entries_max), generations: AtomicU64::new(0) }
    }

    /// Returns credentials with at least half of their lifetime left: cached credentials, or else
    /// the result of `vend`.
    pub async fn get(
        &self,
        key: &VendKey,
        now_ms: i64,
        vend: impl Future<Output = Result<Vended, VendError>>,
    ) -> Result<Arc<Credentials>, VendError> {
        let slot = self.slot(key);
        if let Some(kept) = slot.fresh(now_ms) {
            return Ok(kept);
        }
        let failures = slot.failures.load(Ordering::Acquire);
        let mut last_failure = slot.asking.lock().await;
        if let Some(kept) = slot.fresh(now_ms) {
            return Ok(kept);
        }
        // If the request of another call failed while this call waited for the lock, this call
        // returns that failure. Otherwise, all waiting calls would repeat the failing request, one
        // after the other.
        if slot.failures.load(Ordering::Acquire) != failures
            && let Some(error) = &*last_failure
        {
            return Err(error.clone());
        }
        match vend.await {
            Ok(vended) => {
                *last_failure = None;
                let generation = self.generations.fetch_add(1, Ordering::Relaxed);
                Ok(slot.keep(Credentials { vended, generation }, now_ms))
            }
            Err(error) => {
                *last_failure = Some(error.clone());
                slot.failures.fetch_add(1, Ordering::Release);
                Err(error)
            }
        }
    }

    fn slot(&self, key: &VendKey) -> Arc<Slot> {
        if let Some(slot) = self.slots.get(key) {
            return slot;
        }
        let new = || Ok::<_, std::convert::Infallible>(Arc::default());
        let Ok(slot) = self.slots.get_or_insert_with(key, new);
        slot
    }
}

impl Slot {
    fn fresh(&self, now_ms: i64) -> Option<Arc<Credentials>> {
        let ready = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = ready.as_ref().filter(|ready| now_ms < ready.fresh_until_ms);
        fresh.map(|ready| Arc::clone(&ready.credentials))
    }

    fn keep(&self, credentials: Credentials, now_ms: i64) -> Arc<Credentials> {
        let life_ms = credentials.vended.expires_at_ms.saturating_sub(now_ms).max(0);
        let credentials = Arc::new(credentials);
        let ready =
            Ready { credentials: Arc::clone(&credentials), fresh_until_ms: now_ms + life_ms / 2 };
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Some(ready);
        credentials
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::location::Location;
    use crate::vend::files::Privileges;
    use slateberg_base::error_chain::Cause;

    fn key(table: u128, write: bool) -> VendKey {
        let location = Location::parse("s3://b/w/t").expect("it is a location");
        VendKey {
            warehouse: Uuid::nil(),
            version: 1,
            files: Files {
                table: Uuid::from_u128(table),
                locations: vec![location],
                privileges: Privileges { read: true, write, delete: write },
            },
        }
    }

    fn vended(expires_at_ms: i64) -> Vended {
        Vended { config: Arc::new(BTreeMap::new()), expires_at_ms }
    }

    #[tokio::test]
    async fn cached_credentials_have_half_of_their_lifetime_left() {
        let cache = VendCache::new(10);
        let at = async |now_ms, expires_at_ms| {
            let vend = async { Ok(vended(expires_at_ms)) };
            let got = cache.get(&key(1, false), now_ms, vend).await.expect("vended");
            (got.vended.expires_at_ms, got.generation)
        };
        assert_eq!(at(0, 1000).await, (1000, 0));
        assert_eq!(at(499, 2000).await, (1000, 0), "they are kept");
        assert_eq!(at(500, 2000).await, (2000, 1), "half of their life is over");
        let other = cache.get(&key(1, true), 500, async { Ok(vended(7)) }).await.expect("vended");
        assert_eq!(other.vended.expires_at_ms, 7, "credentials for writing are different");
        assert_eq!(other.generation, 2, "the number is unique");
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_request_and_its_failure() {
        let cache = Arc::new(VendCache::new(10));
        let requests = Arc::new(AtomicU64::new(0));
        for fails in [true, false] {
            requests.store(0, Ordering::SeqCst);
            let tasks: Vec<_> = (0..32)
                .map(|_| {
                    let (cache, requests) = (Arc::clone(&cache), Arc::clone(&requests));
                    tokio::spawn(async move {
                        let vend = async {
                            requests.fetch_add(1, Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(20)).await;
                            if fails { Err(VendError(Cause::new("no"))) } else { Ok(vended(1000)) }
                        };
                        cache.get(&key(2, false), 0, vend).await.is_err()
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.expect("it ran"), fails);
            }
            assert_eq!(requests.load(Ordering::SeqCst), 1);
        }
    }

    #[tokio::test]
    async fn cancelled_caller_passes_the_request_to_the_next() {
        let cache = VendCache::new(10);
        let key = key(3, false);
        let never = cache.get(&key, 0, std::future::pending());
        assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
        assert!(cache.get(&key, 0, async { Ok(vended(1)) }).await.is_ok());
    }
}
