//! Rejects a process outside of a cluster while the cluster has a writer or is paused.

use std::time::{Duration, Instant};

use super::record_signer::RecordSigner;
use super::writer_register::WriterRegister;
use crate::error::BuildError;
use crate::state::State;
use slateberg_cluster::WriterState;
use slateberg_cluster::register::WriterRecord;

/// Timeout of a request.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// Interval of the reads that wait for a renewal.
const PAUSE: Duration = Duration::from_millis(200);
/// Added to the duration of the lease, because the last renewal may still be in progress.
const MARGIN: Duration = Duration::from_secs(1);

/// Errors if a cluster uses this state or is paused. A server would change the state that an operator
/// protects by a pause.
pub(crate) async fn reject_cluster(state: &State) -> Result<(), BuildError> {
    let Some(register) = register(state) else { return Ok(()) };
    match read(&register).await? {
        Some(record) if record.state == WriterState::Paused => {
            Err(BuildError::Paused { url: state.url.clone() })
        }
        record => reject_holder(state, &register, record.filter(is_held)).await,
    }
}

/// Errors if a member of a cluster holds the lease of this state: opening the store would fence
/// that member. A paused cluster has no writer.
pub(crate) async fn reject_living_writer(state: &State) -> Result<(), BuildError> {
    let Some(register) = register(state) else { return Ok(()) };
    let first = read(&register).await?.filter(is_held);
    reject_holder(state, &register, first).await
}

/// Errors if the record of the writer is renewed. If it is not renewed for the duration of its lease,
/// the writer has crashed, and the state can be opened.
async fn reject_holder(
    state: &State,
    register: &WriterRegister,
    first: Option<WriterRecord>,
) -> Result<(), BuildError> {
    let Some(first) = first else { return Ok(()) };
    let patience = Duration::from_millis(first.lease_ms) + MARGIN;
    tracing::warn!(
        writer = first.holder.name,
        seconds = patience.as_secs(),
        "a cluster has used this state: waiting to see whether its writer still runs"
    );
    let observed = Instant::now();
    while observed.elapsed() < patience {
        tokio::time::sleep(PAUSE).await;
        match read(register).await?.filter(is_held) {
            None => return Ok(()),
            Some(now) if !now.is_same_put(&first) => {
                return Err(BuildError::InCluster {
                    url: state.url.clone(),
                    writer: now.holder.name,
                    peer: now.peer.url,
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The register of a state in a bucket. These checks only protect a cluster from a mistake of its
/// operator. A process that can forge the record can also delete it, so the checks need no keys.
fn register(state: &State) -> Option<WriterRegister> {
    let is_bucket = state.location.directory.is_none();
    let open = || WriterRegister::open(state.opened(), &RecordSigner::unchecked(), REQUEST_MAX);
    is_bucket.then(open)
}

async fn read(register: &WriterRegister) -> Result<Option<WriterRecord>, BuildError> {
    let found = register.read().await.map_err(BuildError::Register)?;
    Ok(found.map(|(record, _)| record))
}

/// Whether the writer has neither released its lease nor paused the cluster.
fn is_held(record: &WriterRecord) -> bool {
    !matches!(record.state, WriterState::Released | WriterState::Paused)
}
