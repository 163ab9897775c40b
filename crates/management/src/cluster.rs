//! Bodies of `/management/v1/cluster`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Response of `GET /management/v1/cluster`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterStatus {
    /// The term of the writer. It increases with each new writer.
    pub term: u64,
    /// The id of the writer.
    pub writer: Uuid,
    /// The members, ordered by name.
    pub members: Vec<ClusterMember>,
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
    /// URL at which other members connect to this member.
    pub address: String,
    /// Whether the member may become the writer.
    pub eligible: bool,
    /// The current role of the member.
    pub role: ClusterRole,
    /// Sections of the settings in which the member differs from the writer, such as `warehouses`.
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
    /// The member does not respond to the writer.
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
