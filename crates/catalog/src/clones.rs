//! Prevents clones from deleting files of tables.
//!
//! A clone starts with the tables of its parent, and both use the same files. Neither catalog knows
//! which of these files the other catalog still needs. The parent takes precedence, so the clone
//! deletes nothing. It rejects requests to delete files, its commits start no clean-up jobs, and
//! clients get no permission to delete files. If the clone has a job nevertheless, the job stops
//! before it deletes a file.

use super::{Error, Result};
use crate::environment::Environment;

impl Environment {
    /// Whether files of tables may be deleted.
    pub(super) fn deletes_files(&self) -> bool {
        self.clone_of.is_none()
    }

    /// Rejects the deletion of files in a clone. The error message begins with `what` and ends with
    /// `instead`.
    pub(super) fn check_deletion(&self, what: &str, instead: &str) -> Result<()> {
        if self.deletes_files() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "{what}: this catalog is a clone and deletes no files, since its parent may need them: {instead}"
        )))
    }
}
