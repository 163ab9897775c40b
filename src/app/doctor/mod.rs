//! Checks the environment that a configuration needs: stores, KMS, issuers, ports, files and this
//! machine.
//!
//! All checks can run beside a running server: they take no lock, and write only probe files, which
//! they delete.

mod machine;
mod remote;

use slateberg_config::Settings;

use slateberg_runtime::dependencies::Dependencies;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// No problem.
    Ok,
    /// A server would start but have problems later.
    Warning,
    /// A server would not start, or could not do its work.
    Failed,
}

impl Severity {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The checked part, such as `state` or `warehouse lake`.
    pub subject: String,
    /// The severity of the result.
    pub severity: Severity,
    /// The finding.
    pub message: String,
    /// The suggested remedy.
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

/// Runs all checks in sequence. Requires valid settings.
pub async fn examine(settings: &Settings, dependencies: &Dependencies) -> Vec<Check> {
    let mut checks = machine::ports(settings).await;
    checks.extend(machine::directories(settings, dependencies));
    checks.extend(machine::certificates(settings, dependencies.clock.as_ref()));
    checks.extend(machine::open_files());
    checks.extend(remote::state(settings, dependencies).await);
    checks.extend(remote::warehouses(settings, dependencies).await);
    checks.extend(remote::kms(settings, dependencies).await);
    checks.extend(remote::issuers(settings).await);
    checks
}
