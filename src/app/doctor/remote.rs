//! Checks over the network: stores, KMS and token issuers.

use std::time::Duration;

use super::check::Check;
use slateberg_authn::issuers::Issuers;
use slateberg_base::error_chain::chain;
use slateberg_config::Settings;
use slateberg_kms::data_key::DataKey;
use slateberg_kms::{self as kms, Binding};
use slateberg_objects::location::Location;
use slateberg_objects::open::Opened;
use slateberg_objects::probe::{Findings, ProbeError, probe, probe_state};
use slateberg_objects::vend::files::{Files, Privileges};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::issuers::{client, fetch};
use slateberg_runtime::state::State;
use slateberg_runtime::warehouses::ConfiguredLocations;

/// Timeout for all requests of one store check.
const STORE_TIMEOUT: Duration = Duration::from_secs(15);
/// Minimum difference between the clocks that causes a warning, in milliseconds.
const SKEW_WARNED_MS: u64 = 10_000;
/// Duration of a put above which the check warns, because each commit waits for a put.
const PUT_WARNED: Duration = Duration::from_millis(500);

/// Checks the stores of the state and of its log, and their clocks.
pub(super) async fn state(settings: &Settings, dependencies: &Dependencies) -> Vec<Check> {
    let state = match State::of(settings, dependencies) {
        Ok(state) => state,
        Err(error) => {
            return vec![Check::failed("state", error.to_string(), "correct the settings")];
        }
    };
    let mut checks = Vec::new();
    for (number, (url, opened)) in state.parts().iter().enumerate() {
        let subject = if number == 0 { "state" } else { "log" };
        // Directories are checked by `machine::directories`.
        if opened.directory.is_some() {
            continue;
        }
        let clock = dependencies.clock.as_ref();
        match probe_state(opened, dependencies.ids.random(), clock, STORE_TIMEOUT).await {
            Ok(found) => checks.extend(store_checks(subject, url, &found)),
            Err(error) => checks.push(probe_failure(subject, url, &error)),
        }
    }
    checks
}

fn store_checks(subject: &str, url: &str, found: &Findings) -> [Check; 2] {
    let put_ms = found.put.as_millis();
    let message = format!("{url}: conditional writes work, {put_ms} ms per write");
    let store = if found.put > PUT_WARNED {
        let help = "each commit waits for a write: move the server closer to the bucket";
        Check::warning(subject, message, help)
    } else {
        Check::ok(subject, message)
    };
    let ahead_ms = found.clock_ahead_ms;
    let message = format!("the clock of {url} differs by {:.1} s", ahead_ms as f64 / 1e3);
    let subject = format!("clock of {subject}");
    let clock = if ahead_ms.unsigned_abs() >= SKEW_WARNED_MS {
        let help =
            "synchronize this machine's clock (NTP): at 15 minutes, S3 rejects every request";
        Check::warning(subject, message, help)
    } else {
        Check::ok(subject, message)
    };
    [store, clock]
}

fn probe_failure(subject: &str, url: &str, error: &ProbeError) -> Check {
    let help = if error.is_transient {
        "check the endpoint, the region, the credentials and the network"
    } else {
        "check the bucket's name, the credentials, and their permissions to read, write, list and delete; a \
             store without conditional writes cannot hold a state"
    };
    Check::failed(subject, format!("{url}: {error}"), help)
}

/// Checks all locations of all configured warehouses, and whether credentials for their files can
/// be issued.
pub(super) async fn warehouses(settings: &Settings, dependencies: &Dependencies) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, warehouse) in &settings.warehouses {
        let subject = format!("warehouse {name}");
        let configured =
            match ConfiguredLocations::new(settings, name, warehouse, None, &dependencies.opener) {
                Ok(configured) => configured,
                Err(error) => {
                    checks.push(Check::failed(subject, error.to_string(), "correct the settings"));
                    continue;
                }
            };
        for (url, opened) in &configured.opened {
            if opened.directory.is_none() {
                checks.push(location(&subject, url, opened, dependencies).await);
            }
        }
        checks.extend(vending(&subject, &configured, dependencies).await);
    }
    checks
}

async fn location(subject: &str, url: &str, opened: &Opened, dependencies: &Dependencies) -> Check {
    match probe(opened, dependencies.ids.random(), STORE_TIMEOUT).await {
        Ok(()) => {
            Check::ok(subject, format!("{url}: files can be written, read, listed and deleted"))
        }
        Err(error) => probe_failure(subject, url, &error),
    }
}

/// Requests credentials for the location of a table that does not exist.
async fn vending(
    subject: &str,
    configured: &ConfiguredLocations,
    dependencies: &Dependencies,
) -> Option<Check> {
    let root = configured.roots().first()?;
    let vendor = root.vendor.as_ref().filter(|vendor| vendor.vends())?;
    let id = dependencies.ids.random();
    let probe_url = format!("{}/.slateberg-probe-{}", root.location, id.simple());
    let files = Files {
        table: id,
        locations: vec![Location::parse(&probe_url).ok()?],
        privileges: Privileges { read: true, write: true, delete: true },
    };
    Some(match vendor.vend(&files, dependencies.clock.now_ms()).await {
        Ok(_) => Check::ok(subject, "credentials for single tables can be issued"),
        Err(error) => Check::failed(
            subject,
            format!("cannot issue credentials for single tables: {error}"),
            "check access.role_arn, its trust policy and access.sts_endpoint (docs/vending.md)",
        ),
    })
}

/// Wraps a data key with the wrapping key and unwraps it.
pub(super) async fn kms(settings: &Settings, dependencies: &Dependencies) -> Option<Check> {
    let help = "check the key, its region and the permissions to encrypt and decrypt with it \
                (docs/encryption.md)";
    let kms = match kms::open(&settings.encryption).await {
        Ok(kms) => kms?,
        Err(error) => return Some(Check::failed("encryption", error.to_string(), help)),
    };
    let binding = Binding { catalog: dependencies.ids.random(), data_key: 0 };
    let result = async {
        let wrapped = kms.wrap(&DataKey::random(), &binding, None).await?;
        kms.unwrap(&wrapped, &binding).await.map(|_| wrapped.wrapping_key)
    };
    Some(match result.await {
        Ok(key) => Check::ok("encryption", format!("key {key} wraps and unwraps data keys")),
        Err(error) => Check::failed("encryption", error.to_string(), help),
    })
}

/// Fetches the keys of all issuers.
pub(super) async fn issuers(settings: &Settings) -> Vec<Check> {
    let Ok(issuers) = Issuers::new(&settings.authn.issuers) else { return Vec::new() };
    let mut checks = Vec::new();
    let mut http = None;
    for issuer in issuers.all() {
        let subject = format!("issuer {}", issuer.name);
        if !issuer.is_fetched() {
            let file = issuer.settings.jwks_file.display();
            checks.push(Check::ok(subject, format!("{file}: keys were read")));
            continue;
        }
        if http.is_none() {
            http = client().ok();
        }
        let Some(http) = &http else {
            let message = "cannot create an HTTP client";
            checks.push(Check::failed(subject, message, "check the system's certificates"));
            continue;
        };
        checks.push(match fetch(issuer, http).await {
            Ok(_) => Check::ok(subject, "its keys were fetched".to_owned()),
            Err(error) => Check::failed(
                subject,
                chain(&error),
                "open the issuer's URL in a browser; check DNS, proxies, and whether this machine trusts the issuer's certificate",
            ),
        });
    }
    checks
}
