//! What can be found out about settings without a start: no request is made, and nothing is written.

use std::path::Path;

use super::build::{
    BuildError, Seams, check_authn, check_default_warehouse, check_object_cache, read_issuers,
};
use super::policies;
use super::state::State;
use super::tls::Tls;
use super::warehouses::{self, Configured};
use crate::config::Settings;
use crate::kms::local::LocalKms;
use crate::kms::settings::KmsKind;
use crate::telemetry::logs;
use crate::telemetry::settings::AuditTo;

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is wrong.
    pub problems: Vec<Finding>,
    /// What a server by these settings would be, in the words of an operator.
    pub summary: Vec<(&'static str, String)>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The setting that it is about.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl Findings {
    /// Notes what is wrong, and returns what is not. Errors begin with the key that they are about.
    fn note<T>(&mut self, about: &str, checked: Result<T, impl ToString>) -> Option<T> {
        let error = match checked {
            Ok(good) => return Some(good),
            Err(error) => error.to_string(),
        };
        let (key, message) = match error.split_once(": ") {
            Some((key, message)) if is_key_of(key, about) => (key.to_owned(), message.to_owned()),
            _ => (about.to_owned(), error),
        };
        let finding = Finding { key, message };
        if !self.problems.contains(&finding) {
            self.problems.push(finding);
        }
        None
    }

    fn tell(&mut self, what: &'static str, how: impl Into<String>) {
        self.summary.push((what, how.into()));
    }
}

/// Whether a text can be the key of a setting in the same section as another.
fn is_key_of(text: &str, other: &str) -> bool {
    let section = |key: &str| key.split('.').next().map(str::to_owned);
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    section(text) == section(other) && text.chars().all(part)
}

/// Checks settings.
pub fn check(settings: &Settings, seams: &Seams) -> Findings {
    let mut found = Findings::default();
    found.note("log.level", logs::check(&settings.log));
    found.note("default_warehouse", check_default_warehouse(settings));
    memory(settings, &mut found);
    listeners(settings, &mut found);
    state(settings, seams, &mut found);
    all_warehouses(settings, seams, &mut found);
    access(settings, &mut found);
    found.note("encryption", settings.encryption.check());
    if settings.encryption.kms == KmsKind::Local {
        let file = &settings.encryption.local_key_file;
        found.note("encryption.local_key_file", LocalKms::open(file));
    }
    let kms = format!("{:?}", settings.encryption.kms).to_lowercase();
    found.tell("encryption", kms);
    audit(settings, &mut found);
    found
}

fn memory(settings: &Settings, found: &mut Findings) {
    found.note("memory_bytes_max", settings.check_memory());
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
    found.note("server", server.check());
    let tls = found.note("server.tls", Tls::open(settings)).flatten();
    let scheme = |plain: bool| if tls.is_some() && !plain { "https" } else { "http" };
    found.tell("listens", format!("{}://{}", scheme(false), server.listen));
    if let Some(address) = server.management.listen {
        found.tell("management", format!("{}://{address}", scheme(server.management.plain_http)));
    }
}

fn state(settings: &Settings, seams: &Seams, found: &mut Findings) {
    let Some(state) = found.note("state.url", State::of(settings, seams)) else { return };
    found.note("store.object_cache_dir", check_object_cache(settings, &state.place));
    if settings.state.url.is_empty() {
        found.note("data_dir", directory_or_none(&settings.data_dir));
    }
    found.note("catalog", settings.catalog.check());
    found.note(
        "catalog.local_warehouse_dirs",
        warehouses::stores(settings, &seams.opener, &state.url),
    );
    found.tell("state", state.url.clone());
    if let Some(log) = &state.place.log {
        found.tell("log", log.url.clone());
    }
}

fn all_warehouses(settings: &Settings, seams: &Seams, found: &mut Findings) {
    for (name, warehouse) in &settings.warehouses {
        let configured = Configured::new(settings, name, warehouse, None, &seams.opener);
        if let Some(configured) = found.note(&format!("warehouses.{name}"), configured) {
            found.tell("warehouse", format!("{name} at {}", configured.location));
        }
    }
}

fn access(settings: &Settings, found: &mut Findings) {
    found.note("authn", check_authn(settings));
    found.note("authn.bootstrap_key", settings.authn.bootstrap_key());
    found.note("authn.issuers", read_issuers(settings));
    let issuers: Vec<_> = settings.authn.issuers.keys().map(String::as_str).collect();
    let how = match (settings.authn.insecure_no_auth, issuers.is_empty()) {
        (true, _) => "everybody may do everything".to_owned(),
        (false, true) => "API keys".to_owned(),
        (false, false) => format!("API keys, tokens of {}", issuers.join(", ")),
    };
    found.tell("access", how);
    let read = policies::read(&settings.authz.policy_paths);
    let Some(files) = found.note("authz.policy_paths", read) else { return };
    match policies::build(&files, &[]) {
        Ok(set) => found.tell("policies", format!("{} in {} files", set.len(), files.len())),
        Err(problems) => problems.iter().for_each(|problem| {
            found.note::<()>("authz.policy_paths", Err(problem));
        }),
    }
}

fn audit(settings: &Settings, found: &mut Findings) {
    if settings.audit.to != AuditTo::File {
        return;
    }
    let file = &settings.audit.file;
    if file.as_os_str().is_empty() {
        found.note::<()>("audit.file", Err("expected a file, as audit.to is \"file\""));
        return;
    }
    let above = file.parent().filter(|above| !above.as_os_str().is_empty());
    if above.is_some_and(|above| !above.is_dir()) {
        let message = format!("{}: there is no such directory", file.display());
        found.note::<()>("audit.file", Err(message));
    }
}

/// Refuses what is something else than a directory: one that is not there is made.
fn directory_or_none(path: &Path) -> Result<(), BuildError> {
    match path.exists() && !path.is_dir() {
        true => Err(BuildError::Setting(format!("data_dir: {}: not a directory", path.display()))),
        false => Ok(()),
    }
}
