//! Finds the reasons why a store could not be opened.

use super::encryption::{UnlockedKeys, any_manifest};
use super::error::Error;
use super::files::damaged_root;
use super::location::StoreLocation;
use slateberg_kms::keys::looks_sealed;

/// Returns a clearer error if a store could not be opened because of its encryption or a damaged
/// file. Otherwise, returns `error`.
pub(super) async fn explain(
    location: &StoreLocation,
    unlocked: Option<&UnlockedKeys>,
    error: impl Into<Error>,
) -> Error {
    let error = error.into();
    if let Some(failure) = unlocked.and_then(UnlockedKeys::failure) {
        // If the error of SlateDB or of the journal contains the decryption failure, the error is
        // clearer than the failure alone, because it also names the file.
        return match error.to_string().contains(&failure.to_string()) {
            true => error,
            false => failure.into(),
        };
    }
    // An encrypted store whose key ring is missing appears to be damaged.
    if unlocked.is_none()
        && let Ok(Some(manifest)) = any_manifest(location).await
        && looks_sealed(&manifest)
    {
        return Error::RingMissing;
    }
    match error {
        // SlateDB does not name the damaged file. If the newest manifest is missing, SlateDB may
        // report that another writer has fenced this one.
        Error::Damaged(_) | Error::Internal(_) | Error::Fenced => {
            damaged_root(location).await.map_or(error, Error::DamagedFile)
        }
        error => error,
    }
}
