//! [`BuildError`]: why a catalog cannot be opened.

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

/// Why a catalog cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A setting is wrong in itself.
    #[error("{0}")]
    Setting(String),
    /// The policies are not valid, or cannot be read.
    #[error("authz: {0}")]
    Policies(#[from] policies::Error),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// What was made of policies at run time cannot be read.
    #[error("cannot read the policies in the store: {0}")]
    PolicyBook(store::Error),
    /// Settings are wrong in themselves.
    #[error("{}", lines(.0))]
    Invalid(Vec<InvalidSetting>),
    /// The data directory is not ours.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The object store of the state did not answer in time.
    #[error("no answer from the object store at {url} within {seconds} s; last error: {source}")]
    Unreachable {
        /// Where the state is, or its log.
        url: String,
        /// How long it was waited for.
        seconds: u64,
        /// What went wrong at last.
        source: ProbeError,
    },
    /// The storage of the state did not answer while the catalog was opened, or one of its files did not.
    #[error("no answer from the storage at {url} within {seconds} s; last error: {last}")]
    Silent {
        /// Where the state is, or its log.
        url: String,
        /// How long it was waited for.
        seconds: u64,
        /// The last error.
        last: String,
    },
    /// The directory of the state cannot be written.
    #[error(
        "cannot write to the directory {directory} of the catalog's state: {source}. A start needs permission \
         and a little space there"
    )]
    Directory {
        /// The directory.
        directory: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The object store cannot be asked.
    #[error("cannot open the catalog's state: {0}")]
    Credentials(String),
    /// The object store is none that a state may be kept in, or does not let us.
    #[error("the catalog's state cannot be kept at {url}: {source}")]
    Unfit {
        /// Where the state is, or its log.
        url: String,
        /// What is wrong.
        source: ProbeError,
    },
    /// What is said of encryption is wrong.
    #[error(transparent)]
    Encryption(#[from] kms::Error),
    /// The store cannot be opened.
    #[error("cannot open the store at {url}: {source}")]
    Store {
        /// Where it is.
        url: String,
        /// What is wrong.
        source: store::Error,
    },
    /// The records of warehouses cannot be read or written.
    #[error("cannot bring the warehouses and the store together: {0}")]
    Warehouses(store::Error),
    /// What an earlier process left cannot be finished.
    #[error("cannot complete publications of an earlier run: {0}")]
    Recover(catalog::Error),
    /// The credentials cannot be loaded.
    #[error("cannot load the API keys: {0}")]
    Authn(#[from] authn::Error),
    /// What is said of OpenTelemetry is wrong.
    #[error(transparent)]
    Otlp(#[from] InvalidOtlp),
}

fn lines(problems: &[InvalidSetting]) -> String {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

impl BuildError {
    /// Whether the settings themselves are to blame: another try will not do better. Files that they name
    /// may be others by then, or the disk that they are on.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Setting(_) | Self::Invalid(_) | Self::Otlp(_) => true,
            Self::Encryption(error) => matches!(error, kms::Error::Setting(_)),
            _ => false,
        }
    }
}

/// Why a store cannot be opened that is at a URL.
pub(super) fn at_state(url: &str, source: store::Error) -> BuildError {
    BuildError::Store { url: url.to_owned(), source }
}
