//! Rank 0 (`docs/architecture.md`): the election of the writer among several processes.
//!
//! The processes of a cluster have one state bucket. One of them, the writer, has the store open
//! and processes all requests. The others are standbys, which forward requests to the writer. This
//! crate is the protocol that elects the writer. It has no I/O, no clock and no tasks: a driver
//! reports [`Event`]s to an [`Election`], and executes the [`Step`]s that it returns.
//!
//! Two mechanisms are independent of each other:
//!
//! - The **fence** is the writer epoch in the manifest of the store. Each open claims the next
//!   epoch, and ends the commits of all earlier opens. It protects commits, whatever clocks do.
//! - The **lease** is the register, an object that is replaced only on condition ([`register`]).
//!   It protects reads, names the writer, and delays candidates. A clock that is wrong by more
//!   than the margin can cause a stale read, and never loses a commit.
//!
//! # Time
//!
//! A process measures only durations of its own clock. The lease of a holder runs from the *start*
//! of its last put that succeeded, and its authority to answer reads ends a margin before the
//! lease. A candidate waits from the *end* of the read in which it saw a record first, for the
//! lease and the margin. The margin is 5 % of the lease, and at least 200 ms. So clocks may differ
//! in speed by 10 %. A put without a response is resolved by a read: the register contains its
//! nonce, or not.
//!
//! # Roles
//!
//! - [`Role::Standby`]: reads the register at each interval. The store is closed. The process becomes
//!   a candidate if the record is absent, released, or unchanged for the lease and the margin. If it
//!   reads that the previous holder has given it the term, it opens the store at once.
//! - [`Role::Candidate`]: puts `opening` with the next term and epoch, until the put succeeds or
//!   another process was faster.
//! - [`Role::Opening`]: renews the record as `opening`, opens the store, and then puts `serving` with
//!   the epoch of the open store. After the third failed open, it gives up.
//! - [`Role::Writer`]: renews the record as `serving`, and uses the store, until the operator stops
//!   the process, the store is fenced, or another process is the holder.
//! - [`Role::Leaving`]: renews the record as `leaving` while it completes its requests and closes the
//!   store. Then it puts `released`, or gives the next term to a successor: it puts `opening` in the
//!   name of the successor, with the next term and epoch. If the operator pauses the cluster, it puts
//!   `paused`.
//! - [`Role::Deposed`]: reads the register, closes the store, and waits for two leases.
//! - [`Role::Stopped`]: the election has ended, and the store is closed.
//!
//! A writer whose store is fenced may still be the rightful holder, for example if a candidate that
//! lost the register opened the store late. It stops to answer, reads the register, and opens again
//! if it still is the holder. After three failures within two leases it releases the register.
//!
//! # Pause
//!
//! An operator can pause the cluster, for example to copy the bucket. The holder completes its
//! requests, closes the store, and puts `paused` with its own term. No process is a candidate until
//! the operator replaces this record by the same one as `released` ([`WriterRecord::resumed`]). No
//! process of the cluster does this, because none can authorize a change without a writer. A version
//! that does not know pauses cannot read the record, which has a newer format, and so does not take
//! over. A holder that fails before this put has not paused the cluster: another process takes over
//! after its lease.
//!
//! # Invariants
//!
//! The tests check the invariants after each action of a simulated cluster: the model check in
//! `simulation/model.rs` in all orders of actions within bounds, and `simulation/random.rs` in
//! random runs with clocks of different speeds. The names in parentheses are tests: in each of them,
//! the model check finds a deliberate mistake that breaks the invariant.
//!
//! - I1: only the process that opened the store last acknowledges commits.
//!   (`store_without_a_fence_breaks_the_log`)
//! - I2: terms rise by one, and each term has one holder. (`put_without_a_condition_breaks_terms`)
//! - I3: at most one process may answer reads, and its store contains every acknowledged commit. So a
//!   new writer shows and acknowledges nothing before the old lease has ended.
//!   (`lease_from_the_end_of_a_put_breaks_reads`,
//!   `release_before_the_authority_ends_breaks_reads`,
//!   `term_that_is_given_before_the_store_closes_breaks_reads`)
//! - I4: a process serves only after its put of `serving` with the epoch of its open store succeeded.
//!   (`serving_without_confirmation_breaks_confirmation`,
//!   `serving_without_confirmation_breaks_reads_if_opens_claim_any_epoch`,
//!   `unknown_put_that_counts_as_written_breaks_confirmation`)
//! - I5: a record that is not released changes its holder only after its lease, or by a put of the
//!   holder. (`patience_from_the_start_of_a_read_breaks_patience`,
//!   `patience_that_a_change_does_not_restart_breaks_patience`,
//!   `notice_that_counts_as_a_release_breaks_patience`)
//! - I6: a `paused` record is replaced only by an operator, and no process may answer reads from its
//!   store meanwhile. (`takeover_of_a_paused_cluster_breaks_the_pause`,
//!   `pause_before_the_store_closes_breaks_the_pause`)
//!
//! Without further faults, every state leads to a serving writer
//! (`every_state_has_a_way_to_a_serving_writer`,
//! `every_state_of_a_pause_has_a_way_to_a_serving_writer`). An operator ends each pause.

pub mod election;
pub mod register;
pub mod shared_settings;
pub mod time;

#[cfg(test)]
mod simulation;

pub use election::{Election, ElectionConfig, Event, PutOutcome, Role, Step};
pub use register::{Member, Peer, RecordError, Successor, Tag, WriterRecord, WriterState};
pub use shared_settings::SharedSettings;
pub use time::Moment;
