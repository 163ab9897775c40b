//! Layers of settings, and the positions of keys in these layers. Later layers take precedence.

#![expect(
    clippy::result_large_err,
    reason = "settings are read once, and problems are shown one by one"
)]

use std::ops::Range;
use std::path::{Path, PathBuf};

use figment::providers::{Env, Format, Toml};
use figment::value::{Dict, Value};
use figment::{Profile, Provider};
use toml::de::{DeTable, DeValue};

use super::problem::{Excerpt, Problem};
use super::setting_source::SettingSource;

/// Prefix of variables that contain a setting.
pub(super) const ENV_PREFIX: &str = "SLATEBERG__";
/// Separator of the parts of a variable's name.
pub(super) const ENV_SEPARATOR: &str = "__";

/// A source of settings, and its content.
pub(super) struct Layer {
    origin: Origin,
    pub(super) dict: Dict,
}

enum Origin {
    File { file: PathBuf, text: String },
    Environment { variables: Vec<(Vec<String>, String)> },
}

impl Layer {
    /// Reads a file.
    pub(super) fn file(file: &Path) -> Result<Self, Problem> {
        let whole = SettingSource::File { file: file.to_owned(), line: None, column: None };
        let text = std::fs::read_to_string(file)
            .map_err(|error| Problem::new(whole.clone(), "", error.to_string()))?;
        match Toml::from_str::<Dict>(&text) {
            Ok(dict) => Ok(Self { origin: Origin::File { file: file.to_owned(), text }, dict }),
            Err(error) => {
                let at = error.span().map(|span| at(file, &text, &span));
                let (source, excerpt) = at.map_or((whole, None), |(source, it)| (source, Some(it)));
                let message = format!("not TOML: {}", error.message().trim_end());
                Err(Problem { excerpt, ..Problem::new(source, "", message) })
            }
        }
    }

    /// Reads the environment.
    pub(super) fn environment() -> Result<Self, Problem> {
        let mut data = Env::prefixed(ENV_PREFIX).split(ENV_SEPARATOR).data().map_err(|error| {
            let source = SettingSource::Variable(format!("{ENV_PREFIX}..."));
            Problem::new(source, "", error.to_string())
        })?;
        let dict = data.remove(&Profile::Default).unwrap_or_default();
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let ours = names.filter_map(|name| {
            let key = name.get(..ENV_PREFIX.len())?.eq_ignore_ascii_case(ENV_PREFIX);
            let key = key.then(|| name[ENV_PREFIX.len()..].to_lowercase())?;
            Some((key.split(ENV_SEPARATOR).map(str::to_owned).collect(), name))
        });
        Ok(Self { origin: Origin::Environment { variables: ours.collect() }, dict })
    }

    /// Returns the name for display. `None` if no environment variable contains a setting.
    pub(super) fn name(&self) -> Option<String> {
        match &self.origin {
            Origin::File { file, .. } => Some(file.display().to_string()),
            Origin::Environment { variables } => match variables.len() {
                0 => None,
                1 => Some("1 variable".to_owned()),
                count => Some(format!("{count} variables")),
            },
        }
    }

    /// Whether the layer contains this key or a key below it.
    pub(super) fn has(&self, path: &[String]) -> bool {
        value_at(&self.dict, path).is_some()
    }

    /// Returns the position of a key and the excerpt that shows it.
    pub(super) fn source(&self, path: &[String]) -> (SettingSource, Option<Excerpt>) {
        match &self.origin {
            Origin::File { file, text } => match span_of(text, path) {
                Some(span) => {
                    let (source, excerpt) = at(file, text, &span);
                    (source, Some(excerpt))
                }
                None => {
                    (SettingSource::File { file: file.clone(), line: None, column: None }, None)
                }
            },
            Origin::Environment { variables } => {
                let found = variables.iter().find(|(key, _)| {
                    key.starts_with(path) || (!key.is_empty() && path.starts_with(key))
                });
                let name = match found {
                    Some((_, name)) => name.clone(),
                    None => ENV_PREFIX.to_owned() + &path.join(ENV_SEPARATOR).to_uppercase(),
                };
                (SettingSource::Variable(name), None)
            }
        }
    }

    /// Removes a key. If it is in an array, removes the whole array.
    pub(super) fn remove(&mut self, path: &[String]) {
        let mut dict = &mut self.dict;
        for (depth, segment) in path.iter().enumerate() {
            let leads_on = matches!(dict.get(segment), Some(Value::Dict(..)));
            if depth + 1 == path.len() || !leads_on {
                dict.remove(segment);
                return;
            }
            match dict.get_mut(segment) {
                Some(Value::Dict(_, below)) => dict = below,
                _ => return,
            }
        }
    }

    /// Resolves a dotted key such as `warehouses.lake.location` to a path in this layer. If a file
    /// contains only the first parts of the key, returns the path of these parts. The key is not
    /// simply split at its dots, because names may contain dots.
    pub(super) fn path_of(&self, key: &str) -> Option<Vec<String>> {
        let mut path = Vec::new();
        let (mut dict, mut rest) = (&self.dict, key);
        loop {
            let fits = |name: &&String| {
                rest.strip_prefix(name.as_str())
                    .is_some_and(|it| it.is_empty() || it.starts_with('.'))
            };
            let Some(name) = dict.keys().filter(fits).max_by_key(|name| name.len()) else {
                // The enclosing table is the nearest position of a missing setting.
                let is_file = matches!(self.origin, Origin::File { .. });
                return (is_file && !path.is_empty()).then_some(path);
            };
            path.push(name.clone());
            rest = rest[name.len()..].trim_start_matches('.');
            match dict.get(name) {
                _ if rest.is_empty() => return Some(path),
                Some(Value::Dict(_, below)) => dict = below,
                // Elements of a list have no name, so the list itself is the nearest named
                // position.
                _ => return Some(path),
            }
        }
    }
}

fn value_at<'a>(dict: &'a Dict, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = dict.get(first)?;
    for segment in rest {
        value = match value {
            Value::Dict(_, below) => below.get(segment)?,
            // A problem of an element is reported at its list.
            list @ Value::Array(..) => return Some(list),
            _ => return None,
        };
    }
    Some(value)
}

/// Returns the span of the last part of a path, or of the innermost part that the text contains.
fn span_of(text: &str, path: &[String]) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    for segment in path {
        let entry = table.iter().find(|(key, _)| **key.get_ref() == **segment);
        let Some((key, value)) = entry else { break };
        found = Some(key.span());
        match value.get_ref() {
            DeValue::Table(below) => table = below,
            _ => break,
        }
    }
    found
}

/// Returns the position and excerpt of a span of a file.
fn at(file: &Path, text: &str, span: &Range<usize>) -> (SettingSource, Excerpt) {
    let before = text.get(..span.start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    let line_text = text[line_start..].lines().next().unwrap_or_default();
    let marked = text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
    let excerpt =
        Excerpt { text: line_text.to_owned(), line, column, chars: marked.chars().count().max(1) };
    let source =
        SettingSource::File { file: file.to_owned(), line: Some(line), column: Some(column) };
    (source, excerpt)
}
