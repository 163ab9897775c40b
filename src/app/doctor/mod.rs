//! Tests the surroundings that a configuration needs: stores, KMS, issuers, ports, files and this machine.
//!
//! Every check may run beside a server: it writes nothing but probe files, which it deletes,
//! and takes no lock.

mod machine;
mod remote;

use slateberg_config::Settings;

use slateberg_runtime::seams::Seams;

/// Whether something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// A server would start, and have trouble later.
    Warning,
    /// A server would not start, or could not do its work.
    Failed,
}

impl Severity {
    /// Its name, in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// A check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The thing that was tested, such as `state` or `warehouse lake`.
    pub subject: String,
    /// Whether something is wrong.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Check {
    fn new(subject: impl Into<String>, severity: Severity, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), severity, message: message.into(), help: None }
    }

    fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(subject, Severity::Ok, message)
    }

    fn failed(
        subject: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { help: Some(help.into()), ..Self::new(subject, Severity::Failed, message) }
    }

    fn warning(
        subject: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { help: Some(help.into()), ..Self::new(subject, Severity::Warning, message) }
    }
}

/// Tests everything that settings need which have no problems, one thing after another.
pub async fn examine(settings: &Settings, seams: &Seams) -> Vec<Check> {
    let mut checks = machine::ports(settings).await;
    checks.extend(machine::directories(settings, seams));
    checks.extend(machine::certificates(settings, seams.clock.as_ref()));
    checks.extend(machine::open_files());
    checks.extend(remote::state(settings, seams).await);
    checks.extend(remote::warehouses(settings, seams).await);
    checks.extend(remote::kms(settings, seams).await);
    checks.extend(remote::issuers(settings).await);
    checks
}
