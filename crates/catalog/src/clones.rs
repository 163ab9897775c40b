//! What a catalog does not do as long as it is a clone: delete a file of a table.
//!
//! A clone begins with the tables of its parent, and both go on with the same files. Neither knows what
//! the other still needs. Of the two, the parent is the one that matters, so that the clone is the one that
//! deletes nothing: what is asked for is refused, what commits would leave to the background is not even
//! begun, clients are handed out no rights to delete, and what runs in the background all the same stops
//! before its first file.

use super::{Error, Result};
use crate::environment::Environment;

impl Environment {
    /// Whether files of tables may be deleted.
    pub(super) fn deletes_files(&self) -> bool {
        self.clone_of.is_none()
    }

    /// Refuses to delete files if this is a clone. `what` begins a sentence, and `instead` ends one.
    pub(super) fn refuse_deletion(&self, what: &str, instead: &str) -> Result<()> {
        if self.deletes_files() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "{what}: this catalog is a clone, and deletes no file, since its parent may need it: {instead}"
        )))
    }
}
