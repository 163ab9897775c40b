//! Checks the environment that a configuration needs: stores, KMS, issuers, ports, files and this
//! machine.
//!
//! All checks can run beside a running server: they take no lock, and write only probe files, which
//! they delete.

mod check;
mod machine;
mod remote;

pub use check::{Check, Severity};

use slateberg_config::Settings;

use slateberg_runtime::dependencies::Dependencies;

/// Runs all checks in sequence. Requires valid settings.
pub async fn examine(settings: &Settings, dependencies: &Dependencies) -> Vec<Check> {
    let mut checks = machine::ports(settings).await;
    checks.extend(machine::directories(settings, dependencies));
    checks.extend(machine::certificates(settings, dependencies.clock.as_ref()));
    checks.extend(machine::open_files());
    checks.extend(remote::state(settings, dependencies).await);
    checks.extend(remote::warehouses(settings, dependencies).await);
    checks.extend(remote::kms(settings, dependencies).await);
    checks.extend(remote::issuers(settings).await);
    checks
}
