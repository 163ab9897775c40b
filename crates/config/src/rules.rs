//! Validation of settings: rejects contradictions and values that are probably mistakes. Accesses
//! no files and no network.

use std::net::SocketAddr;

use super::settings::Settings;
use super::{bounds, cluster};
use slateberg_authn::issuer_rules;
use slateberg_base::setting::InvalidSetting;
use slateberg_base::similar::nearest;
use slateberg_catalog::check_maintenance_properties;
use slateberg_catalog::webhooks::target::TargetRules;
use slateberg_model::separator;
use slateberg_telemetry::logs;
use slateberg_telemetry::settings::AuditTo;

impl Settings {
    /// Returns all settings that are invalid, alone or in combination.
    pub fn problems(&self) -> Vec<InvalidSetting> {
        let mut found = bounds::problems(self);
        for problem in self.contradictions() {
            // Report one problem per setting: a number that is out of bounds usually causes a
            // contradiction, too.
            if found.iter().all(|known| known.key != problem.key) {
                found.push(problem);
            }
        }
        found
    }

    /// Returns all problems except numbers that are out of bounds. Tests and programs that embed
    /// the catalog may set extreme values.
    pub fn contradictions(&self) -> Vec<InvalidSetting> {
        let single = [
            logs::check(&self.log).err(),
            self.default_warehouse_problem(),
            self.address_problem(),
            self.port_problem(),
            self.authn.problem(),
            self.catalog.problem(),
            TargetRules::new(&self.webhooks).err(),
            self.encryption.problem(),
            self.audit_problem(),
            self.body_problem(),
            self.flush_problem(),
        ];
        let mut found: Vec<_> = single.into_iter().flatten().collect();
        found.extend(self.server.problems());
        found.extend(cluster::problems(&self.cluster, &self.state.url));
        found.extend(issuer_rules::problems(&self.authn.issuers));
        found.extend(self.separator_problems());
        found.extend(self.warehouse_maintenance_problems());
        found
    }

    fn warehouse_maintenance_problems(&self) -> Vec<InvalidSetting> {
        let checked = self.warehouses.iter().filter_map(|(name, warehouse)| {
            let problem = check_maintenance_properties(&warehouse.maintenance).err()?;
            Some(InvalidSetting::new(format!("warehouses.{name}.maintenance"), problem))
        });
        checked.collect()
    }

    fn separator_problems(&self) -> Vec<InvalidSetting> {
        let mut found = Vec::new();
        for (name, warehouse) in &self.warehouses {
            let tables = [
                ("client_defaults", &warehouse.client_defaults),
                ("client_overrides", &warehouse.client_overrides),
            ];
            for (table, properties) in tables {
                let value = properties.get(separator::PROPERTY);
                if let Some(Err(refusal)) = value.map(|value| separator::parse(value)) {
                    let key = format!("warehouses.{name}.{table}.{}", separator::PROPERTY);
                    found.push(InvalidSetting::new(key, refusal.to_string()));
                }
            }
        }
        found
    }

    fn default_warehouse_problem(&self) -> Option<InvalidSetting> {
        let name = &self.default_warehouse;
        (!self.warehouses.contains_key(name)).then(|| {
            let message = format!("there is no warehouse '{name}'");
            let known: Vec<_> = self.warehouses.keys().map(String::as_str).collect();
            let help = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None if known.is_empty() => format!("add [warehouses.{name}]"),
                None => format!("add [warehouses.{name}], or name one of {}", known.join(", ")),
            };
            InvalidSetting::new("default_warehouse", message).with_help(help)
        })
    }

    /// Rejects a server without authentication on an address that other machines can reach, unless
    /// `insecure_no_auth_on_public_address` is set.
    fn address_problem(&self) -> Option<InvalidSetting> {
        let addresses = [Some(self.server.listen), self.server.management.listen];
        let is_public = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
        let address = addresses.into_iter().flatten().find(is_public)?;
        let authn = &self.authn;
        (authn.insecure_no_auth && !authn.insecure_no_auth_on_public_address).then(|| {
            InvalidSetting::new(
                "authn.insecure_no_auth",
                format!(
                    "without authentication, anyone who can reach {address} could read and drop \
                     every table: leave out --insecure-no-auth, listen on 127.0.0.1, or, if the \
                     network in front of it admits only trusted clients, add \
                     --insecure-no-auth-on-public-address"
                ),
            )
        })
    }

    fn port_problem(&self) -> Option<InvalidSetting> {
        let (clients, operators) = (self.server.listen, self.server.management.listen?);
        let any = |address: &SocketAddr| address.ip().is_unspecified();
        let same_ip = clients.ip().to_canonical() == operators.ip().to_canonical();
        let overlaps = same_ip || any(&clients) || any(&operators);
        (clients.port() != 0 && clients.port() == operators.port() && overlaps).then(|| {
            let port = clients.port();
            let message =
                format!("port {port} is also the port for clients (server.listen is {clients})");
            InvalidSetting::new("server.management.listen", message).with_help(
                "choose another port, such as 9181, or remove this setting to use one port for all",
            )
        })
    }

    fn audit_problem(&self) -> Option<InvalidSetting> {
        (self.audit.to == AuditTo::File && self.audit.file.as_os_str().is_empty()).then(|| {
            InvalidSetting::new(
                "audit.file",
                "is missing; it is required because audit.to is \"file\"",
            )
        })
    }

    fn body_problem(&self) -> Option<InvalidSetting> {
        let (one, all) = (self.server.body_bytes_max, self.server.bodies_bytes_max);
        (0 < all && all < one).then(|| {
            let message =
                format!("{all} bytes for all bodies are less than {one} bytes for one body");
            InvalidSetting::new("server.bodies_bytes_max", message)
                .with_help("raise it, or lower server.body_bytes_max")
        })
    }

    fn flush_problem(&self) -> Option<InvalidSetting> {
        let (one, all) = (self.store.l0_sst_bytes, self.store.unflushed_bytes_max);
        (0 < all && all < one).then(|| {
            let message =
                format!("writers would wait at {all} bytes, before a file of {one} bytes is full");
            InvalidSetting::new("store.unflushed_bytes_max", message)
                .with_help("raise it, or lower store.l0_sst_bytes")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.problems().into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn the_defaults_contradict_nothing() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn equal_ports_are_rejected() {
        let with = |clients: &str, operators: &str| {
            found(|settings| {
                settings.server.listen = clients.parse().expect("an address");
                settings.server.management.listen = Some(operators.parse().expect("an address"));
            })
        };
        let refused = ["server.management.listen"];
        assert_eq!(with("127.0.0.1:8181", "127.0.0.1:8181"), refused);
        assert_eq!(with("0.0.0.0:8181", "127.0.0.1:8181"), refused);
        assert_eq!(with("127.0.0.1:8181", "[::]:8181"), refused);
        assert_eq!(with("127.0.0.1:8181", "127.0.0.2:8181"), Vec::<String>::new());
        assert_eq!(with("127.0.0.1:0", "127.0.0.1:0"), Vec::<String>::new());
        assert_eq!(with("127.0.0.1:8181", "127.0.0.1:9181"), Vec::<String>::new());
    }

    #[test]
    fn contradictory_bounds_are_rejected() {
        let keys = found(|settings| {
            settings.server.bodies_bytes_max = 1;
            settings.store.unflushed_bytes_max = 1;
            settings.catalog.orphan_age_seconds = 1;
        });
        let expected =
            ["catalog.orphan_age_seconds", "server.bodies_bytes_max", "store.unflushed_bytes_max"];
        assert_eq!(keys, expected);
    }
}
