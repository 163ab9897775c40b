//! Rank 4: the catalog's records, typed and transactional, on SlateDB. The only room that knows a key.
//!
//! Nouns, in the order in which they build on each other:
//! - a **key space** is a range of keys ([`keys`]) with one leading byte. Each holds one kind of **record**
//!   ([`records`]), written with a version byte in front ([`codec`]). The registry of them has the rules for
//!   restore, clone, export, the cache and expiry ([`key_space`]);
//! - a **document** is the metadata of a table or view: a **head**, and **pieces** that its versions share
//!   ([`codec::Document`]); only whole ones are read and written;
//! - a **read** sees durable state only ([`read`]), from memory where it was read lately and has not been
//!   written since (`recent`); a **transaction** ([`txn`]) sees everything accepted
//!   so far and is serializable;
//! - a transaction that committed is **accepted**: visible to later transactions, not yet durable. It is
//!   **durable** once its write-ahead log object is in the bucket. Durability is ordered: what is durable
//!   has all its predecessors durable;
//! - a **publication** says that a metadata file may still be missing from the warehouse
//!   ([`records::Publication`]); it is **landed** when both the log and the file are there, and its
//!   marker goes with a later batch;
//! - a **checkpoint** ([`checkpoints`]) is a state of the store that stays readable until it is deleted;
//! - a **clone** ([`clones`]) is another store that begins with such a state, and shares its sorted runs;
//! - the log of a bucket may be in another one, which is faster ([`separate_log`]): the two are a pair;
//! - the **policy book** is what was made of policies and grants at run time ([`policy_book`]), and the
//!   **policy log** all its **revisions**, which only grows.
//!
//! The store knows no principal: who wants to begin a transaction shows a permit.

pub mod audit;
mod block_cache;
mod builder;
pub mod checkpoints;
pub mod clones;
pub mod codec;
mod documents;
pub mod encryption;
mod error;
mod explanation;
pub mod files;
mod flusher;
pub mod fsck;
#[cfg(test)]
mod golden;
mod handle;
pub mod invariants;
pub mod jobs;
mod key_ring;
mod key_rotation;
pub mod key_space;
pub mod key_visitor;
pub mod keys;
mod location;
pub mod loss;
mod metrics;
mod offline;
pub mod open;
pub mod policy_book;
pub mod read;
mod recent;
pub mod records;
pub mod restore;
pub mod separate_log;
pub mod settings;
mod slatedb_help;
pub mod storage;
#[cfg(test)]
mod trying;
pub mod txn;
pub mod warm;
mod write_marks;

pub use error::Error;
pub use handle::Store;
pub use slateberg_wal::DamagedFile;
