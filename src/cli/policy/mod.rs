//! `slateberg policy`: checking, testing and asking policies, without a server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::fail;
use crate::authz::bundled::default_policies;
use crate::authz::grants::Grant;
use crate::authz::policy_set::{PolicyFile, PolicySet};
use crate::authz::problem::Problem;
use crate::authz::schema::Schema;

mod explain;
mod test;
mod validate;

/// How policy files are called.
const EXTENSION: &str = "cedar";

/// Check, test and ask policies, without a server.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that policies are well-formed and fit the schema: exit code 0, or 1 if they do not
    Validate(validate::Validate),
    /// Check that policies decide as a file expects: exit code 0, or 1 if they do not
    Test(test::Test),
    /// Ask what policies decide, and which: exit code 0 if it is allowed, 3 if it is denied
    Explain(Box<explain::Explain>),
}

impl Policy {
    /// Runs the subcommand.
    pub fn run(self) -> ExitCode {
        let ended = match self.command {
            Command::Validate(validate) => validate.run(),
            Command::Test(test) => test.run(),
            Command::Explain(explain) => explain.run(),
        };
        ended.unwrap_or_else(|error| fail(1, error))
    }
}

/// Why a subcommand gave no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, std::io::Error),
    #[error("{}: there is no *.{EXTENSION} file in it", .0.display())]
    Empty(PathBuf),
    #[error("{}: {}", .0.display(), .1)]
    Expectations(PathBuf, String),
    #[error("{}", lines(.0))]
    Policies(Vec<Problem>),
    #[error("{0}")]
    Usage(String),
}

fn lines(problems: &[Problem]) -> String {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    format!("the policies are not valid\n{}", texts.join("\n"))
}

/// Reads policy files: those named, and those in the directories named. The default policies if none is.
fn read(paths: &[PathBuf]) -> Result<Vec<PolicyFile>, Error> {
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

fn build(files: &[PolicyFile], grants: &[Grant]) -> Result<PolicySet, Vec<Problem>> {
    PolicySet::build(Arc::new(Schema::bundled()), files, grants)
}
