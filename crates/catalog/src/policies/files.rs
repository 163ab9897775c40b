//! Policy files that have become others while the server runs.

use std::sync::Arc;

use super::Sources;
use crate::Result;
use crate::policies::Policies;
use slateberg_authz::policy_file::PolicyFile;

impl Policies {
    /// Puts these policy files in the place of those in force: all of it, or nothing if they do not fit
    /// together with what was made at run time. Returns the number of policies in force, or none if the
    /// files are the same as before.
    pub async fn replace_policy_files(&self, files: Vec<PolicyFile>) -> Result<Option<usize>> {
        let _turn = self.policy_turn().await?;
        let before = self.state.sources();
        if *before.files == files {
            return Ok(None);
        }
        let sources = Sources { files: Arc::new(files), ..before };
        let set = self.put_together(sources.clone()).await?;
        let policies = set.len();
        self.state.put_in_force(self.authority(), sources, set);
        Ok(Some(policies))
    }
}
