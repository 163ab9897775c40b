//! [`Transfers`]: the members as this member sees them, and the planned end of its term as the writer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures::future::{BoxFuture, join_all};
use tokio::time::timeout;
use uuid::Uuid;

use super::node::{Command, KnownWriter, Node};
use super::peers::Peers;
use crate::api::cluster::ClusterControl;
use crate::api::error::ApiError;
use slateberg_base::error_chain::chain;
use slateberg_base::version;
use slateberg_cluster::{Role, Successor};
use slateberg_management::cluster::{ClusterMember, ClusterRole, ClusterState, ClusterStatus};
use slateberg_runtime::cluster::MemberRecord;

/// Time that a member that stops gives the choice of its successor.
const CHOICE_MAX: Duration = Duration::from_secs(5);

/// Describes the members, and ends the term of this process by a transfer or a pause.
pub(super) struct Transfers {
    node: Arc<Node>,
    peers: Arc<Peers>,
}

impl Transfers {
    /// Controls this member.
    pub(super) fn new(node: Arc<Node>, peers: Arc<Peers>) -> Arc<Self> {
        Arc::new(Self { node, peers })
    }

    /// Gives the term of this process to another member, before this process stops. Returns as soon
    /// as the other member has the term. Returns at once if no member can take it, and at the latest
    /// after `at_most`.
    pub(super) async fn hand_over(&self, at_most: Duration) {
        let successor = match timeout(CHOICE_MAX, self.find(None)).await {
            Ok(Ok(successor)) => successor,
            Ok(Err(_)) | Err(_) => {
                tracing::info!("no other member of the cluster can become the writer");
                return;
            }
        };
        self.transfer(successor);
        let holds_term = |role: &Role| matches!(role, Role::Writer | Role::Opening | Role::Leaving);
        if timeout(at_most, self.node.roles().wait_for(|role| !holds_term(role))).await.is_err() {
            tracing::warn!("the transfer of the writer did not end in time");
        }
    }

    async fn members(&self) -> Result<Vec<(MemberRecord, ClusterRole)>, ApiError> {
        let records = self.peers.list().await.map_err(|error| {
            let error = chain(&error);
            tracing::warn!(error, "cannot read the records of the cluster's members");
            unavailable("The records of the cluster's members cannot be read")
        })?;
        let roles = records.iter().map(|record| async move {
            if record.member.node == self.node.id {
                return self.node.cluster_role();
            }
            let state = self.peers.state(&record.peer).await;
            let state = state.filter(|state| state.node == record.member.node);
            state.map_or(ClusterRole::Unreachable, |state| state.role)
        });
        let roles = join_all(roles).await;
        Ok(records.into_iter().zip(roles).collect())
    }

    async fn find(&self, wanted: Option<&str>) -> Result<Successor, ApiError> {
        let members = self.members().await?;
        let Some(wanted) = wanted else { return self.choose(members) };
        let is_wanted = |member: &MemberRecord| {
            member.member.name == wanted || member.member.node.to_string() == wanted
        };
        let mut found: Vec<_> = members.into_iter().filter(|(it, _)| is_wanted(it)).collect();
        // A process that crashed has a record for some time, with the same name as its next process.
        if found.len() > 1 {
            found.retain(|(_, role)| *role != ClusterRole::Unreachable);
        }
        if found.len() > 1 {
            let message = format!("Several members have the name '{wanted}': use the id of one");
            return Err(ApiError::bad_request(message));
        }
        let Some((member, role)) = found.pop() else {
            let message = format!("The cluster has no member '{wanted}'");
            return Err(ApiError::new(StatusCode::NOT_FOUND, "NoSuchMemberException", message));
        };
        match role {
            _ if member.member.node == self.node.id => {
                Err(ApiError::bad_request(format!("The member '{wanted}' is the writer")))
            }
            _ if !member.eligible => {
                let message = format!("The member '{wanted}' is not eligible (cluster.eligible)");
                Err(ApiError::bad_request(message))
            }
            ClusterRole::Standby => Ok(successor(member)),
            _ => Err(unavailable(&format!("The member '{wanted}' is not ready"))),
        }
    }

    /// Chooses the member with the newest version. An older version may not be able to open the
    /// store.
    fn choose(&self, members: Vec<(MemberRecord, ClusterRole)>) -> Result<Successor, ApiError> {
        let candidates = members.into_iter().filter(|(member, role)| {
            let is_other = member.member.node != self.node.id;
            is_other && member.eligible && *role == ClusterRole::Standby
        });
        let newest = candidates.max_by_key(|(MemberRecord { member, .. }, _)| {
            version::order(member.store_format, &member.version)
        });
        let none = || unavailable("No other member of the cluster can become the writer");
        newest.map(|(member, _)| successor(member)).ok_or_else(none)
    }
}

impl ClusterControl for Transfers {
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, ApiError>> {
        Box::pin(async move {
            let known = self.node.writer().borrow().clone();
            let (state, term, writer, settings) = match &known {
                KnownWriter::Local(term) => {
                    (ClusterState::Serving, *term, Some(self.node.id), &self.node.settings)
                }
                KnownWriter::Remote(record) => {
                    let holder = &record.holder;
                    (ClusterState::Serving, record.term, Some(holder.node), &holder.settings)
                }
                KnownWriter::Paused(record) => {
                    (ClusterState::Paused, record.term, None, &record.holder.settings)
                }
                KnownWriter::Unknown => (ClusterState::Changing, 0, None, &self.node.settings),
            };
            let members = self.members().await?;
            let responding = members.iter().filter(|(_, role)| *role != ClusterRole::Unreachable);
            let formats: BTreeSet<_> =
                responding.map(|(record, _)| record.member.store_format).collect();
            let is_upgraded = formats.len() == 1;
            let members = members.into_iter().map(|(record, role)| ClusterMember {
                id: record.member.node,
                name: record.member.name,
                version: record.member.version,
                store_format: record.member.store_format,
                address: record.peer.url,
                eligible: record.eligible,
                role,
                different_settings: record.member.settings.different_sections(settings),
            });
            Ok(ClusterStatus { state, is_upgraded, term, writer, members: members.collect() })
        })
    }

    fn find_successor<'a>(
        &'a self,
        member: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Successor, ApiError>> {
        Box::pin(self.find(member))
    }

    fn writer(&self) -> (u64, Uuid, String) {
        (self.node.term(), self.node.id, self.node.name.clone())
    }

    fn transfer(&self, successor: Successor) {
        self.node.command(Command::Transfer(successor));
    }

    fn pause(&self) {
        self.node.command(Command::Pause);
    }
}

fn successor(member: MemberRecord) -> Successor {
    Successor { member: member.member, peer: member.peer }
}

fn unavailable(message: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException", message)
}
