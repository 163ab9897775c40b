//! Accepts the loss of acknowledged changes at the end of a local write-ahead log.

use super::data_dir::{check_there, lock_data_dir};
use super::dependencies::Dependencies;
use super::error::{BuildError, at_state};
use super::state::State;
use slateberg_config::Settings;
use slateberg_store::Store;
use slateberg_store::loss::AcceptedLoss;

/// The result of [`accept_loss`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The log is not damaged. Nothing was written.
    Nothing,
    /// The log has this damage. Nothing was written, because the operator has not confirmed the
    /// loss.
    Unconfirmed(String),
    /// The loss was accepted. The server can start with the remaining data.
    Accepted(AcceptedLoss),
}

/// Accepts the loss at the end of a stopped catalog's local write-ahead log if the operator has
/// confirmed it.
pub async fn accept_loss(
    settings: &Settings,
    dependencies: &Dependencies,
    is_confirmed: bool,
) -> Result<Loss, BuildError> {
    check_there(settings)?;
    let _lock = lock_data_dir(settings)?;
    let state = State::offline(settings, dependencies).await?;
    let failed = |source| at_state(&state.url, source);
    match Store::find_loss(&state.location).await.map_err(failed)? {
        None => Ok(Loss::Nothing),
        Some(damage) if !is_confirmed => Ok(Loss::Unconfirmed(damage)),
        Some(_) => {
            let accepted = Store::accept_loss(&state.location).await.map_err(failed)?;
            Ok(Loss::Accepted(accepted))
        }
    }
}
