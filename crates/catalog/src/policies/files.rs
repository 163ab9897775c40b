//! Replaces the policy files at run time.

use std::sync::Arc;

use super::Sources;
use crate::Result;
use crate::policies::Policies;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_base::boxed;

impl Policies {
    /// Replaces the policy files in force. Changes nothing and errors if the new files conflict
    /// with stored policies. Returns the number of policies in force, or `None` if the files are
    /// unchanged.
    #[boxed]
    pub async fn replace_policy_files(&self, files: Vec<PolicyFile>) -> Result<Option<usize>> {
        let _turn = self.lock_policies().await?;
        let before = self.state.sources();
        if *before.files == files {
            return Ok(None);
        }
        let sources = Sources { files: Arc::new(files), ..before };
        let set = self.build_policy_set(sources.clone()).await?;
        let policies = set.len();
        self.state.put_in_force(&self.core.access, sources, set);
        Ok(Some(policies))
    }
}
