//! Reads and validates settings for `serve`, `config check` and `doctor`.

use serde_json::{Value, json};

use super::exit::Exit;
use crate::app::check::{Findings, check};
use slateberg_config::place::Place;
use slateberg_config::problem::Problem;
use slateberg_config::{Read, Settings, Sources, read};
use slateberg_runtime::seams::Seams;

/// Settings with their problems.
pub(super) struct Checked {
    /// The settings as read.
    pub(super) read: Read,
    /// All problems, each with its position in a file or variable.
    pub(super) problems: Vec<Problem>,
    /// The result of the validation, with the effective configuration.
    pub(super) findings: Findings,
}

impl Checked {
    /// Reads settings, applies the changes of flags, and validates the result. Must be called in a
    /// Tokio runtime, because some object store clients require one.
    pub(super) fn new(
        sources: &Sources,
        change: impl FnOnce(&mut Settings),
        seams: &Seams,
    ) -> Self {
        let mut read = read(sources);
        change(&mut read.settings);
        let mut findings = check(&read.settings, seams);
        let mut problems = read.problems.clone();
        for found in std::mem::take(&mut findings.problems) {
            // A value that could not be read has its default, so that validating it would report
            // nothing useful.
            if read.problems.iter().all(|problem| problem.key != found.key) {
                problems.push(read.problem(found));
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
            "summary": summary.map(|(what, how)| json!([what, how])).collect::<Vec<_>>(),
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

    /// Returns the exit code for a start with these settings. If only files are invalid, a retry
    /// can succeed.
    pub(super) fn exit(&self) -> Exit {
        let is_of_settings = !self.read.problems.is_empty() || self.findings.is_of_settings;
        if is_of_settings { Exit::Settings } else { Exit::Failed }
    }
}

fn problem_json(problem: &Problem) -> Value {
    let mut shown = json!({
        "key": problem.key, "message": problem.message, "help": problem.help,
    });
    add_place(&mut shown, &problem.place);
    shown
}

/// Adds the location of a setting to its JSON.
pub(super) fn add_place(shown: &mut Value, place: &Place) {
    match place {
        Place::Default => {}
        Place::MemoryShare => shown["derived_from"] = json!("memory_bytes_max"),
        Place::Variable(name) => shown["variable"] = json!(name),
        Place::File { file, line, column } => {
            shown["file"] = json!(file);
            shown["line"] = json!(line);
            shown["column"] = json!(column);
        }
    }
}
