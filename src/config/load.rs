//! Reading settings: defaults, files, environment.

#![expect(
    clippy::result_large_err,
    reason = "settings are read once, and problems are shown one by one"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::Kind;
use figment::providers::Serialized;

use super::layers::{Layer, Place};
use super::problem::{Excerpt, Problem, help_for};
use super::secrets::is_secret;
use super::settings::{DEFAULT_WAREHOUSE, Settings};
use crate::telemetry::otlp::environment;

/// The directory whose files are read if `--config` names none.
const CONFIG_DIR: &str = "config";
/// Files of that directory that are for reading by people.
const EXAMPLE_SUFFIX: &str = ".example.toml";
/// Beginnings of the variables that cloud libraries know.
const AMBIENT_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// Problems after which nobody reads on.
const PROBLEMS_MAX: usize = 100;

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file of `--config`; the files of `config/` if there is none.
    pub config: Option<PathBuf>,
}

/// Why there are no settings: says the keys, where they stand, and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// What was read.
pub struct Read {
    /// The settings: what is wrong in them is left at its default.
    pub settings: Settings,
    /// What is wrong.
    pub problems: Vec<Problem>,
    layers: Vec<Layer>,
}

/// Reads the settings.
pub fn load(sources: &Sources) -> Result<Settings, Error> {
    let Read { settings, problems, .. } = read(sources);
    if problems.is_empty() {
        return Ok(settings);
    }
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Err(Error(texts.join("\n")))
}

/// Reads the settings as far as they can be read, with all that is wrong with them.
pub fn read(sources: &Sources) -> Read {
    let (mut layers, mut problems) = (Vec::new(), Vec::new());
    let files = files(sources).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    let read = files.iter().map(|file| Layer::file(file)).chain([Layer::environment()]);
    for layer in read {
        match layer {
            Ok(layer) => layers.push(layer),
            Err(problem) => problems.push(problem),
        }
    }
    // Whoever deserializes stops at the first mistake: without it, the next one is found.
    while problems.len() < PROBLEMS_MAX {
        let mut figment = Figment::from(Serialized::defaults(Settings::default()));
        for layer in &layers {
            figment = figment.merge(Serialized::defaults(&layer.dict));
        }
        let error = match figment.extract::<Settings>() {
            Ok(mut settings) => {
                settings.ambient_options = ambient_options();
                leave_out_default_warehouse(&mut settings, &layers);
                match environment::settings(&variables(&[environment::PREFIX])) {
                    Ok(told) => settings.telemetry.otlp = settings.telemetry.otlp.or(told),
                    Err(message) => problems.push(Problem::new(Place::Default, "", message)),
                }
                return Read { settings, problems, layers };
            }
            Err(error) => error,
        };
        let (path, problem) = problem_of(&error, &layers);
        problems.push(problem);
        // What wins is what was wrong.
        match layers.iter_mut().rev().find(|layer| layer.has(&path)) {
            Some(layer) => layer.remove(&path),
            None => break,
        }
    }
    Read { settings: Settings::default(), problems, layers }
}

impl Read {
    /// What was read, in the order in which it wins.
    pub fn sources(&self) -> Vec<String> {
        self.layers.iter().filter_map(Layer::name).collect()
    }

    /// Something that is wrong with a key, by what has been found out elsewhere.
    pub fn problem(&self, key: &str, message: String) -> Problem {
        let found = self.layers.iter().rev().find_map(|layer| Some((layer, layer.path_of(key)?)));
        let Some((layer, path)) = found else {
            return Problem::new(Place::Default, key, message);
        };
        let (place, excerpt) = layer.place(&path);
        let excerpt = shown(&path, excerpt);
        Problem { excerpt, ..Problem::new(place, key, message) }
    }

    /// Where the value of a key comes from.
    pub(super) fn place(&self, path: &[String]) -> Place {
        let found = self.layers.iter().rev().find(|layer| layer.has(path));
        found.map_or(Place::Default, |layer| layer.place(path).0)
    }
}

/// A server whose default warehouse is another one has none called `default`, unless it was told of that,
/// too.
fn leave_out_default_warehouse(settings: &mut Settings, layers: &[Layer]) {
    let path = ["warehouses".to_owned(), DEFAULT_WAREHOUSE.to_owned()];
    let is_told = layers.iter().any(|layer| layer.has(&path));
    if settings.default_warehouse != DEFAULT_WAREHOUSE && !is_told {
        settings.warehouses.remove(DEFAULT_WAREHOUSE);
    }
}

/// What an error is about, and what is to be said of it.
fn problem_of(error: &figment::Error, layers: &[Layer]) -> (Vec<String>, Problem) {
    let mut path = error.path.clone();
    let (message, help) = match &error.kind {
        Kind::UnknownField(name, expected) => {
            if path.last() != Some(name) {
                path.push(name.clone());
            }
            ("unknown key".to_owned(), Some(help_for(name, expected)))
        }
        Kind::UnknownVariant(name, expected) => {
            (format!("unknown value '{name}'"), Some(help_for(name, expected)))
        }
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) if is_secret(&path) => {
            (format!("expected {expected}"), None)
        }
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            (format!("expected {expected}, got {actual}"), None)
        }
        other => (other.to_string(), None),
    };
    let layer = layers.iter().rev().find(|layer| layer.has(&path));
    let (place, excerpt) = layer.map_or((Place::Default, None), |layer| layer.place(&path));
    let excerpt = shown(&path, excerpt);
    let problem = Problem { help, excerpt, ..Problem::new(place, path.join("."), message) };
    (path, problem)
}

/// As much of a line as may be shown.
fn shown(path: &[String], excerpt: Option<Excerpt>) -> Option<Excerpt> {
    match is_secret(path) {
        true => excerpt.map(Excerpt::without_value),
        false => excerpt,
    }
}

fn files(sources: &Sources) -> Result<Vec<PathBuf>, Problem> {
    if let Some(file) = &sources.config {
        if !file.is_file() {
            let place = Place::File { file: file.clone(), line: None, column: None };
            return Err(Problem::new(place, "", "no such file"));
        }
        return Ok(vec![file.clone()]);
    }
    let Ok(entries) = std::fs::read_dir(CONFIG_DIR) else { return Ok(Vec::new()) };
    let mut files: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_ours(path)).collect();
    files.sort();
    Ok(files)
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".toml") && !name.ends_with(EXAMPLE_SUFFIX)
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn variables(prefixes: &[&str]) -> BTreeMap<String, String> {
    let ours = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    std::env::vars().filter(|(name, _)| ours(name)).collect()
}

fn ambient_options() -> BTreeMap<String, String> {
    let known = variables(&AMBIENT_PREFIXES).into_iter();
    known.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

#[cfg(test)]
mod tests;
