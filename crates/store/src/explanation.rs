//! Finds the reasons why a store could not be opened.

use super::encryption::{UnlockedKeys, any_manifest};
use super::error::Error;
use super::files::damaged_root;
use super::location::StoreLocation;
use slateberg_kms::keys::looks_sealed;

/// Replaces an error of opening a store by a clearer one, if the reason is the encryption or a
/// damaged file.
pub(super) async fn explain(
    location: &StoreLocation,
    unlocked: Option<&UnlockedKeys>,
    error: impl Into<Error>,
) -> Error {
    let error = error.into();
    if let Some(failure) = unlocked.and_then(UnlockedKeys::failure) {
        // Errors of SlateDB and of the journal that contain the reason also name the file.
        return match error.to_string().contains(&failure.to_string()) {
            true => error,
            false => failure.into(),
        };
    }
    // Without its ring, an encrypted store appears to be damaged.
    if unlocked.is_none()
        && let Ok(Some(manifest)) = any_manifest(location).await
        && looks_sealed(&manifest)
    {
        return Error::RingMissing;
    }
    match error {
        // SlateDB does not name the damaged file, and reports a manifest that is too old as a
        // fence.
        Error::Damaged(_) | Error::Internal(_) | Error::Fenced => {
            damaged_root(location).await.map_or(error, Error::DamagedFile)
        }
        error => error,
    }
}
