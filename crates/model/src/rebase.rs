//! Rebase of appends and compactions. A client may create a commit for an earlier state of the table.
//! If the commit only adds data files, or only reorganizes files, it is applied to the current
//! state.
//!
//! "Append operations have no requirements and can always be applied. [...] To change a sequence
//! number for a retry, only the manifest list must be rewritten" (table specification, "Commit
//! Conflict Resolution and Retry"). The new snapshot keeps its id and its manifests. Its parent,
//! sequence number, time, manifest list, row ids and totals become the same as in a retry by the
//! client. If the client has replaced manifests of the state that it had loaded, the same manifests
//! are replaced in the current state ([`ClientManifests`]).
//!
//! A commit may append several snapshots, because some clients add a snapshot for each statement of
//! a transaction. These snapshots are rebased together ([`RebaseChain`]).
//!
//! The functions are pure. The caller reads and writes the manifest lists.

mod ancestors;
mod candidate;
mod chain;
mod manifests;
mod reason;
mod snapshot_json;
mod summary;
#[cfg(test)]
mod tests;
mod turn;

pub use candidate::{AddedSnapshot, BLIND_APPEND, RebaseCandidate};
pub use chain::{NewList, RebaseChain, RebasedCommit, RebasedSnapshot};
pub use manifests::ClientManifests;
pub use reason::NotRebased;
pub use summary::REBASED_FROM;
pub(super) use summary::is_rebased_form;
pub use turn::lost_to_appends;
