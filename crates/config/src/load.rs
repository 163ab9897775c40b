//! Reads settings from defaults, files and the environment.

#![expect(
    clippy::result_large_err,
    reason = "settings are read once, and problems are shown one by one"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::Kind;
use figment::providers::Serialized;

use super::layers::Layer;
use super::problem::{Excerpt, Problem, help_for};
use super::secrets::is_secret;
use super::setting_source::SettingSource;
use super::settings::{DEFAULT_WAREHOUSE, Settings};
use super::{type_names, variables};
use slateberg_base::setting::InvalidSetting;
use slateberg_telemetry::otlp::environment;

/// The directory whose files are read if `--config` is not set.
const CONFIG_DIR: &str = "config";
/// Suffix of files in that directory that are documentation and are not read.
const EXAMPLE_SUFFIX: &str = ".example.toml";
/// Prefixes of the environment variables that configure cloud SDKs.
const AMBIENT_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// The beginning of the standard library's message for an invalid socket address.
const NOT_AN_ADDRESS: &str = "invalid socket address";
/// Maximum number of reported problems.
const PROBLEMS_MAX: usize = 100;

/// The sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file of `--config`. If it is `None`, the files in `config/` are read.
    pub config: Option<PathBuf>,
}

/// The settings are invalid. The message names the keys, their positions and the expected values.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Settings and their sources.
pub struct LoadedSettings {
    /// The settings. Invalid values are replaced by their defaults.
    pub settings: Settings,
    /// All problems that prevent a start.
    pub problems: Vec<Problem>,
    /// Possible mistakes that do not prevent a start.
    pub warnings: Vec<Problem>,
    layers: Vec<Layer>,
    /// Files that cannot be read.
    unreadable_files: Vec<PathBuf>,
}

/// Reads the settings.
pub fn load(sources: &Sources) -> Result<Settings, Error> {
    let LoadedSettings { settings, problems, .. } = read(sources);
    if problems.is_empty() {
        return Ok(settings);
    }
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Err(Error(texts.join("\n")))
}

/// Reads all valid settings and collects the problems of the invalid ones.
pub fn read(sources: &Sources) -> LoadedSettings {
    let (mut layers, mut problems) = (Vec::new(), Vec::new());
    let files = files(sources).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    let mut unreadable_files: Vec<_> =
        problems.iter().filter_map(|it| it.file().cloned()).collect();
    let read = files.iter().map(|file| Layer::file(file)).chain([Layer::environment()]);
    for layer in read {
        match layer {
            Ok(layer) => layers.push(layer),
            Err(problem) => {
                unreadable_files.extend(problem.file().cloned());
                problems.push(problem);
            }
        }
    }
    let unknown = variables::unknown(variables(&[variables::PREFIX]).keys().map(String::as_str));
    let warnings = unknown.warnings;
    problems.extend(unknown.errors);
    // Deserialization stops at the first error. Each iteration removes one invalid value to find
    // the next.
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
                    Ok(from_environment) => {
                        settings.telemetry.otlp = settings.telemetry.otlp.or(from_environment)
                    }
                    Err(message) => {
                        problems.push(Problem::new(SettingSource::Default, "", message))
                    }
                }
                return LoadedSettings { settings, problems, warnings, layers, unreadable_files };
            }
            Err(error) => error,
        };
        let (path, problem) = problem_of(&error, &layers);
        problems.push(problem);
        // Of the layers that contain the key, the one with the highest precedence supplied the
        // invalid value.
        match layers.iter_mut().rev().find(|layer| layer.has(&path)) {
            Some(layer) => layer.remove(&path),
            None => break,
        }
    }
    LoadedSettings { settings: Settings::default(), problems, warnings, layers, unreadable_files }
}

impl LoadedSettings {
    /// Returns the names of the sources: unreadable files first, then the others by ascending
    /// precedence.
    pub fn sources(&self) -> Vec<String> {
        let unreadable_files = self.unreadable_files.iter().map(|file| file.display().to_string());
        unreadable_files.chain(self.layers.iter().filter_map(Layer::name)).collect()
    }

