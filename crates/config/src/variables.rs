//! Unknown environment variables that begin with `SLATEBERG_`.
//!
//! A variable that matches a setting except for its underscores is an error, because the operator
//! expects it to have an effect. Any other unknown variable is a warning: other programs may use
//! this prefix, and Kubernetes sets some variables for a service named `slateberg`.

use serde_json::Value;

use super::client;
use super::layers::{ENV_PREFIX, ENV_SEPARATOR};
use super::problem::Problem;
use super::setting_source::SettingSource;
use super::settings::Settings;
use slateberg_base::similar::nearest;

/// Prefix of all variables of this program.
pub(super) const PREFIX: &str = "SLATEBERG_";
/// Variables of this project's builds. `make` and cargo pass them to the programs that they run.
const BUILD_VARIABLES: [&str; 3] = ["SLATEBERG_BIN", "SLATEBERG_CACHE", "SLATEBERG_COMMIT"];
/// Substrings of the variables that Kubernetes sets for each service.
const KUBERNETES_PARTS: [&str; 3] = ["SERVICE_HOST", "SERVICE_PORT", "PORT"];

/// Unknown variables.
#[derive(Default)]
pub(super) struct UnknownVariable {
    /// Misspelled names of settings.
    pub(super) errors: Vec<Problem>,
    /// All other unknown variables.
    pub(super) warnings: Vec<Problem>,
}

/// Checks the names of all variables that begin with [`PREFIX`].
pub(super) fn unknown<'a>(names: impl Iterator<Item = &'a str>) -> UnknownVariable {
    let mut found = UnknownVariable::default();
    for name in names.filter(|name| !is_known(name)) {
        let problem =
            Problem::new(SettingSource::Variable(name.to_owned()), "", "unknown variable");
        if let Some(meant) = meant(name) {
            let help = Some(format!("did you mean {meant}?"));
            found.errors.push(Problem { help, ..problem });
        } else {
            // Compare the names without the common prefix, which would make all names similar.
            let rest = |name: &'a str| name.strip_prefix(PREFIX).unwrap_or(name);
            let near = nearest(rest(name), client::VARIABLES.map(rest));
            let help = near.map(|known| format!("did you mean {PREFIX}{known}?"));
            found.warnings.push(Problem { help, ..problem });
        }
    }
    found
}

fn is_known(name: &str) -> bool {
    let beginning = name.get(..ENV_PREFIX.len());
    let is_setting = beginning.is_some_and(|it| it.eq_ignore_ascii_case(ENV_PREFIX));
    is_setting
        || client::VARIABLES.contains(&name)
        || BUILD_VARIABLES.contains(&name)
        || is_of_service(name)
}

/// Whether Kubernetes sets this variable for a service: `SLATEBERG_SERVICE_HOST`,
/// `SLATEBERG_PORT_8181_TCP_ADDR`.
fn is_of_service(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let rest = format!("_{rest}_");
    KUBERNETES_PARTS.iter().any(|part| rest.contains(&format!("_{part}_")))
}

/// Returns the correct name of a variable that equals a setting except for its underscores.
pub(super) fn meant(name: &str) -> Option<String> {
    let rest = name.get(PREFIX.len()..)?.to_lowercase();
    let bare = |text: &str| text.replace('_', "");
    let settings = serde_json::to_value(Settings::default()).ok()?;
    let (mut keys, mut path) = (Vec::new(), Vec::new());
    collect(&mut path, &settings, &mut keys);
    let named = |path: &[String], more: &str| {
        format!("{ENV_PREFIX}{}{more}", path.join(ENV_SEPARATOR)).to_uppercase()
    };
    let exact = keys.iter().find(|(path, _)| bare(&path.concat()) == bare(&rest));
    if let Some((path, _)) = exact {
        return Some(named(path, ""));
    }
    // Otherwise, the variable may name a key of a table with arbitrary keys, such as the options of
    // an object store.
    keys.iter().filter(|(_, is_open)| *is_open).find_map(|(path, _)| {
        let more = rest.strip_prefix(&path.join("_"))?.trim_start_matches('_');
        (!more.is_empty()).then(|| named(path, &format!("{ENV_SEPARATOR}{more}")))
    })
}

/// Collects the paths of all settings, and whether each is a table with arbitrary keys.
fn collect(path: &mut Vec<String>, value: &Value, found: &mut Vec<(Vec<String>, bool)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                path.push(name.clone());
                collect(path, value, found);
                path.pop();
            }
        }
        value => found.push((path.clone(), value.is_object())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_with_wrong_underscores_is_an_error() {
        for (name, meant) in [
            ("SLATEBERG_SERVER_LISTEN", "SLATEBERG__SERVER__LISTEN"),
            ("SLATEBERG_DATA_DIR", "SLATEBERG__DATA_DIR"),
            ("SLATEBERG_STORE__BLOCK_CACHE_BYTES", "SLATEBERG__STORE__BLOCK_CACHE_BYTES"),
            ("SLATEBERG_STATE_OPTIONS_AWS_REGION", "SLATEBERG__STATE__OPTIONS__AWS_REGION"),
        ] {
            let UnknownVariable { errors, warnings } = unknown([name].into_iter());
            assert_eq!((errors.len(), warnings.len()), (1, 0), "{name}");
            let expected = format!("did you mean {meant}?");
            assert_eq!(errors[0].help.as_deref(), Some(expected.as_str()), "{name}");
        }
    }

    #[test]
    fn any_other_unknown_variable_is_a_warning() {
        let UnknownVariable { errors, warnings } =
            unknown(["SLATEBERG_API_KEYS", "SLATEBERG_HOME"].into_iter());
        assert_eq!((errors.len(), warnings.len()), (0, 2));
        assert_eq!(warnings[0].help.as_deref(), Some("did you mean SLATEBERG_API_KEY?"));
        assert_eq!(warnings[1].help, None);
    }

    #[test]
    fn variables_of_subcommands_and_of_kubernetes_are_known() {
        let known = [
            "SLATEBERG_URL",
            "SLATEBERG_API_KEY",
            "SLATEBERG__SERVER__LISTN",
            "SLATEBERG_SERVICE_HOST",
            "SLATEBERG_SERVICE_PORT_HTTP",
            "SLATEBERG_PORT",
            "SLATEBERG_PORT_8181_TCP_ADDR",
            "SLATEBERG_METRICS_SERVICE_HOST",
            "SLATEBERG_METRICS_PORT_9181_TCP",
        ];
        let UnknownVariable { errors, warnings } = unknown(known.into_iter());
        assert_eq!((errors.len(), warnings.len()), (0, 0));
    }
}
