//! A catalog opened for reading, without a server.

use super::data_dir::{check_there, uses_data_dir};
use super::dependencies::Dependencies;
use super::error::{BuildError, at_state};
use super::lock::DataDirLock;
use super::state::State;
use super::warehouses;
use slateberg_config::Settings;
use slateberg_objects::Objects;
use slateberg_store::Store;
use slateberg_store::read::OfflineView;

/// A store opened for reading, and the warehouses' files.
pub struct OfflineCatalog {
    /// The records.
    pub store: OfflineView,
    /// The files of warehouses from the configuration and the API.
    pub objects: Objects,
    /// The URL of the state.
    pub state_url: String,
    _lock: Option<DataDirLock>,
}

impl OfflineCatalog {
    /// Opens the store for reading. No server may run on its directory.
    pub async fn open(
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<Self, BuildError> {
        let settings = &settings.clone().with_memory_shares();
        let (state, lock) = Self::prepare(settings, dependencies).await?;
        Self::open_at(&state, lock, settings, dependencies).await
    }

    /// Locks the data directory and determines the location of the state. The lock is `None` for a
    /// state in a bucket, and for a read-only directory without a lock file.
    pub(super) async fn prepare(
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<(State, Option<DataDirLock>), BuildError> {
        check_there(settings)?;
        let lock = if uses_data_dir(settings) {
            DataDirLock::take_for_reading(&settings.data_dir)?
        } else {
            None
        };
        Ok((State::offline(settings, dependencies).await?, lock))
    }

    /// Opens the store of a state for reading.
    pub(super) async fn open_at(
        state: &State,
        lock: Option<DataDirLock>,
        settings: &Settings,
        dependencies: &Dependencies,
    ) -> Result<Self, BuildError> {
        let state_url = state.url.clone();
        let failed = |source| at_state(&state_url, source);
        let opening = async {
            let store = Store::open_offline(&state.location).await.map_err(failed)?;
            let (opener, stores) = (
                &dependencies.opener,
                warehouses::stores(settings, &dependencies.opener, &state_url, &None)?,
            );
            let objects = warehouses::offline_objects(settings, opener, &store, &stores).await?;
            Ok((store, objects))
        };
        let (store, objects) = Box::pin(state.while_responsive(Box::pin(opening))).await?;
        Ok(Self { store, objects, state_url, _lock: lock })
    }
}
