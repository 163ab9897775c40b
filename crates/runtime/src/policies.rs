//! Loading of policy files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slateberg_authz::bundled::default_policies;
use slateberg_authz::grants::Grant;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::problem::Problem;
use slateberg_authz::schema::Schema;
use slateberg_authz::settings::Settings;
use slateberg_catalog::policies::Sources;

/// The extension of policy files.
const EXTENSION: &str = "cedar";

/// Policies cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, #[source] std::io::Error),
    /// A directory contains no policy files.
    #[error("{}: the directory contains no *.{EXTENSION} file", .0.display())]
    Empty(PathBuf),
    /// The policies are invalid.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    format!("the policies are not valid\n{}", texts.join("\n"))
}

/// Reads the given policy files, and all policy files in the given directories. Without a path,
/// returns the built-in policies.
pub fn read(paths: &[PathBuf]) -> Result<Vec<PolicyFile>, Error> {
    if paths.is_empty() {
        return Ok(default_policies());
    }
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(read_file(path)?);
            continue;
        }
        let inside = read_directory(path).map_err(|error| Error::Read(path.clone(), error))?;
        if inside.is_empty() {
            return Err(Error::Empty(path.clone()));
        }
        for file in inside {
            files.push(read_file(&file)?);
        }
    }
    Ok(files)
}

/// The configured policy files, and the set built from them.
#[derive(Debug)]
pub struct FilePolicies {
    /// The files.
    pub files: Arc<Vec<PolicyFile>>,
    /// The policy set that is built from the files. Building it takes most of the time of a start.
    pub set: PolicySet,
}

impl FilePolicies {
    /// Reads the configured policy files, and builds a set from them. The files must be valid
    /// without the policies in the store, so that an error is found before the store is opened.
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        let files = read(&settings.policy_paths)?;
        let set = build(&files, &[]).map_err(Error::Invalid)?;
        Ok(Self { files: Arc::new(files), set })
    }

    /// Returns the sources of the policies in force, without the policies in the store.
    pub(crate) fn sources(&self, settings: &Settings) -> Sources {
        let (files, stored_in_force) = (Arc::clone(&self.files), settings.stored_policies);
        Sources { files, stored_in_force, ..Sources::default() }
    }
}

/// Builds a policy set from these files and grants. Errors if a file or grant is invalid.
pub fn build(files: &[PolicyFile], grants: &[Grant]) -> Result<PolicySet, Vec<Problem>> {
    PolicySet::build(Arc::new(Schema::bundled()), files, grants)
}

fn read_directory(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == EXTENSION));
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<PolicyFile, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::Read(path.into(), error))?;
    Ok(PolicyFile { name: path.display().to_string(), text })
}
