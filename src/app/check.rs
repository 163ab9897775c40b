//! Validates settings and the files that they name. Sends no request and writes nothing. `serve`,
//! `config check` and `doctor` run this first.

use std::path::Path;

use super::tls::Tls;
use super::tls::files::TlsError;
use slateberg_authn::issuers::Issuers;
use slateberg_base::setting::InvalidSetting;
use slateberg_config::Settings;
use slateberg_kms::local::LocalKms;
use slateberg_kms::settings::KmsKind;
use slateberg_runtime::build::check_object_cache;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::issuers::read_file;
use slateberg_runtime::locations;
use slateberg_runtime::policies;
use slateberg_runtime::seams::Seams;
use slateberg_runtime::state::State;
use slateberg_runtime::warehouses::{self, Configured};
use slateberg_telemetry::otlp;
use slateberg_telemetry::settings::AuditTo;

/// The outcome of a validation.
#[derive(Debug, Default)]
pub struct Findings {
    /// Invalid settings.
    pub problems: Vec<InvalidSetting>,
    /// Whether one of the settings is wrong in itself, and not only a file that it names. A retry
    /// cannot help then.
    pub is_of_settings: bool,
    /// The effective configuration, as label and value, for operators.
    pub summary: Vec<(&'static str, String)>,
}

impl Findings {
    /// Records an error about a setting, or returns the success.
    fn note<T>(&mut self, about: &str, checked: Result<T, BuildError>) -> Option<T> {
        let error = match checked {
            Ok(good) => return Some(good),
            Err(error) => error,
        };
        self.is_of_settings |= error.is_of_settings();
        match error {
            BuildError::Invalid(problems) => problems.into_iter().for_each(|it| self.add(it)),
            other => self.add(parsed(&other.to_string(), about)),
        }
        None
    }

    /// Records an error about a setting's file, or returns the success.
    fn note_file<T>(&mut self, about: &str, checked: Result<T, impl ToString>) -> Option<T> {
        match checked {
            Ok(good) => Some(good),
            Err(error) => {
                self.add(parsed(&error.to_string(), about));
                None
            }
        }
    }

