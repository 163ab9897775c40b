//! [`Sources`]: the policy files, and the stored policies and grants, of which a policy set
//! consists.

use std::sync::Arc;

use slateberg_authz::grants::Grant;
use slateberg_authz::notation;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::problem::Problem;
use slateberg_authz::schema::Schema;
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::records::GrantRecord;

/// The sources of the policy set.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The policy files.
    pub files: Arc<Vec<PolicyFile>>,
    /// The stored policies and grants.
    pub book: Arc<PolicySnapshot>,
    /// Whether the stored policies and grants are in force.
    pub stored_in_force: bool,
}

impl Sources {
    /// Whether only policy files are in force, without stored policies and grants.
    pub fn are_only_files(&self) -> bool {
        !self.stored_in_force || (self.book.policies.is_empty() && self.book.grants.is_empty())
    }

    /// Builds the policy set from all sources. Errors with all problems that it finds.
    pub fn build(&self, schema: Arc<Schema>) -> Result<PolicySet, Vec<Problem>> {
        if !self.stored_in_force {
            return PolicySet::build(schema, &self.files, &[]);
        }
        let created = self.book.policies.values();
        let created = created
            .map(|record| PolicyFile { name: file_name(&record.id), text: record.text.clone() });
        let files: Vec<_> = self.files.iter().cloned().chain(created).collect();
        let mut problems = Vec::new();
        let mut grants = Vec::new();
        for record in self.book.grants.values() {
            match grant_of(record) {
                Ok(grant) => grants.push(grant),
                Err(problem) => problems.push(problem),
            }
        }
        match PolicySet::build(schema, &files, &grants) {
            Ok(set) if problems.is_empty() => Ok(set),
            Ok(_) => Err(problems),
            Err(others) => Err([problems, others].concat()),
        }
    }
}

/// Returns the file name of a stored policy in validation errors.
pub(super) fn file_name(id: &str) -> String {
    format!("api/{id}")
}

/// Parses the record of a grant.
pub(super) fn grant_of(record: &GrantRecord) -> Result<Grant, Problem> {
    let wrong = |error: notation::NotAName| Problem {
        file: "grants".to_owned(),
        line: 1,
        column: 1,
        message: format!("{}: {error}", record.id),
    };
    Ok(Grant {
        template: record.template.clone(),
        grantee: notation::grantee(&record.grantee).map_err(wrong)?,
        resource: notation::resource(&record.resource).map_err(wrong)?,
    })
}
