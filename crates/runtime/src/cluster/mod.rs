//! The objects of a cluster in the bucket of the state: the record of the writer, and a record of
//! each member.

mod living;
mod members;
mod pause;
mod record_signer;
mod writer_register;

pub(crate) use living::{reject_cluster, reject_living_writer};
pub use members::{MemberRecord, Members};
pub use pause::{ResumeError, resume};
pub use record_signer::{ForeignRecord, RecordSigner};
pub use writer_register::{RegisterError, WriterRegister};
