//! A member of a cluster: several processes on one state, of which one is the writer
//! (`docs/cluster.md`).
//!
//! - [`mod@run`]: binds the ports, takes part in the election, and stops in order.
//! - [`driver`]: executes the steps of the election, whose rules are in `crates/cluster`.
//! - [`node`] and [`lease`]: the state that the election shares with the ports.
//! - [`ports`] and [`forward`]: respond to clients, as the writer or by forwarding to it.
//! - [`follower`] and [`session`]: keep the [`replica`] on which a standby executes reads itself. The
//!   writer sends its changes ([`replication_feed`], [`feed_reader`]), and confirms that a replica is
//!   current ([`read_rounds`]). Without a writer, the replica reads the log in the bucket.
//! - [`transfers`] and [`peers`]: the other members, and the planned end of the term of this one.
//! - [`upgrade_gate`]: a newer version leaves the term to older ones during an upgrade.
//! - [`member_port`], [`member_tls`] and [`identity`]: connections between members.

mod bucket_contact;
mod buffered;
mod catalog_host;
mod catalog_services;
mod consistency;
mod counters;
mod driver;
mod feed_reader;
mod followed_writer;
mod follower;
mod forward;
mod forwarded;
mod identity;
mod lease;
mod local_response;
mod member_port;
mod member_tls;
mod node;
mod peers;
mod ports;
mod read_rounds;
mod replica;
mod replication_feed;
mod replication_messages;
mod responses;
mod run;
mod session;
mod transfers;
mod unverified;
mod upgrade_gate;

pub use catalog_host::PrintBanner;
pub use identity::IdentityError;
pub use run::{ClusterError, Member, run};
