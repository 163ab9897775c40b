//! Reading settings: defaults, files, environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};

use super::settings::Settings;
use crate::telemetry::otlp::environment;

/// What every variable of ours begins with.
const ENV_PREFIX: &str = "SLATEBERG__";
/// The directory whose files are read if `--config` names none.
const CONFIG_DIR: &str = "config";
/// Files of that directory that are for reading by people.
const EXAMPLE_SUFFIX: &str = ".example.toml";
/// Beginnings of the variables that cloud libraries know.
const AMBIENT_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file of `--config`; the files of `config/` if there is none.
    pub config: Option<PathBuf>,
}

/// Why there are no settings: says the key, where it stands, and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Reads the settings.
pub fn load(sources: &Sources) -> Result<Settings, Error> {
    let mut figment = Figment::from(Serialized::defaults(Settings::default()));
    for file in files(sources)? {
        figment = figment.merge(Toml::file_exact(file));
    }
    figment = figment.merge(Env::prefixed(ENV_PREFIX).split("__"));
    let mut settings: Settings = figment.extract().map_err(|error| {
        let errors: Vec<_> = error.into_iter().map(|error| describe(&error)).collect();
        Error(errors.join("\n"))
    })?;
    settings.ambient_options = ambient_options();
    let told = environment::settings(&variables(&[environment::PREFIX])).map_err(Error)?;
    settings.telemetry.otlp = settings.telemetry.otlp.or(told);
    Ok(settings)
}

fn files(sources: &Sources) -> Result<Vec<PathBuf>, Error> {
    if let Some(file) = &sources.config {
        if !file.is_file() {
            return Err(Error(format!("{}: no such file", file.display())));
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

/// One line: where, which key, what is wrong.
fn describe(error: &figment::Error) -> String {
    let source = match &error.metadata {
        Some(metadata) => match &metadata.source {
            Some(source) => source.to_string(),
            None => metadata.name.to_string(),
        },
        None => "settings".to_owned(),
    };
    let key = error.path.join(".");
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    format!("{source}: {key}{}", error.kind)
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
