//! The preview of a restore. It works even while a server runs.

use super::data_dir::{check_there, lock_data_dir};
use super::dependencies::Dependencies;
use super::error::{BuildError, at_state};
use super::offline_writer::{OfflineError, RestoreTarget, reject_newer};
use super::state::State;
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_store::Store;
use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::restore::{RestorePlan, RestoreSummary};

/// Maximum number of attempts to read the state.
const READS_MAX: usize = 3;

/// Returns the changes of a restore. Writes nothing and takes no lock, so it works even while a
/// server runs.
pub async fn preview(
    settings: &Settings,
    dependencies: &Dependencies,
    wanted: &RestoreTarget,
    progress: &Progress,
) -> Result<(Checkpoint, RestoreSummary), OfflineError> {
    check_there(settings)?;
    let state = State::offline(settings, dependencies).await?;
    let mut attempt = 1;
    loop {
        match Box::pin(read_changes(&state, dependencies, wanted, progress)).await {
            // A running server may have replaced and deleted files during the read, so a retry may
            // succeed.
            Err(OfflineError::Store(_) | OfflineError::Build(BuildError::Store { .. }))
                if attempt < READS_MAX =>
            {
                attempt += 1;
            }
            read => return read,
        }
    }
}

async fn read_changes(
    state: &State,
    dependencies: &Dependencies,
    wanted: &RestoreTarget,
    progress: &Progress,
) -> Result<(Checkpoint, RestoreSummary), OfflineError> {
    let opening = progress.phase("opening the store", None);
    let now_ms = dependencies.clock.now_ms();
    let store_location = &state.location;
    let reading = async {
        let now = Store::open_offline(store_location).await;
        let now = now.map_err(|source| at_state(&state.url, source))?;
        let checkpoints = Store::checkpoints_offline(store_location, now_ms).await;
        let checkpoints = checkpoints.map_err(|source| at_state(&state.url, source))?;
        Ok((now, checkpoints))
    };
    let (now, checkpoints) = Box::pin(state.while_responsive(reading)).await?;
    let found = wanted.find(&checkpoints)?;
    let then = Store::open_checkpoint(store_location, found.id).await?;
    reject_newer(&then).await?;
    drop(opening);
    let plan = RestorePlan::between(&now, &then, progress).await?;
    Ok((found, plan.summary))
}

/// Errors if another process has locked the data directory. For a state in a bucket, there is no
/// lock to check.
pub fn check_unused(settings: &Settings) -> Result<(), OfflineError> {
    check_there(settings)?;
    lock_data_dir(settings)?;
    Ok(())
}
