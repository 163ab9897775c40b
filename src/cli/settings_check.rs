//! Reads and validates settings for `serve`, `config check` and `doctor`.

use serde_json::{Value, json};

use super::exit::Exit;
use crate::app::check::{Findings, check};
use slateberg_config::problem::Problem;
use slateberg_config::setting_source::SettingSource;
use slateberg_config::{LoadedSettings, Settings, Sources, read};
use slateberg_runtime::dependencies::Dependencies;

/// Settings with their problems.
pub(super) struct SettingsCheck {
    /// The settings as read.
    pub(super) read: LoadedSettings,
    /// All problems, each with the source of the setting, such as a position in a file or an
    /// environment variable.
    pub(super) problems: Vec<Problem>,
    /// The result of the validation, with the effective configuration.
    pub(super) findings: Findings,
}

impl SettingsCheck {
    /// Reads settings, applies the changes by command line options, and validates the result. Must
    /// be called in a Tokio runtime, because some object store clients require one.
    pub(super) fn new(
        sources: &Sources,
        change: impl FnOnce(&mut Settings),
        dependencies: &Dependencies,
    ) -> Self {
        let mut read = read(sources);
        change(&mut read.settings);
        let mut findings = check(&read.settings, dependencies);
        let mut problems = read.problems.clone();
        for invalid in std::mem::take(&mut findings.problems) {
            // A value that could not be read was replaced with its default. Validating the default
            // would report nothing useful.
            if read.problems.iter().all(|problem| problem.key != invalid.key) {
                problems.push(read.problem(invalid));
            }
        }
        Self { read, problems, findings }
    }

    /// Renders all problems and their number.
    pub(super) fn report(&self) -> String {
        let problems = self.problems.iter().map(|problem| format!("error: {problem}\n\n"));
        let count = match self.problems.len() {
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        format!(
            "{}{}{count} in {}\n",
            self.warnings(),
            problems.collect::<String>(),
            self.sources()
        )
    }

    /// Renders all problems and the effective configuration as JSON.
    pub(super) fn json(&self) -> Value {
        let all = |problems: &[Problem]| problems.iter().map(problem_json).collect::<Vec<_>>();
        let summary = self.findings.summary.iter();
        json!({
            "valid": self.problems.is_empty(),
            "sources": self.read.sources(),
            "problems": all(&self.problems),
            "warnings": all(&self.read.warnings),
            "summary": summary.map(|(label, value)| json!([label, value])).collect::<Vec<_>>(),
        })
    }

    /// Renders all warnings.
    pub(super) fn warnings(&self) -> String {
        let warnings = self.read.warnings.iter();
        warnings.map(|warning| format!("warning: {warning}\n\n")).collect()
    }

    /// Lists the files and variables that were read.
    pub(super) fn sources(&self) -> String {
        match self.read.sources() {
            sources if sources.is_empty() => "the defaults".to_owned(),
            sources => sources.join(", "),
        }
    }

    /// Returns the exit code for a start with these settings. If the settings are valid and only a
    /// file that they name is invalid, a retry can succeed.
    pub(super) fn exit(&self) -> Exit {
        let is_of_settings = !self.read.problems.is_empty() || self.findings.is_of_settings;
        if is_of_settings { Exit::Settings } else { Exit::Failed }
    }
}

fn problem_json(problem: &Problem) -> Value {
    let mut value = json!({
        "key": problem.key, "message": problem.message, "help": problem.help,
    });
    add_source(&mut value, &problem.source);
    value
}

/// Adds the source of a setting to its JSON.
pub(super) fn add_source(value: &mut Value, source: &SettingSource) {
    match source {
        SettingSource::Default => {}
        SettingSource::MemoryShare => value["derived_from"] = json!("memory_bytes_max"),
        SettingSource::Variable(name) => value["variable"] = json!(name),
        SettingSource::File { file, line, column } => {
            value["file"] = json!(file);
            value["line"] = json!(line);
            value["column"] = json!(column);
        }
    }
}
