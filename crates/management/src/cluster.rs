//! Bodies of `/management/v1/cluster`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Response of `GET /management/v1/cluster`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterStatus {
    /// Whether the cluster has a writer.
    #[serde(default)]
    pub state: ClusterState,
    /// Whether all members that respond read the same newest format of the store. While an upgrade is
    /// not complete, members of older versions may not be able to become the writer.
    #[serde(default)]
    pub is_upgraded: bool,
    /// The term of the writer. It increases with each new writer. 0 if no writer is known.
    pub term: u64,
    /// The id of the writer, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<Uuid>,
    /// The members, ordered by name.
    pub members: Vec<ClusterMember>,
}

/// The state of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    /// A writer executes changes.
    #[default]
    Serving,
    /// The writer changes.
    Changing,
    /// An operator has paused the cluster: it has no writer until `slateberg cluster resume`.
    Paused,
}

/// A member of the cluster.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterMember {
    /// Id of the process, new for each start.
    pub id: Uuid,
    /// Name of the member.
    pub name: String,
    /// Version of slateberg.
    pub version: String,
    /// The newest format of the store that the member reads. Absent if its version does not publish
    /// this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_format: Option<u32>,
    /// URL at which other members connect to this member.
    pub address: String,
    /// Whether the member may become the writer.
    pub eligible: bool,
    /// The current role of the member.
    pub role: ClusterRole,
    /// Sections of the settings in which the member differs from the writer, such as `warehouses`. During
    /// a pause, the last writer.
    pub different_settings: Vec<String>,
}

/// The role of a member of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterRole {
    /// The member executes all requests.
    Writer,
    /// The member forwards requests to the writer.
    Standby,
    /// The member is stopping, or becomes or was the writer.
    Changing,
    /// The member does not respond to the member that executes this request.
    Unreachable,
}

/// Body of `POST /management/v1/cluster/transfer`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TransferWriterRequest {
    /// Name or id of the next writer. Without it, the writer chooses a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

/// Response of `POST /management/v1/cluster/transfer`. The transfer has begun.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TransferStarted {
    /// The term that ends.
    pub term: u64,
    /// Name of the writer.
    pub from: String,
    /// Name of the next writer.
    pub to: String,
    /// Id of the next writer.
    pub successor: Uuid,
}

/// Response of `POST /management/v1/cluster/pause`. The pause has begun.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PauseStarted {
    /// The term that ends.
    pub term: u64,
    /// Name of the writer.
    pub writer: String,
}
