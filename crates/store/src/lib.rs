//! Rank 4 (`docs/architecture.md`): typed and transactional records of the catalog, on SlateDB.
//! Only this crate knows the keys.
//!
//! Terms, in the order in which they build on each other:
//! - A **key space** is a range of keys ([`keys`]) with one leading byte. It contains one kind of
//!   **record** ([`records`]), encoded with a version byte ([`codec`]). The registry of the key
//!   spaces contains the rules for restore, clone, export, the cache and expiry ([`key_space`]).
//! - A **document** is the metadata of a table or view: a **head**, and **chunks** that its
//!   versions share ([`codec::Document`]). A document is always read and written as a whole.
//! - A **read** sees only durable state ([`read`]). It uses the record cache if no transaction has
//!   written the record since the record was cached. A **transaction** ([`txn`]) sees everything
//!   that has been accepted, and is serializable.
//! - A committed transaction is **accepted**: visible to later transactions, but not durable yet.
//!   It is **durable** once it is stored in the write-ahead log, so that a crash cannot lose it.
//!   Durability is ordered: everything before a durable transaction is durable.
//! - A **publication** is the record of a metadata file that may be missing in the warehouse
//!   ([`records::Publication`]). It is complete when both the log and the file are durable. The
//!   record is also called the **marker** of the publication. A later transaction removes the
//!   marker. Files on a local file system are synced together, some time after they are written
//!   ([`unsynced`]).
//! - A **checkpoint** ([`checkpoints`]) is a state of the store that stays readable until it is
//!   deleted.
//! - A **clone** ([`clones`]) is another store that starts with the state of a checkpoint, and
//!   references the sorted runs of its parent.
//! - A **replica** ([`replica`]) is a private copy of the store in another process. It applies the
//!   rows of the writer's durable transactions ([`replication`]).
//! - The write-ahead log of a store may be in another, faster bucket ([`separate_log`]). The store
//!   and this log are a pair.
//! - A **policy snapshot** contains the policies and grants that were created at run time, at one
//!   **revision** ([`policy_snapshot`]). The append-only **policy log** contains all revisions.
//!
//! The store does not check what a principal may do. Instead, each transaction of a request
//! requires a `Permit`.

pub mod audit;
mod block_cache;
mod builder;
pub mod bulk_read;
mod cache_eviction;
mod change_action;
pub mod change_feed;
mod change_log;
mod changes;
pub mod checkpoints;
pub mod clones;
pub mod codec;
mod compression;
mod documents;
pub mod dropped;
pub mod encryption;
mod error;
mod explanation;
pub mod files;
mod filters;
mod flusher;
pub mod fsck;
pub mod functions;
#[cfg(test)]
mod golden;
mod handle;
pub mod invariants;
pub mod jobs;
mod key_range;
mod key_ring;
mod key_rotation;
pub mod key_space;
pub mod key_visitor;
pub mod keys;
pub mod labels;
mod location;
pub mod log_tail;
pub mod loss;
mod metrics;
pub mod metrics_reports;
mod offline;
pub mod open;
mod overlay;
pub mod policy_snapshot;
pub mod read;
mod record_cache;
pub mod records;
pub mod replica;
pub mod replication;
pub mod restore;
pub mod separate_log;
pub mod settings;
mod slatedb_help;
mod status;
pub mod storage;
#[cfg(test)]
mod test_support;
pub mod txn;
pub mod unsynced;
pub mod usage;
mod version_clock;
pub mod warm_up;
pub mod watch_cursors;
pub mod webhooks;

pub use error::Error;
pub use handle::Store;
pub use slateberg_wal::DamagedFile;
