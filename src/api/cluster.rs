//! [`ClusterControl`]: the cluster of which this process is the writer.

use futures::future::BoxFuture;

use super::error::ApiError;
use slateberg_cluster::Successor;
use slateberg_management::cluster::ClusterStatus;

/// The cluster of which this process is the writer.
pub trait ClusterControl: Send + Sync + 'static {
    /// Returns the writer and all members.
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, ApiError>>;

    /// Returns the member with this name or id, if it can become the writer. Without a name, chooses
    /// a member.
    fn find_successor<'a>(
        &'a self,
        member: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Successor, ApiError>>;

    /// Begins to transfer the term of this writer, and returns its term and its name.
    fn transfer(&self, successor: Successor) -> (u64, String);
}
