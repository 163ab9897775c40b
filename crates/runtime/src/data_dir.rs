//! The data directory and its contents.

use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::lock::DataDirLock;
use slateberg_config::Settings;

/// The directory of the state, in the data directory.
pub(super) const STATE_DIR: &str = "state";

/// Returns the URL of a directory in the data directory.
pub(super) fn data_dir_url(settings: &Settings, below: &str) -> Result<String, BuildError> {
    let directory = data_dir(settings)?;
    let text = directory.to_str().ok_or_else(|| wrong_data_dir(settings, "not UTF-8"))?;
    Ok(format!("file://{}/{below}", text.trim_end_matches('/')))
}

/// Returns the absolute path of the data directory.
pub(super) fn data_dir(settings: &Settings) -> Result<PathBuf, BuildError> {
    let absolute = std::path::absolute(Path::new(&settings.data_dir));
    absolute.map_err(|error| wrong_data_dir(settings, &error.to_string()))
}

fn wrong_data_dir(settings: &Settings, reason: &str) -> BuildError {
    BuildError::Setting(format!("data_dir: {}: {reason}", settings.data_dir.display()))
}

/// Rejects a data directory without a catalog, so that a misspelled path does not create a new
/// catalog.
pub(super) fn check_there(settings: &Settings) -> Result<(), BuildError> {
    if uses_data_dir(settings) && !settings.data_dir.join(STATE_DIR).is_dir() {
        let directory = settings.data_dir.display();
        return Err(BuildError::Setting(format!(
            "no catalog in {directory}: set --data-dir, or state.url in the settings"
        )));
    }
    Ok(())
}

/// Whether the state is in the data directory.
pub(super) fn uses_data_dir(settings: &Settings) -> bool {
    settings.state.url.is_empty()
}

pub(super) fn lock_data_dir(settings: &Settings) -> Result<Option<DataDirLock>, BuildError> {
    if !uses_data_dir(settings) {
        return Ok(None);
    }
    std::fs::create_dir_all(&settings.data_dir).map_err(|error| {
        BuildError::Setting(format!("data_dir: {}: {error}", settings.data_dir.display()))
    })?;
    Ok(Some(DataDirLock::take(&settings.data_dir)?))
}
