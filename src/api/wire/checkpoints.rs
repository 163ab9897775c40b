//! Converts checkpoints to the form of responses.

use slateberg_catalog::checkpoints;
use slateberg_management::checkpoints::Checkpoint;

/// Returns a checkpoint.
pub fn checkpoint(checkpoint: checkpoints::Checkpoint) -> Checkpoint {
    Checkpoint {
        id: checkpoint.id,
        name: checkpoint.name,
        created_at_ms: checkpoint.created_ms,
        expires_at_ms: checkpoint.expires_ms,
    }
}
