//! Settings of a cluster: several processes on one state, of which one is the writer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use slateberg_base::setting::InvalidSetting;

/// Membership in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Whether this process is a member of a cluster.
    pub enabled: bool,
    /// The address for connections of other members.
    pub listen: SocketAddr,
    /// The host and port at which other members reach `listen`. Empty: the address of `listen`, or
    /// the name of the host if that address is unspecified.
    pub advertise: String,
    /// The name of this member in messages. Empty: the name of the host.
    pub name: String,
    /// Whether this member may become the writer.
    pub eligible: bool,
    /// Whether this member executes reads itself while it is a standby.
    pub local_reads: bool,
    /// The handling of reads while this member cannot reach the bucket.
    pub without_bucket: WithoutBucket,
    /// Duration of the writer's lease, in milliseconds. 0: 10 s in Google Cloud Storage, and
    /// otherwise 4 s.
    pub lease_ms: u64,
    /// Interval of the renewals of the lease, in milliseconds. 0: a quarter of the lease.
    pub renew_ms: u64,
    /// Maximum time that a request waits for the renewal of an expired lease before it waits for
    /// another writer, in milliseconds.
    pub lease_wait_ms: u64,
    /// Maximum time that a request waits for a writer, in milliseconds.
    pub forward_wait_ms: u64,
}

/// Reads of a member that has not reached the bucket for the duration of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutBucket {
    /// They get 503: the state may be old.
    #[default]
    Refuse,
    /// They are executed on the state in memory. The response states its age.
    Stale,
}

/// The default port for connections of other members.
const PORT: u16 = 9182;
const LEASE_WAIT_MS: u64 = 2_000;
const FORWARD_WAIT_MS: u64 = 20_000;
/// Default durations of leases. Google Cloud Storage accepts about one write per second to an
/// object.
const LEASE_MS: u64 = 4_000;
const LEASE_MS_GOOGLE: u64 = 10_000;
/// Shortest duration of a lease. A shorter lease would often expire during a slow request.
const LEASE_MS_MIN: u64 = 500;
/// Minimum number of renewals in the duration of a lease. If one of them fails, the next one is
/// still in time.
const RENEWALS_MIN: u64 = 3;
/// Default number of renewals in the duration of a lease.
const RENEWALS: u64 = 4;

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT),
            advertise: String::new(),
            name: String::new(),
            eligible: true,
            local_reads: true,
            without_bucket: WithoutBucket::Refuse,
            lease_ms: 0,
            renew_ms: 0,
            lease_wait_ms: LEASE_WAIT_MS,
            forward_wait_ms: FORWARD_WAIT_MS,
        }
    }
}

impl ClusterSettings {
    /// The duration of the lease for a state at this URL.
    pub fn lease(&self, state_url: &str) -> Duration {
        Duration::from_millis(match self.lease_ms {
            0 if state_url.starts_with("gs:") => LEASE_MS_GOOGLE,
            0 => LEASE_MS,
            set => set,
        })
    }

    /// The interval of the renewals of a lease of this duration.
    pub fn renewal(&self, lease: Duration) -> Duration {
        match self.renew_ms {
            0 => lease / RENEWALS as u32,
            set => Duration::from_millis(set),
        }
    }

    /// The maximum time that a request waits for the renewal of an expired lease.
    pub fn lease_wait(&self) -> Duration {
        Duration::from_millis(self.lease_wait_ms)
    }

    /// The maximum time that a request waits for a writer.
    pub fn forward_wait(&self) -> Duration {
        Duration::from_millis(self.forward_wait_ms)
    }
}

/// Returns the contradictions between these settings and a state at this URL.
pub(crate) fn problems(cluster: &ClusterSettings, state_url: &str) -> Vec<InvalidSetting> {
    if !cluster.enabled {
        return Vec::new();
    }
    [bucket_problem(state_url), lease_problem(cluster, state_url)].into_iter().flatten().collect()
}

fn bucket_problem(state_url: &str) -> Option<InvalidSetting> {
    (state_url.is_empty() || state_url.starts_with("file:")).then(|| {
        let message = "requires a state in a bucket: the members of a cluster share their state";
        InvalidSetting::new("cluster.enabled", message)
            .with_help("set state.url to a bucket, such as \"s3://bucket/slateberg\"")
    })
}

fn lease_problem(cluster: &ClusterSettings, state_url: &str) -> Option<InvalidSetting> {
    let lease = cluster.lease(state_url).as_millis() as u64;
    let renewal = cluster.renewal(cluster.lease(state_url)).as_millis() as u64;
    if lease < LEASE_MS_MIN {
        let message = format!("expected 0 or at least {LEASE_MS_MIN}, got {lease}");
        return Some(InvalidSetting::new("cluster.lease_ms", message));
    }
    (renewal * RENEWALS_MIN > lease).then(|| {
        let message = format!("{renewal} ms is more than a third of the lease ({lease} ms)");
        InvalidSetting::new("cluster.renew_ms", message)
            .with_help("lower it, or raise cluster.lease_ms")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: &str = "s3://bucket/state";

    fn found(state_url: &str, change: impl FnOnce(&mut ClusterSettings)) -> Vec<String> {
        let mut settings = ClusterSettings { enabled: true, ..ClusterSettings::default() };
        change(&mut settings);
        let problems = problems(&settings, state_url);
        problems.into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn cluster_on_a_bucket_is_accepted() {
        assert_eq!(found(BUCKET, |_| {}), Vec::<String>::new());
    }

    #[test]
    fn cluster_on_a_directory_is_rejected() {
        for url in ["", "file:///srv/state"] {
            assert_eq!(found(url, |_| {}), ["cluster.enabled"]);
            assert_eq!(found(url, |settings| settings.enabled = false), Vec::<String>::new());
        }
    }

    #[test]
    fn lease_with_too_few_renewals_is_rejected() {
        let short = found(BUCKET, |settings| settings.lease_ms = 499);
        assert_eq!(short, ["cluster.lease_ms"]);
        let renewals = |lease_ms, renew_ms| {
            found(BUCKET, |settings| {
                settings.lease_ms = lease_ms;
                settings.renew_ms = renew_ms;
            })
        };
        assert_eq!(renewals(3_000, 1_001), ["cluster.renew_ms"]);
        assert_eq!(renewals(3_000, 1_000), Vec::<String>::new());
    }

    #[test]
    fn lease_depends_on_the_kind_of_store() {
        let settings = ClusterSettings::default();
        assert_eq!(settings.lease("s3://bucket/state"), Duration::from_secs(4));
        assert_eq!(settings.lease("gs://bucket/state"), Duration::from_secs(10));
        assert_eq!(settings.renewal(Duration::from_secs(4)), Duration::from_secs(1));
    }
}
