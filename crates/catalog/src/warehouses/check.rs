//! Validation of created and changed warehouses, without access to object stores.

use std::collections::BTreeMap;

use super::change::NewWarehouse;
use crate::error::RuleViolation;
use crate::maintenance_settings::check_properties;
use crate::warehouses::Warehouses;
use crate::{Error, Operation, Result};
use slateberg_model::members::brief;
use slateberg_model::separator;
use slateberg_model::warehouse::StorageProfile;
use slateberg_objects::location::Location;
use slateberg_objects::reserved::Extent;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::WarehouseKey;
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::WarehouseRecord;

/// Maximum size of all settings of one warehouse together, in bytes.
const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// Client properties that control the connection to the catalog itself: its address, and the
/// credentials that clients send to it. A principal that manages one warehouse must not be able to
/// redirect the warehouse's clients, and their tokens, to another server.
const CONNECTION_KEYS: [&str; 10] = [
    "uri",
    "prefix",
    "warehouse",
    "credential",
    "token",
    "scope",
    "audience",
    "resource",
    "oauth2-server-uri",
    "s3.signer.uri",
];
/// Prefixes of further properties that control the connection to the catalog. Iceberg's Java client
/// opens a new connection to the catalog, with the configuration that the catalog returns. A proxy
/// in that configuration would receive the tokens.
const CONNECTION_KEY_PREFIXES: [&str; 4] = ["header.", "rest.auth.", "rest.client.", "s3.signer."];
/// Properties that a warehouse may set although they begin with one of these prefixes.
const HARMLESS: [&str; 4] = [
    "rest.client.connection-timeout-ms",
    "rest.client.socket-timeout-ms",
    "rest.client.max-connections",
    "rest.client.connections-per-route",
];
/// Parts of names that indicate secrets. Secrets are rejected, because the values are visible to
/// all callers that may see the warehouse.
const SECRETS: [&str; 8] = [
    "secret",
    "token",
    "password",
    "credential",
    "account-key",
    "access-key",
    "sas",
    "private-key",
];

impl Warehouses {
    /// Rejects invalid settings of a warehouse.
    pub(super) async fn check_definition(
        &self,
        operation: &Operation,
        name: &str,
        wanted: &NewWarehouse,
    ) -> Result<()> {
        check_size(wanted)?;
        let client = wanted.client_defaults.keys().chain(wanted.client_overrides.keys());
        client.into_iter().try_for_each(|key| check_client_key(key))?;
        for properties in [&wanted.client_defaults, &wanted.client_overrides] {
            if let Some(value) = properties.get(separator::PROPERTY) {
                separator::parse(value)?;
            }
        }
        check_properties(&wanted.maintenance).map_err(Error::Invalid)?;
        self.check_overlap(operation, name, &wanted.storage).await
    }

