//! Settings as `serve`, `config check` and `doctor` read and check them.

use serde_json::{Value, json};

use super::exit::Exit;
use crate::app::check::{Findings, check};
use slateberg_config::place::Place;
use slateberg_config::problem::Problem;
use slateberg_config::{Read, Settings, Sources, read};
use slateberg_runtime::seams::Seams;

/// Settings, and everything that is wrong with them.
pub(super) struct Checked {
    /// What was read.
    pub(super) read: Read,
    /// Everything that is wrong, with its place.
    pub(super) problems: Vec<Problem>,
    /// What a server by these settings would be.
    pub(super) findings: Findings,
}

impl Checked {
    /// Reads settings, changes them as flags say, and checks them. Has to be called in a
    /// runtime: some clients of object stores want one when they are created.
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
            // A value that could not be read is at its default, of which nothing is to be said.
            if read.problems.iter().all(|problem| problem.key != found.key) {
                problems.push(read.problem(found));
            }
        }
        Self { read, problems, findings }
    }

    /// All problems as a text for people, with their number.
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

    /// Everything that is wrong, and what a server would be, for programs.
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

    /// All warnings as a text for people.
    pub(super) fn warnings(&self) -> String {
        let warnings = self.read.warnings.iter();
        warnings.map(|warning| format!("warning: {warning}\n\n")).collect()
    }

    /// Files and variables that were read.
    pub(super) fn sources(&self) -> String {
        match self.read.sources() {
            sources if sources.is_empty() => "the defaults".to_owned(),
            sources => sources.join(", "),
        }
    }

    /// The exit code of a start with these settings: another try helps only if just files are wrong.
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

/// Adds the place of a setting to what is said of it.
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
