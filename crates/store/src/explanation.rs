//! Reasons why a store could not be opened.

use super::encryption::{Unlocked, any_manifest};
use super::error::Error;
use super::files::damaged_root;
use super::location::Place;
use slateberg_kms::keys::looks_sealed;

/// Explains why a store could not be opened, if its encryption or a damaged file is the reason.
pub(super) async fn explained(
    place: &Place,
    unlocked: Option<&Unlocked>,
    error: impl Into<Error>,
) -> Error {
    let error = error.into();
    if let Some(failure) = unlocked.and_then(Unlocked::failure) {
        // SlateDB reports it with its own text, and the journal with its location.
        return match error.to_string().contains(&failure.to_string()) {
            true => error,
            false => failure.into(),
        };
    }
    // Without a ring, encrypted objects look damaged.
    if unlocked.is_none()
        && let Ok(Some(manifest)) = any_manifest(place).await
        && looks_sealed(&manifest)
    {
        return Error::RingMissing;
    }
    match error {
        // SlateDB does not name the file, and reports an older manifest as a fence.
        Error::Damaged(_) | Error::Internal(_) | Error::Fenced => {
            damaged_root(place).await.map_or(error, Error::DamagedFile)
        }
        error => error,
    }
}
