//! [`UpgradeGate`]: whether members of an older version can still take over, so that a member that
//! would raise the format of the store leaves this to them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::time::Instant;

use super::peers::Peers;
use slateberg_base::error_chain::chain;
use slateberg_cluster::Election;
use slateberg_runtime::cluster::MemberRecord;

/// Interval of the searches for members of an older version.
const SEARCH_EVERY: Duration = Duration::from_secs(2);

/// Searches for members of an older version while this member would raise the format of the store.
#[derive(Default)]
pub(super) struct UpgradeGate {
    is_searching: bool,
    searched: Option<Instant>,
}

impl UpgradeGate {
    /// Returns a search if it is due. Its result belongs to [`UpgradeGate::end`].
    pub(super) fn search(
        &mut self,
        election: &Election,
        peers: &Arc<Peers>,
    ) -> Option<BoxFuture<'static, bool>> {
        let is_recent = self.searched.is_some_and(|searched| searched.elapsed() < SEARCH_EVERY);
        if self.is_searching || is_recent || !election.raises_format() {
            return None;
        }
        self.is_searching = true;
        let (own, peers) = (election.config().member.clone(), Arc::clone(peers));
        let holder = election.last_record().map(|record| record.holder.node);
        // The last writer itself is no candidate. It has failed if another member takes over.
        let is_older = move |record: &MemberRecord| {
            record.eligible
                && record.member.store_format < own.store_format
                && Some(record.member.node) != holder
        };
        Some(Box::pin(async move { any_responds(&peers, is_older).await }))
    }

    /// Notes the end of a search.
    pub(super) fn end(&mut self) {
        *self = Self { is_searching: false, searched: Some(Instant::now()) };
    }
}

/// Whether a member responds that meets a condition.
async fn any_responds(peers: &Peers, condition: impl Fn(&MemberRecord) -> bool) -> bool {
    let members = match peers.list().await {
        Ok(members) => members,
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(error, "cannot read the records of the cluster's members");
            return true;
        }
    };
    let candidates = members.iter().filter(|record| condition(record));
    let responses = candidates.map(|MemberRecord { member, peer, .. }| async move {
        peers.state(peer).await.is_some_and(|state| state.node == member.node)
    });
    join_all(responses).await.contains(&true)
}
