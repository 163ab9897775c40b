//! Identifiers, and the only place that mints them.

use uuid::Uuid;

/// What the names of directories begin with in which object stores are tried out. A try that is cut off
/// leaves one behind, which is nobody's.
pub const PROBES: &str = ".slateberg-probe-";

/// A source of new identifiers.
pub trait Ids: Send + Sync + 'static {
    /// A random identifier (UUID version 4): says nothing about when it was made.
    fn random(&self) -> Uuid;

    /// A time-ordered identifier (UUID version 7): later ones sort behind earlier ones.
    fn ordered(&self) -> Uuid;
}

/// Identifiers from the operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

#[expect(clippy::disallowed_methods, reason = "the one place that mints ids")]
impl Ids for RandomIds {
    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }
}
