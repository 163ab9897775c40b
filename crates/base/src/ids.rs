//! Generation of identifiers.

use uuid::Uuid;

/// Prefix of directories that probes of object stores create. A directory that an interrupted probe
/// leaves behind is safe to delete.
pub const PROBE_PREFIX: &str = ".slateberg-probe-";

/// A source of new identifiers.
pub trait Ids: Send + Sync + 'static {
    /// Returns a random identifier (UUID version 4), which does not contain its creation time.
    fn random(&self) -> Uuid;

    /// Returns a time-ordered identifier (UUID version 7). Later identifiers sort after earlier
    /// ones.
    fn ordered(&self) -> Uuid;
}

/// Generates identifiers from the operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

#[expect(clippy::disallowed_methods, reason = "only this module generates random ids")]
impl Ids for RandomIds {
    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }
}