    /// Rejects the creation of a warehouse if the maximum number of warehouses exists already.
    pub(super) async fn check_count(&self) -> Result<()> {
        let max = self.core.settings().warehouses_max;
        match self.warehouse_records().await?.len() {
            count if count >= max => {
                Err(Error::Unprocessable(RuleViolation::TooMany { what: "warehouses", max }))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a location that overlaps with the location of another warehouse. Otherwise, readers
    /// of one warehouse could read files of the other. Warehouses that were removed from the
    /// configuration still occupy their locations.
    async fn check_overlap(
        &self,
        operation: &Operation,
        name: &str,
        storage: &StorageProfile,
    ) -> Result<()> {
        let served = self.core.warehouses();
        let mut others: Vec<(String, String)> = Vec::new();
        for entry in served.all() {
            others.extend(names_and_locations(&entry.warehouse.name, &entry.warehouse.storage));
        }
        for (key, record) in self.warehouse_records().await? {
            others.push((key.0, record.location));
        }
        others.retain(|(other, _)| other != name);
        for url in storage.locations() {
            let location = Location::parse(url)?;
            let extent = Extent::of(&location);
            let overlaps = |(_, other): &&(String, String)| {
                Location::parse(other).is_ok_and(|other| Extent::of(&other).overlaps(&extent))
            };
            if let Some((other, _)) = others.iter().find(overlaps) {
                let whose = if served.has(other) && self.sees_warehouse(operation, other) {
                    format!("the warehouse {other}")
                } else {
                    "another warehouse".to_owned()
                };
                return Err(Error::Invalid(format!(
                    "Cannot use location '{}': it overlaps with that of {whose}",
                    brief(&location)
                )));
            }
        }
        Ok(())
    }

    /// Returns the records of all warehouses, including those that were removed from the
    /// configuration.
    pub(super) async fn warehouse_records(&self) -> Result<Vec<(WarehouseKey, WarehouseRecord)>> {
        let range = KeyRange::all(KeySpace::WarehouseNames);
        Ok(self.core.store().latest().scan::<WarehouseKey>(&range, None).await?)
    }
}

fn names_and_locations(name: &str, storage: &StorageProfile) -> Vec<(String, String)> {
    storage.locations().map(|location| (name.to_owned(), location.clone())).collect()
}

fn check_size(wanted: &NewWarehouse) -> Result<()> {
    let NewWarehouse { storage, client_defaults, client_overrides, .. } = wanted;
    let of_map = |map: &BTreeMap<String, String>| -> usize {
        map.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let bytes = storage.location.len()
        + storage.allowed_locations.iter().map(String::len).sum::<usize>()
        + storage.credentials.as_ref().map_or(0, String::len)
        + [&storage.access.role_arn, &storage.access.external_id, &storage.access.sts_endpoint]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum::<usize>()
        + [&storage.options, client_defaults, client_overrides]
            .into_iter()
            .map(of_map)
            .sum::<usize>();
    if bytes <= SETTINGS_BYTES_MAX {
        Ok(())
    } else {
        Err(Error::Invalid(format!(
            "Invalid warehouse: {bytes} bytes, at most {SETTINGS_BYTES_MAX} are allowed"
        )))
    }
}

/// Rejects a property that a warehouse may not set for clients. The error does not contain the
/// value.
fn check_client_key(key: &str) -> Result<()> {
    let name = key.to_ascii_lowercase();
    let reject = |why: &str| {
        Err(Error::Invalid(format!("Invalid client configuration '{}': {why}", brief(key))))
    };
    let is_own = CONNECTION_KEY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !HARMLESS.contains(&name.as_str());
    if is_own || CONNECTION_KEYS.contains(&name.as_str()) {
        return reject(
            "a warehouse may not set the address of the catalog or the credentials of clients",
        );
    }
    if SECRETS.iter().any(|part| name.split(['.', '_']).any(|word| is_secret(word, part))) {
        return reject(
            "secrets are not accepted here: every client that may see the warehouse receives this value",
        );
    }
    Ok(())
}

/// Whether `word`, such as `secret-access-key`, is `part` or contains it between hyphens.
fn is_secret(word: &str, part: &str) -> bool {
    word == part
        || word.starts_with(&format!("{part}-"))
        || word.ends_with(&format!("-{part}"))
        || word.contains(&format!("-{part}-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_config_contains_no_secrets_and_no_endpoints() {
        for key in [
            "s3.region",
            "s3.endpoint",
            "rest-page-size",
            "client.region",
            "s3.sse.type",
            "rest.client.max-connections",
            "rest.client.socket-timeout-ms",
        ] {
            assert!(check_client_key(key).is_ok(), "{key}");
        }
        for key in [
            "uri",
            "token",
            "OAuth2-Server-Uri",
            "header.Authorization",
            "rest.auth.type",
            "rest.client.proxy.hostname",
            "rest.client.Proxy.Port",
            "rest.client.tls.configurer-impl",
            "rest.client.of-a-later-version",
            "s3.secret-access-key",
            "s3.access-key-id",
            "s3.session-token",
            "adls.account-key",
            "adls.sas-token.account",
            "gcs.oauth2.token",
            "adls.auth.shared-key.account.key.secret",
            "jdbc.password",
        ] {
            assert!(check_client_key(key).is_err(), "{key}");
        }
    }
}