    /// Converts a problem that a later check has found. Adds the position of the setting.
    pub fn problem(&self, invalid: InvalidSetting) -> Problem {
        let InvalidSetting { key, message, help } = invalid;
        let known = self.layers.iter().filter_map(|layer| Some((layer, layer.path_of(&key)?)));
        let found = known.max_by_key(|(_, path)| path.len());
        let (source, excerpt) = match found {
            None => (SettingSource::Default, None),
            Some((layer, path)) => {
                let (source, excerpt) = layer.source(&path);
                (source, redact_excerpt(&path, excerpt))
            }
        };
        Problem { excerpt, help, ..Problem::new(source, key, message) }
    }

    /// Returns the source of a key's value.
    pub(super) fn source(&self, path: &[String]) -> SettingSource {
        let found = self.layers.iter().rev().find(|layer| layer.has(path));
        found.map_or(SettingSource::Default, |layer| layer.source(path).0)
    }
}

/// Removes the warehouse `default` if the default warehouse has another name, unless a source
/// defines `warehouses.default` explicitly.
fn leave_out_default_warehouse(settings: &mut Settings, layers: &[Layer]) {
    let path = ["warehouses".to_owned(), DEFAULT_WAREHOUSE.to_owned()];
    let is_set = layers.iter().any(|layer| layer.has(&path));
    if settings.default_warehouse != DEFAULT_WAREHOUSE && !is_set {
        settings.warehouses.remove(DEFAULT_WAREHOUSE);
    }
}

/// Converts an error into its key and the problem to report.
fn problem_of(error: &figment::Error, layers: &[Layer]) -> (Vec<String>, Problem) {
    let mut path = error.path.clone();
    let (message, help) = match &error.kind {
        Kind::UnknownField(name, expected) => {
            if path.last() != Some(name) {
                path.push(name.clone());
            }
            ("unknown key".to_owned(), Some(help_for_key(&path, expected, layers)))
        }
        Kind::UnknownVariant(name, expected) => {
            (format!("unknown value '{name}'"), Some(help_for(name, expected)))
        }
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            let is_public = !is_secret(&path);
            let advice = type_names::advice(actual, expected).filter(|_| is_public);
            (type_names::mismatch(actual, expected, is_public), advice)
        }
        Kind::Message(message) if message.starts_with(NOT_AN_ADDRESS) => {
            let message = "expected an IP address and a port, such as 127.0.0.1:8181";
            (message.to_owned(), None)
        }
        other => (other.to_string(), None),
    };
    let layer = layers.iter().rev().find(|layer| layer.has(&path));
    let (source, excerpt) =
        layer.map_or((SettingSource::Default, None), |layer| layer.source(&path));
    let excerpt = redact_excerpt(&path, excerpt);
    let problem = Problem { help, excerpt, ..Problem::new(source, path.join("."), message) };
    (path, problem)
}

/// Returns advice on an unknown key.
fn help_for_key(path: &[String], expected: &[&str], layers: &[Layer]) -> String {
    let name = path.last().map(String::as_str).unwrap_or_default();
    if let [section, warehouse, _] = path
        && (section.as_str(), name) == ("warehouses", "credentials")
    {
        return format!(
            "credentials are only for warehouses that are created at run time: put these options into \
             [warehouses.{warehouse}.options]"
        );
    }
    let layer = layers.iter().rev().find(|layer| layer.has(path));
    let meant = match layer.map(|layer| layer.source(path).0) {
        Some(SettingSource::Variable(variable)) => {
            variables::meant(&variable).filter(|it| *it != variable)
        }
        _ => None,
    };
    meant.map_or_else(|| help_for(name, expected), |meant| format!("did you mean {meant}?"))
}

/// Hides the value in an excerpt if it may be a secret.
fn redact_excerpt(path: &[String], excerpt: Option<Excerpt>) -> Option<Excerpt> {
    if is_secret(path) { excerpt.map(Excerpt::without_value) } else { excerpt }
}

fn files(sources: &Sources) -> Result<Vec<PathBuf>, Problem> {
    if let Some(file) = &sources.config {
        if !file.is_file() {
            let source = SettingSource::File { file: file.clone(), line: None, column: None };
            return Err(Problem::new(source, "", "no such file"));
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

fn variables(prefixes: &[&str]) -> BTreeMap<String, String> {
    let ours = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    // `std::env::vars` would panic if any variable of the process is not UTF-8.
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| ours(name)).collect()
}

fn ambient_options() -> BTreeMap<String, String> {
    let known = variables(&AMBIENT_PREFIXES).into_iter();
    known.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

#[cfg(test)]
mod tests;
