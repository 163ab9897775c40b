//! Applies a commit to a table or view, and rebases it if it conflicts.

use tokio::time::Instant;
use uuid::Uuid;

use super::append::Rebase;
use super::append::prepared::{PreparedRebase, Unapplied};
use super::builder::CommitBuilder;
use super::change::Change;
use crate::error::CommitConflict;
use crate::tabular::Tabulars;
use crate::{Error, Operation, Result};

/// Applies a commit. If it conflicts with the state of the builder, rebases it. Returns whether it
/// had an effect. Returns `None` if it must be prepared again.
pub(super) async fn apply<M: Rebase>(
    builder: &mut CommitBuilder<'_, M>,
    operation: &Operation,
    change: &Change<M>,
    prepared: Option<&PreparedRebase>,
) -> Result<Option<bool>> {
    let applied = builder.apply(change).await;
    let used = prepared.map(PreparedRebase::used_records).unwrap_or_default();
    if matches!(applied, Ok(true)) {
        builder.left_behind.used.extend(used);
    }
    let (Err(Error::CommitFailed(CommitConflict::Requirement(refusal))), Some(prepared)) =
        (&applied, prepared)
    else {
        return applied.map(Some);
    };
    let rebased = M::rebase(builder, change, prepared).await;
    builder.record_rebase(&rebased);
    match rebased {
        Ok(()) => {
            builder.left_behind.used.extend(used);
            Ok(Some(true))
        }
        Err(Unapplied::Postponed) => Ok(None),
        Err(Unapplied::Refused(reason)) => {
            let id = builder.head.record.id;
            grant_turn(builder.tabulars, operation, id, (change, &*builder.metadata));
            let refusal = refusal.clone();
            Err(Error::CommitFailed(CommitConflict::NotRebased { refusal, reason }))
        }
    }
}

/// Grants a turn to the principal of a commit that cannot be rebased, if it lost against appends.
pub(super) fn grant_turn<M: Rebase>(
    tabulars: &Tabulars,
    operation: &Operation,
    id: Uuid,
    (change, current): (&Change<M>, &M),
) {
    if M::lost_to_appends(change, current) {
        tabulars.turns.grant(id, operation.principal.id(), Instant::now());
    }
}
