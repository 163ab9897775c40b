//! The end of a pause. A paused cluster has no writer that could authorize a request, so the operator
//! proves by access to the bucket that the pause may end.

use uuid::Uuid;

use super::writer_register::{RegisterError, WriterRegister};
use slateberg_cluster::register::WriterRecord;
use slateberg_cluster::{PutOutcome, WriterState};

/// Attempts to replace the record. Another one is needed only if a request fails, or at the same time
/// as another operator ends the pause.
const ATTEMPTS: usize = 5;

/// The pause cannot be ended.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The record of the writer cannot be read.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// There is no pause. With the record of the writer, if there is one.
    #[error("the cluster is not paused")]
    NotPaused(Option<Box<WriterRecord>>),
    /// The bucket did not confirm the change.
    #[error("the bucket did not confirm the end of the pause. Repeat the command")]
    Unconfirmed,
}

/// Ends the pause of the cluster, so that any eligible member becomes the writer. Returns the last
/// record of the pause. `nonce` returns another random id with each call.
pub async fn resume(
    register: &WriterRegister,
    nonce: impl Fn() -> Uuid,
) -> Result<WriterRecord, ResumeError> {
    let mut paused: Option<WriterRecord> = None;
    for _ in 0..ATTEMPTS {
        match (register.read().await?, paused.take()) {
            (Some((record, tag)), _) if record.state == WriterState::Paused => {
                let resumed = record.resumed(nonce());
                if let PutOutcome::Written(_) = register.put(&resumed, Some(tag)).await {
                    return Ok(record);
                }
                paused = Some(record);
            }
            // An earlier attempt or another operator has ended the pause.
            (_, Some(record)) => return Ok(record),
            (found, None) => {
                return Err(ResumeError::NotPaused(found.map(|(record, _)| Box::new(record))));
            }
        }
    }
    Err(ResumeError::Unconfirmed)
}
