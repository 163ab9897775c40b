//! [`BuildError`]: the error of opening a catalog.

use super::cluster::RegisterError;
use super::lock::LockError;
use super::policies;
use slateberg_authn as authn;
use slateberg_base::setting::InvalidSetting;
use slateberg_catalog as catalog;
use slateberg_kms as kms;
use slateberg_objects::probe::ProbeError;
use slateberg_store as store;
use slateberg_telemetry::audit::AuditError;
use slateberg_telemetry::otlp::InvalidOtlp;

/// The catalog cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The policies are invalid or cannot be read.
    #[error("authz: {0}")]
    Policies(#[from] policies::Error),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The policies created at run time cannot be read.
    #[error("cannot read the policies in the store: {0}")]
    PolicySnapshot(#[source] store::Error),
    /// Settings are invalid.
    #[error("{}", lines(.0))]
    Invalid(Vec<InvalidSetting>),
    /// The data directory cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The object store of the state did not respond in time.
    #[error("no response from the object store at {url} within {seconds} s; last error: {source}")]
    Unreachable {
        /// The URL of the state or its log.
        url: String,
        /// The timeout.
        seconds: u64,
        /// The last error.
        source: ProbeError,
    },
    /// The storage of the state, or one of its files, did not respond while the catalog was opened.
    #[error("no response from the storage at {url} within {seconds} s; last error: {last}")]
    Silent {
        /// The URL of the state or its log.
        url: String,
        /// The timeout.
        seconds: u64,
        /// The last error.
        last: String,
    },
    /// The directory of the state is not writable.
    #[error(
        "cannot write to the directory {directory} of the catalog's state: {source}. A start needs permission \
         to write there, and some free space"
    )]
    Directory {
        /// The directory.
        directory: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The object store cannot be accessed, usually because credentials are missing. A retry would
    /// fail again.
    #[error("cannot open the catalog's state: {0}")]
    Credentials(String),
    /// The object store is unsuitable for the catalog's state, or denied access.
    #[error("{url} cannot hold the catalog's state: {source}")]
    Unfit {
        /// The URL of the state or its log.
        url: String,
        /// The error.
        source: ProbeError,
    },
    /// A member of a cluster is the writer of this state.
    #[error(
        "the state at {url} belongs to a cluster, whose writer '{writer}' ({peer}) is running. Stop all members of \
         the cluster first, or set cluster.enabled to start another member"
    )]
    InCluster {
        /// The URL of the state.
        url: String,
        /// The name of the writer.
        writer: String,
        /// The URL of the writer for other members.
        peer: String,
    },
    /// An operator has paused the cluster on this state.
    #[error(
        "the state at {url} belongs to a cluster that an operator has paused. End the pause with `slateberg cluster \
         resume`, or set cluster.enabled to start a member"
    )]
    Paused {
        /// The URL of the state.
        url: String,
    },
    /// The record of a cluster's writer cannot be read.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The encryption settings are invalid, or the KMS failed.
    #[error(transparent)]
    Encryption(#[from] kms::Error),
    /// The store cannot be opened.
    #[error("cannot open the store at {url}: {source}")]
    Store {
        /// The URL of the store.
        url: String,
        /// The error.
        source: store::Error,
    },
    /// The records of warehouses cannot be read or written.
    #[error("cannot read or write the records of the warehouses: {0}")]
    Warehouses(#[source] store::Error),
    /// The publications of an earlier process cannot be completed.
    #[error("cannot complete the publications of an earlier run: {0}")]
    Recover(#[source] catalog::Error),
    /// The credentials cannot be loaded.
    #[error("cannot load the API keys: {0}")]
    Authn(#[from] authn::Error),
    /// The task that opens the catalog failed.
    #[error("the task that opens the catalog failed: {0}")]
    Failed(String),
    /// The OpenTelemetry settings are invalid.
    #[error(transparent)]
    Otlp(#[from] InvalidOtlp),
}

fn lines(problems: &[InvalidSetting]) -> String {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

impl BuildError {
    /// Whether the settings themselves are wrong. If so, a retry fails again. Errors of files to
    /// which the settings refer do not count: a file may be corrected before the retry.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Setting(_) | Self::Invalid(_) | Self::Otlp(_) => true,
            Self::Encryption(error) => matches!(error, kms::Error::Setting(_)),
            _ => false,
        }
    }
}

/// Returns the error of a store at this URL.
pub(super) fn at_state(url: &str, source: store::Error) -> BuildError {
    BuildError::Store { url: url.to_owned(), source }
}
