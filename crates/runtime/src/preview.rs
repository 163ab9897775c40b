//! The preview of a restore beside a running server.

use super::data_dir::{check_there, lock_data_dir};
use super::error::{BuildError, at_state};
use super::seams::Seams;
use super::state::State;
use super::stopped::{StoppedError, Wanted, refuse_newer};
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_store::Store;
use slateberg_store::checkpoints::Checkpoint;
use slateberg_store::restore::{Plan, Told};

/// Maximum number of attempts to read the state.
const READS_MAX: usize = 3;

/// Returns the changes of a restore. Writes nothing and takes no lock, so a server may be running.
pub async fn preview(
    settings: &Settings,
    seams: &Seams,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<(Checkpoint, Told), StoppedError> {
    check_there(settings)?;
    let state = State::offline(settings, seams).await?;
    let mut attempt = 1;
    loop {
        match Box::pin(read_changes(&state, seams, wanted, progress)).await {
            // A running server may write new files of the state and delete those that this is
            // reading.
            Err(StoppedError::Store(_) | StoppedError::Build(BuildError::Store { .. }))
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
    seams: &Seams,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<(Checkpoint, Told), StoppedError> {
    let opening = progress.phase("opening the store", None);
    let now_ms = seams.clock.now_ms();
    let place = &state.place;
    let reading = async {
        let now = Store::open_offline(place).await;
        let now = now.map_err(|source| at_state(&state.url, source))?;
        let kept = Store::checkpoints_offline(place, now_ms).await;
        let kept = kept.map_err(|source| at_state(&state.url, source))?;
        Ok((now, kept))
    };
    let (now, kept) = Box::pin(state.within_reach(reading)).await?;
    let found = wanted.find(&kept)?;
    let then = Store::open_checkpoint(place, found.id).await?;
    refuse_newer(&then).await?;
    drop(opening);
    let plan = Plan::between(&now, &then, progress).await?;
    Ok((found, plan.told))
}

/// Errors if another process has locked the data directory. A bucket has no lock.
pub fn check_unused(settings: &Settings) -> Result<(), StoppedError> {
    check_there(settings)?;
    lock_data_dir(settings)?;
    Ok(())
}
