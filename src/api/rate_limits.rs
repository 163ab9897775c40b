//! Rate limits per address and per principal, as token buckets.
//!
//! The server rejects a request beyond the limit with `Retry-After` and does no further work for
//! it. Memory is bounded: beyond the maximum number of buckets, the least active ones are evicted.
//! An evicted bucket is full when it is created again.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use slateberg_base::network::network;
use slateberg_config::server::listen::RateLimitSettings;

/// A monotonic clock: changes of the machine's clock do not affect limits.
#[derive(Clone)]
pub struct Uptime(Instant);

impl Default for Uptime {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Uptime {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

/// The rate limits of a server. At least one of them is configured.
pub struct RateLimits<C: Clock = Uptime> {
    by_address: Option<Buckets<IpAddr, C>>,
    by_principal: Option<Buckets<String, C>>,
}

/// A request exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited {
    /// Whole seconds after which a further request is accepted.
    pub retry_after_seconds: u64,
}

impl RateLimits {
    /// Creates the limits of these settings. Returns `None` if no limit is configured.
    pub fn new(settings: &RateLimitSettings) -> Option<Self> {
        Self::with_clock(settings, &Uptime::default())
    }
}

impl<C: Clock + Clone> RateLimits<C> {
    fn with_clock(settings: &RateLimitSettings, clock: &C) -> Option<Self> {
        let RateLimitSettings { remembered_max, .. } = *settings;
        let quota = |per_second, burst| {
            let per_second = NonZeroU32::new(per_second)?;
            let burst = NonZeroU32::new(burst).unwrap_or(per_second);
            Some(Quota::per_second(per_second).allow_burst(burst))
        };
        let address =
            quota(settings.address_requests_per_second, settings.address_burst_requests_max);
        let principal =
            quota(settings.principal_requests_per_second, settings.principal_burst_requests_max);
        let limits = Self {
            by_address: address.map(|quota| Buckets::new(quota, remembered_max, clock)),
            by_principal: principal.map(|quota| Buckets::new(quota, remembered_max, clock)),
        };
        (limits.by_address.is_some() || limits.by_principal.is_some()).then_some(limits)
    }

    /// Takes a token from the bucket of an address. A request without an address is not limited.
    pub fn take_for_address(&self, address: Option<IpAddr>) -> Result<(), RateLimited> {
        match (&self.by_address, address) {
            (Some(buckets), Some(address)) => {
                let address = network(address);
                buckets.take(&address, || address)
            }
            _ => Ok(()),
        }
    }

    /// Takes a token from the bucket of the principal with this id.
    pub fn take_for_principal(&self, id: &str) -> Result<(), RateLimited> {
        match &self.by_principal {
            Some(buckets) => buckets.take(id, || id.to_owned()),
            None => Ok(()),
        }
    }
}

type Bucket<C> = RateLimiter<
    NotKeyed,
    InMemoryState,
    C,
    governor::middleware::NoOpMiddleware<<C as Clock>::Instant>,
>;

/// One bucket for each key.
struct Buckets<K, C: Clock> {
    quota: Quota,
    clock: C,
    by_key: Cache<K, Arc<Bucket<C>>>,
}

impl<K: Eq + Hash, C: Clock + Clone> Buckets<K, C> {
    fn new(quota: Quota, remembered_max: usize, clock: &C) -> Self {
        Self { quota, clock: clock.clone(), by_key: Cache::new(remembered_max) }
    }

    fn take<Q: ?Sized + Hash + Equivalent<K>>(
        &self,
        key: &Q,
        owned: impl FnOnce() -> K,
    ) -> Result<(), RateLimited> {
        let bucket = self.by_key.get(key).unwrap_or_else(|| {
            let full = RateLimiter::direct_with_clock(self.quota, self.clock.clone());
            let full = Arc::new(full);
            self.by_key.insert(owned(), Arc::clone(&full));
            full
        });
        bucket.check().map_err(|not_until| {
            let wait: Duration = not_until.wait_time_from(self.clock.now());
            let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            RateLimited { retry_after_seconds: whole.max(1) }
        })
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn settings() -> RateLimitSettings {
        RateLimitSettings {
            address_requests_per_second: 1,
            address_burst_requests_max: 3,
            principal_requests_per_second: 2,
            remembered_max: 64,
            ..RateLimitSettings::default()
        }
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn burst_is_admitted_then_one_request_per_interval() {
        let clock = FakeRelativeClock::default();
        let limits = RateLimits::with_clock(&settings(), &clock).expect("there are some");
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let taken: Vec<_> = (0..5).map(|_| limits.take_for_address(one).is_ok()).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert_eq!(limits.take_for_address(other), Ok(()));
        assert_eq!(limits.take_for_address(one), Err(RateLimited { retry_after_seconds: 1 }));
        clock.advance(Duration::from_secs(1));
        assert_eq!(limits.take_for_address(one), Ok(()));
        assert!(limits.take_for_address(one).is_err());
        assert_eq!(limits.take_for_address(None), Ok(()), "without an address, there is no limit");
    }

    #[test]
    fn each_principal_has_its_own_bucket() {
        let clock = FakeRelativeClock::default();
        let limits = RateLimits::with_clock(&settings(), &clock).expect("there are some");
        let taken: Vec<_> = (0..3).map(|_| limits.take_for_principal("a").is_ok()).collect();
        assert_eq!(taken, [true, true, false]);
        assert_eq!(limits.take_for_principal("b"), Ok(()));
    }

    #[test]
    fn network_shares_one_bucket_and_memory_is_bounded() {
        let clock = FakeRelativeClock::default();
        let limits = RateLimits::with_clock(&settings(), &clock).expect("there are some");
        for host in 1..=3 {
            assert_eq!(limits.take_for_address(address(&format!("2001:db8::{host}"))), Ok(()));
        }
        assert!(limits.take_for_address(address("2001:db8::4")).is_err());
        for n in 0..10_000_u32 {
            assert!(limits.take_for_address(Some(IpAddr::V4(n.into()))).is_ok());
        }
        assert!(limits.by_address.expect("addresses are limited").by_key.len() <= 64);
    }

    #[test]
    fn nothing_is_limited_by_default() {
        assert!(RateLimits::new(&RateLimitSettings::default()).is_none());
    }
}
