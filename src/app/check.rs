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
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::issuers::read_file;
use slateberg_runtime::locations;
use slateberg_runtime::policies::{self, FilePolicies};
use slateberg_runtime::state::State;
use slateberg_runtime::warehouses::{self, ConfiguredLocations};
use slateberg_telemetry::otlp;
use slateberg_telemetry::settings::AuditTo;

/// The outcome of a validation.
#[derive(Debug, Default)]
pub struct Findings {
    /// Invalid settings.
    pub problems: Vec<InvalidSetting>,
    /// Whether a setting itself is wrong, and not only the file that it names. If so, a retry
    /// cannot help.
    pub is_of_settings: bool,
    /// The effective configuration for operators, as labels and values.
    pub summary: Vec<(&'static str, String)>,
    /// The policies of the configured files. The start that follows the validation uses them.
    pub policies: Option<FilePolicies>,
}

impl Findings {
    /// Returns the value of `Ok`. Records an `Err` as a problem of this setting, and returns
    /// `None`.
    fn record<T>(&mut self, setting: &str, result: Result<T, BuildError>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        self.is_of_settings |= error.is_of_settings();
        match error {
            BuildError::Invalid(problems) => problems.into_iter().for_each(|it| self.add(it)),
            other => self.add(parse_error(&other.to_string(), setting)),
        }
        None
    }

    /// Returns the value of `Ok`. Records an `Err` as a problem of the file of this setting, and
    /// returns `None`.
    fn record_file<T>(&mut self, setting: &str, result: Result<T, impl ToString>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(parse_error(&error.to_string(), setting));
                None
            }
        }
    }

    fn add(&mut self, problem: InvalidSetting) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn summarize(&mut self, label: &'static str, value: impl Into<String>) {
        self.summary.push((label, value.into()));
    }
}

/// Splits an error into key and message. If the error does not begin with a key in the section of
/// `setting`, uses `setting` as the key.
fn parse_error(error: &str, setting: &str) -> InvalidSetting {
    match error.split_once(": ") {
        Some((key, message)) if is_key_in_section_of(key, setting) => {
            InvalidSetting::new(key, message)
        }
        _ => InvalidSetting::new(setting, error),
    }
}

/// Whether a string can be the key of a setting in the same section as `other`.
fn is_key_in_section_of(text: &str, other: &str) -> bool {
    let section = |key: &str| key.split('.').next().map(str::to_owned);
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    section(text) == section(other) && text.chars().all(part)
}

/// Validates all settings.
pub fn check(settings: &Settings, dependencies: &Dependencies) -> Findings {
    let mut findings = Findings { problems: settings.problems(), ..Findings::default() };
    findings.is_of_settings = !findings.problems.is_empty();
    memory(settings, &mut findings);
    listeners(settings, &mut findings);
    let has_state = state(settings, dependencies, &mut findings);
    all_warehouses(settings, dependencies, has_state, &mut findings);
    access(settings, &mut findings);
    if settings.encryption.kms == KmsKind::Local && settings.encryption.problem().is_none() {
        let file = &settings.encryption.local_key_file;
        findings
            .record("encryption.local_key_file", LocalKms::open(file).map_err(BuildError::from));
    }
    findings.summarize("encryption", settings.encryption.kms.name());
    audit(settings, &mut findings);
    findings
        .record("telemetry.otlp", otlp::check(&settings.telemetry.otlp).map_err(BuildError::from));
    findings
}

fn memory(settings: &Settings, findings: &mut Findings) {
    findings.record("memory_bytes_max", settings.check_memory().map_err(BuildError::Setting));
    let shared = settings.clone().with_memory_shares();
    findings.summarize(
        "memory",
        format!("{} MiB for caches, bodies and jobs", shared.memory_bytes_max >> 20),
    );
    if let Some(warning) = settings.memory_warning() {
        findings.summarize("warning", warning);
    }
}

fn listeners(settings: &Settings, findings: &mut Findings) {
    let server = &settings.server;
    for (name, file) in server.tls.files() {
        let read = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
        findings.record_file(&format!("server.tls.{name}"), read);
    }
    let is_wrong = |it: &InvalidSetting| it.key.starts_with("server.tls");
    if !findings.problems.iter().any(is_wrong) {
        match Tls::open(settings) {
            Err(TlsError::Settings(error)) => {
                findings.record::<()>("server.tls", Err(BuildError::Setting(error)));
            }
            opened => {
                findings.record_file("server.tls", opened);
            }
        }
    }
    let is_on = server.tls.is_on();
    let scheme = |plain: bool| if is_on && !plain { "https" } else { "http" };
    findings.summarize("listens", format!("{}://{}", scheme(false), server.listen));
    if let Some(address) = server.management.listen {
        findings.summarize(
            "management",
            format!("{}://{address}", scheme(server.management.plain_http)),
        );
    }
}

