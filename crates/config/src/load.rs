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

use super::layers::Layer;
use super::place::Place;
use super::problem::{Excerpt, Problem, help_for};
use super::secrets::is_secret;
use super::settings::{DEFAULT_WAREHOUSE, Settings};
use super::{type_names, variables};
use slateberg_base::setting::InvalidSetting;
use slateberg_telemetry::otlp::environment;

/// The directory whose files are read if `--config` names none.
const CONFIG_DIR: &str = "config";
/// Files of that directory that are for reading by people.
const EXAMPLE_SUFFIX: &str = ".example.toml";
/// Beginnings of the variables that cloud libraries know.
const AMBIENT_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// The beginning of the standard library's message about an address that cannot be parsed.
const NOT_AN_ADDRESS: &str = "invalid socket address";
/// The number of problems after which reading stops.
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

/// Settings and the sources that they were read from.
pub struct Read {
    /// The settings. Values that cannot be read are at their defaults.
    pub settings: Settings,
    /// Everything that cannot be read.
    pub problems: Vec<Problem>,
    /// Things that could be mistakes and stop no start.
    pub warnings: Vec<Problem>,
    layers: Vec<Layer>,
    /// Files that cannot be read.
    broken: Vec<PathBuf>,
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
    let mut broken: Vec<_> = problems.iter().filter_map(|it| it.file().cloned()).collect();
    let read = files.iter().map(|file| Layer::file(file)).chain([Layer::environment()]);
    for layer in read {
        match layer {
            Ok(layer) => layers.push(layer),
            Err(problem) => {
                broken.extend(problem.file().cloned());
                problems.push(problem);
            }
        }
    }
    let unknown = variables::unknown(variables(&[variables::PREFIX]).keys().map(String::as_str));
    let warnings = unknown.warnings;
    problems.extend(unknown.errors);
    // The first mistake ends deserialization: once it is removed, the next one is found.
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
                return Read { settings, problems, warnings, layers, broken };
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
    Read { settings: Settings::default(), problems, warnings, layers, broken }
}

impl Read {
    /// The sources, later ones win. Files that cannot be read come first.
    pub fn sources(&self) -> Vec<String> {
        let broken = self.broken.iter().map(|file| file.display().to_string());
        broken.chain(self.layers.iter().filter_map(Layer::name)).collect()
    }

    /// Adds the place of the key to a problem that another layer has found.
    pub fn problem(&self, invalid: InvalidSetting) -> Problem {
        let InvalidSetting { key, message, help } = invalid;
        let known = self.layers.iter().filter_map(|layer| Some((layer, layer.path_of(&key)?)));
        let found = known.max_by_key(|(_, path)| path.len());
        let (place, excerpt) = match found {
            None => (Place::Default, None),
            Some((layer, path)) => {
                let (place, excerpt) = layer.place(&path);
                (place, shown(&path, excerpt))
            }
        };
        Problem { excerpt, help, ..Problem::new(place, key, message) }
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
            ("unknown key".to_owned(), Some(help_for_key(&path, expected, layers)))
        }
        Kind::UnknownVariant(name, expected) => {
            (format!("unknown value '{name}'"), Some(help_for(name, expected)))
        }
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            let shown = !is_secret(&path);
            let advice = type_names::advice(actual, expected).filter(|_| shown);
            (type_names::mismatch(actual, expected, shown), advice)
        }
        Kind::Message(message) if message.starts_with(NOT_AN_ADDRESS) => {
            let message = "expected an IP address and a port, such as 127.0.0.1:8181";
            (message.to_owned(), None)
        }
        other => (other.to_string(), None),
    };
    let layer = layers.iter().rev().find(|layer| layer.has(&path));
    let (place, excerpt) = layer.map_or((Place::Default, None), |layer| layer.place(&path));
    let excerpt = shown(&path, excerpt);
    let problem = Problem { help, excerpt, ..Problem::new(place, path.join("."), message) };
    (path, problem)
}

/// Advice on a key that does not exist.
fn help_for_key(path: &[String], expected: &[&str], layers: &[Layer]) -> String {
    let name = path.last().map(String::as_str).unwrap_or_default();
    if let [section, warehouse, _] = path
        && (section.as_str(), name) == ("warehouses", "credentials")
    {
        return format!(
            "credentials are for warehouses that are created at run time: write these options below \
             [warehouses.{warehouse}.options]"
        );
    }
    let layer = layers.iter().rev().find(|layer| layer.has(path));
    let meant = match layer.map(|layer| layer.place(path).0) {
        Some(Place::Variable(variable)) => variables::meant(&variable).filter(|it| *it != variable),
        _ => None,
    };
    meant.map_or_else(|| help_for(name, expected), |meant| format!("did you mean {meant}?"))
}

/// The part of a line that may be shown.
fn shown(path: &[String], excerpt: Option<Excerpt>) -> Option<Excerpt> {
    if is_secret(path) { excerpt.map(Excerpt::without_value) } else { excerpt }
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

fn variables(prefixes: &[&str]) -> BTreeMap<String, String> {
    let ours = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    // Variables of other programs may hold anything.
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