    fn add(&mut self, problem: InvalidSetting) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn tell(&mut self, what: &'static str, how: impl Into<String>) {
        self.summary.push((what, how.into()));
    }
}

/// Splits an error into key and message. An error without a key of this section gets the key
/// `about`.
fn parsed(error: &str, about: &str) -> InvalidSetting {
    match error.split_once(": ") {
        Some((key, message)) if is_key_of(key, about) => InvalidSetting::new(key, message),
        _ => InvalidSetting::new(about, error),
    }
}

/// Whether a string can be the key of a setting in the same section as another.
fn is_key_of(text: &str, other: &str) -> bool {
    let section = |key: &str| key.split('.').next().map(str::to_owned);
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    section(text) == section(other) && text.chars().all(part)
}

/// Validates all settings.
pub fn check(settings: &Settings, seams: &Seams) -> Findings {
    let mut found = Findings { problems: settings.problems(), ..Findings::default() };
    found.is_of_settings = !found.problems.is_empty();
    memory(settings, &mut found);
    listeners(settings, &mut found);
    let has_state = state(settings, seams, &mut found);
    all_warehouses(settings, seams, has_state, &mut found);
    access(settings, &mut found);
    if settings.encryption.kms == KmsKind::Local && settings.encryption.problem().is_none() {
        let file = &settings.encryption.local_key_file;
        found.note("encryption.local_key_file", LocalKms::open(file).map_err(BuildError::from));
    }
    let kms = format!("{:?}", settings.encryption.kms).to_lowercase();
    found.tell("encryption", kms);
    audit(settings, &mut found);
    found.note("telemetry.otlp", otlp::check(&settings.telemetry.otlp).map_err(BuildError::from));
    found
}

fn memory(settings: &Settings, found: &mut Findings) {
    found.note("memory_bytes_max", settings.check_memory().map_err(BuildError::Setting));
    let shared = settings.clone().with_memory_shares();
    found.tell(
        "memory",
        format!("{} MiB for caches, bodies and jobs", shared.memory_bytes_max >> 20),
    );
    if let Some(warning) = settings.memory_warning() {
        found.tell("warning", warning);
    }
}

fn listeners(settings: &Settings, found: &mut Findings) {
    let server = &settings.server;
    for (name, file) in server.tls.files() {
        let read = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
        found.note_file(&format!("server.tls.{name}"), read);
    }
    let is_wrong = |it: &InvalidSetting| it.key.starts_with("server.tls");
    if !found.problems.iter().any(is_wrong) {
        match Tls::open(settings) {
            Err(TlsError::Settings(error)) => {
                found.note::<()>("server.tls", Err(BuildError::Setting(error)));
            }
            opened => {
                found.note_file("server.tls", opened);
            }
        }
    }
    let is_on = server.tls.is_on();
    let scheme = |plain: bool| if is_on && !plain { "https" } else { "http" };
    found.tell("listens", format!("{}://{}", scheme(false), server.listen));
    if let Some(address) = server.management.listen {
        found.tell("management", format!("{}://{address}", scheme(server.management.plain_http)));
    }
}

/// Validates the state's settings and returns whether the state can be opened.
fn state(settings: &Settings, seams: &Seams, found: &mut Findings) -> bool {
    let Some(state) = found.note("state.url", State::of(settings, seams)) else { return false };
    found.note("store.object_cache_dir", check_object_cache(settings, &state.place));
    if settings.state.url.is_empty() {
        found.note("data_dir", directory_or_none(&settings.data_dir));
    }
    let stores = warehouses::stores(settings, &seams.opener, &state.url, &None);
    if locations::reserved(settings, &state.url).is_ok() {
        found.note("catalog.local_warehouse_dirs", stores);
    }
    for problem in locations::problems(settings, &state.url) {
        let text = problem.to_string();
        let about = text.split_once(": ").map_or("state.url", |(key, _)| key);
        found.note::<()>(about, Err(problem));
    }
    found.tell("state", state.url.clone());
    if let Some(log) = &state.place.log {
        found.tell("log", log.url.clone());
    }
    true
}

fn all_warehouses(settings: &Settings, seams: &Seams, has_state: bool, found: &mut Findings) {
    for (name, warehouse) in &settings.warehouses {
        // A warehouse without a location uses the state's store, whose problem is already recorded.
        if warehouse.location.is_empty() && !has_state {
            continue;
        }
        let configured = Configured::new(settings, name, warehouse, None, &seams.opener);
        if let Some(configured) = found.note(&format!("warehouses.{name}"), configured) {
            found.tell("warehouse", format!("{name} at {}", configured.location));
        }
    }
}

fn access(settings: &Settings, found: &mut Findings) {
    let bootstrap_key = settings.authn.bootstrap_key().map_err(BuildError::Setting);
    found.note("authn.bootstrap_key", bootstrap_key);
    if let Ok(issuers) = Issuers::new(&settings.authn.issuers) {
        for issuer in issuers.all() {
            found.note("authn.issuers", read_file(issuer).map_err(BuildError::Setting));
        }
    }
    let issuers: Vec<_> = settings.authn.issuers.keys().map(String::as_str).collect();
    let how = match (settings.authn.insecure_no_auth, issuers.is_empty()) {
        (true, _) => "none: anyone who can reach the port has full access".to_owned(),
        (false, true) => "API keys".to_owned(),
        (false, false) => format!("API keys, tokens of {}", issuers.join(", ")),
    };
    found.tell("access", how);
    let read = policies::read(&settings.authz.policy_paths);
    let Some(files) = found.note_file("authz.policy_paths", read) else { return };
    match policies::build(&files, &[]) {
        Ok(set) => found.tell("policies", format!("{} in {} files", set.len(), files.len())),
        Err(problems) => problems.iter().for_each(|problem| {
            found.note_file::<()>("authz.policy_paths", Err(problem));
        }),
    }
}

fn audit(settings: &Settings, found: &mut Findings) {
    let file = &settings.audit.file;
    if settings.audit.to != AuditTo::File || file.as_os_str().is_empty() {
        return;
    }
    let above = file.parent().filter(|above| !above.as_os_str().is_empty());
    if file.is_dir() {
        found.note_file::<()>("audit.file", Err(format!("{}: is a directory", file.display())));
    } else if above.is_some_and(|above| !above.is_dir()) {
        let message = format!("{}: there is no such directory", file.display());
        found.note_file::<()>("audit.file", Err(message));
    }
}

/// Rejects anything but a directory. A missing one is created by a start.
fn directory_or_none(path: &Path) -> Result<(), BuildError> {
    match path.exists() && !path.is_dir() {
        true => Err(BuildError::Setting(format!("data_dir: {}: not a directory", path.display()))),
        false => Ok(()),
    }
}