/// Validates the state's settings and returns whether the state can be opened.
fn state(settings: &Settings, dependencies: &Dependencies, findings: &mut Findings) -> bool {
    let Some(state) = findings.record("state.url", State::of(settings, dependencies)) else {
        return false;
    };
    findings.record("store.object_cache_dir", check_object_cache(settings, &state.location));
    if settings.state.url.is_empty() {
        findings.record("data_dir", check_directory(&settings.data_dir));
    }
    let stores = warehouses::stores(settings, &dependencies.opener, &state.url, &None);
    if locations::reserved(settings, &state.url).is_ok() {
        findings.record("catalog.local_warehouse_dirs", stores);
    }
    for problem in locations::problems(settings, &state.url) {
        let text = problem.to_string();
        let setting = text.split_once(": ").map_or("state.url", |(key, _)| key);
        findings.record::<()>(setting, Err(problem));
    }
    findings.summarize("state", state.url.clone());
    if let Some(log) = &state.location.log {
        findings.summarize("log", log.url.clone());
    }
    true
}

fn all_warehouses(
    settings: &Settings,
    dependencies: &Dependencies,
    has_state: bool,
    findings: &mut Findings,
) {
    for (name, warehouse) in &settings.warehouses {
        // A warehouse without a location uses the state's store, whose problem is already recorded.
        if warehouse.location.is_empty() && !has_state {
            continue;
        }
        let configured =
            ConfiguredLocations::new(settings, name, warehouse, None, &dependencies.opener);
        if let Some(configured) = findings.record(&format!("warehouses.{name}"), configured) {
            findings.summarize("warehouse", format!("{name} at {}", configured.location));
        }
    }
}

fn access(settings: &Settings, findings: &mut Findings) {
    let bootstrap_key = settings.authn.bootstrap_key().map_err(BuildError::Setting);
    findings.record("authn.bootstrap_key", bootstrap_key);
    if let Ok(issuers) = Issuers::new(&settings.authn.issuers) {
        for issuer in issuers.all() {
            findings.record("authn.issuers", read_file(issuer).map_err(BuildError::Setting));
        }
    }
    let issuers: Vec<_> = settings.authn.issuers.keys().map(String::as_str).collect();
    let value = match (settings.authn.insecure_no_auth, issuers.is_empty()) {
        (true, _) => "none: anyone who can reach the port has full access".to_owned(),
        (false, true) => "API keys".to_owned(),
        (false, false) => format!("API keys, tokens of {}", issuers.join(", ")),
    };
    findings.summarize("access", value);
    match FilePolicies::load(&settings.authz) {
        Ok(policies) => {
            let text = format!("{} in {} files", policies.set.len(), policies.files.len());
            findings.summarize("policies", text);
            findings.policies = Some(policies);
        }
        Err(policies::Error::Invalid(problems)) => problems.iter().for_each(|problem| {
            findings.record_file::<()>("authz.policy_paths", Err(problem));
        }),
        Err(error) => {
            findings.record_file::<()>("authz.policy_paths", Err(error));
        }
    }
}

fn audit(settings: &Settings, findings: &mut Findings) {
    let file = &settings.audit.file;
    if settings.audit.to != AuditTo::File || file.as_os_str().is_empty() {
        return;
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    if file.is_dir() {
        findings
            .record_file::<()>("audit.file", Err(format!("{}: is a directory", file.display())));
    } else if parent.is_some_and(|parent| !parent.is_dir()) {
        let message = format!("{}: there is no such directory", file.display());
        findings.record_file::<()>("audit.file", Err(message));
    }
}

/// Rejects a path that is not a directory. If nothing exists there, a start creates the directory.
fn check_directory(path: &Path) -> Result<(), BuildError> {
    match path.exists() && !path.is_dir() {
        true => Err(BuildError::Setting(format!("data_dir: {}: not a directory", path.display()))),
        false => Ok(()),
    }
}
