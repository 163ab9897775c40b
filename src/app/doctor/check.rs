//! [`Check`]: the result of one check.

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
    pub(super) fn new(
        subject: impl Into<String>,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Self { subject: subject.into(), severity, message: message.into(), help: None }
    }

    pub(super) fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(subject, Severity::Ok, message)
    }

    pub(super) fn failed(
        subject: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { help: Some(help.into()), ..Self::new(subject, Severity::Failed, message) }
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { help: Some(help.into()), ..Self::new(subject, Severity::Warning, message) }
    }
}
