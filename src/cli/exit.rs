//! Exit codes of the program, and the failures that end a subcommand with one of them.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;

use super::output::Output;
use crate::app::cluster::ClusterError;
use crate::app::run::RunError;
use slateberg_catalog::transfer;
use slateberg_kms as kms;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::lock::LockError;
use slateberg_runtime::offline_writer::OfflineError;
use slateberg_store as store;
use slateberg_store::fsck::Report;

/// Exit codes of failures. If `sysexits.h` defines a suitable code, it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Any other failure.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Records or files are damaged.
    Damaged = 65,
    /// A server or an object store is unreachable or does not respond.
    Unreachable = 69,
    /// Another process uses the catalog.
    InUse = 75,
    /// A server or an object store denies access.
    Denied = 77,
    /// The settings are wrong.
    Settings = 78,
}

impl Exit {
    fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Damaged => "damaged",
            Self::Unreachable => "unreachable",
            Self::InUse => "in-use",
            Self::Denied => "denied",
            Self::Settings => "settings",
        }
    }
}

/// The result of a subcommand.
pub type Outcome = Result<ExitCode, Failure>;

/// An error and its exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    /// Writes the error to standard error, as one line of JSON if the output is JSON.
    pub(super) fn report(&self, output: Output) -> ExitCode {
        let Self { exit, message } = self;
        let code = *exit as u8;
        let text = match output {
            Output::Table => format!("slateberg: {message}\n"),
            Output::Json => {
                let error = json!({ "code": exit.name(), "message": message, "exit-code": code });
                format!("{}\n", json!({ "error": error }))
            }
        };
        // Standard error may be closed. The exit code still reports the failure.
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(code)
    }
}

/// Returns the outcome of a subcommand that has checked the records and printed the findings.
pub(super) fn walk_outcome(report: &Report) -> Outcome {
    match report.broken.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failure::new(Exit::Damaged, "1 record is damaged: see the output")),
        count => {
            Err(Failure::new(Exit::Damaged, format!("{count} records are damaged: see the output")))
        }
    }
}

fn store_exit(error: &store::Error) -> Exit {
    match error {
        store::Error::Corrupt { .. }
        | store::Error::DamagedFile(_)
        | store::Error::Damaged(_)
        | store::Error::RingMissing => Exit::Damaged,
        store::Error::Storage(error) if error.is_damage() => Exit::Damaged,
        store::Error::InUse(_) | store::Error::Fenced => Exit::InUse,
        store::Error::Unavailable(_) => Exit::Unreachable,
        store::Error::NoJournal => Exit::Settings,
        // The setting is valid, but the key in the file that it names is not. A retry can succeed
        // after the file was replaced.
        store::Error::Encryption(kms::Error::Setting(_)) => Exit::Failed,
        store::Error::Encryption(error) => encryption_exit(error),
        _ => Exit::Failed,
    }
}

fn encryption_exit(error: &kms::Error) -> Exit {
    match error {
        kms::Error::Setting(_) => Exit::Settings,
        kms::Error::Unavailable(_) => Exit::Unreachable,
        kms::Error::Refused(_) => Exit::Denied,
        kms::Error::Ring(_) | kms::Error::Tampered { .. } => Exit::Damaged,
        kms::Error::WrongKey { .. } | kms::Error::UnknownDataKey(_) => Exit::Failed,
    }
}

fn build_exit(error: &BuildError) -> Exit {
    match error {
        error if error.is_of_settings() => Exit::Settings,
        BuildError::Lock(LockError::InUse(_))
        | BuildError::InCluster { .. }
        | BuildError::Paused { .. } => Exit::InUse,
        BuildError::Unreachable { .. } | BuildError::Silent { .. } => Exit::Unreachable,
        BuildError::Encryption(error) => encryption_exit(error),
        BuildError::Store { source, .. }
        | BuildError::PolicySnapshot(source)
        | BuildError::Warehouses(source) => store_exit(source),
        _ => Exit::Failed,
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::new(build_exit(&error), error)
    }
}

impl From<OfflineError> for Failure {
    fn from(error: OfflineError) -> Self {
        let exit = match &error {
            OfflineError::Build(error) => build_exit(error),
            OfflineError::Store(error) | OfflineError::Transfer(transfer::Error::Store(error)) => {
                store_exit(error)
            }
            OfflineError::Transfer(transfer::Error::Line { .. }) => Exit::Damaged,
            _ => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let exit = match &error {
            error if error.is_of_settings() => Exit::Settings,
            RunError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Exit::InUse
            }
            RunError::StoreClosed(error) | RunError::Close(error) => store_exit(error),
            _ => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let exit = match &error {
            ClusterError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Exit::InUse
            }
            ClusterError::State(error) => build_exit(error),
            ClusterError::Unconditional(_) => Exit::Settings,
            ClusterError::Announce(_) => Exit::Unreachable,
            ClusterError::Listen { .. }
            | ClusterError::Identity(_)
            | ClusterError::Failed { .. } => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

impl From<slateberg_config::Error> for Failure {
    fn from(error: slateberg_config::Error) -> Self {
        Self::new(Exit::Settings, error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::Failed, error)
    }
}
