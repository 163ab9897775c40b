//! [`ClusterControl`]: the cluster of which this process is a member.

use futures::future::BoxFuture;
use uuid::Uuid;

use super::error::ApiError;
use slateberg_cluster::Successor;
use slateberg_management::cluster::ClusterStatus;

/// The cluster of which this process is a member. Only the writer changes it.
pub trait ClusterControl: Send + Sync + 'static {
    /// Returns the writer and all members.
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, ApiError>>;

    /// Returns the member with this name or id, if it can become the writer. Without a name, chooses
    /// a member.
    fn find_successor<'a>(
        &'a self,
        member: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Successor, ApiError>>;

    /// Returns the term, the id and the name of this writer.
    fn writer(&self) -> (u64, Uuid, String);

    /// Begins to transfer the term of this writer.
    fn transfer(&self, successor: Successor);

    /// Begins to end the term of this writer so that no member takes over.
    fn pause(&self);
}
