//! Validation of issuer settings.

use std::collections::BTreeMap;

use url::{Host, Url};

use super::algorithms::{ALGORITHMS, algorithm};
use super::client_certificates;
use super::settings::IssuerSettings;
use slateberg_base::setting::InvalidSetting;
use slateberg_base::similar::nearest;
use slateberg_model::principal::EMBEDDED_ID_PREFIX;

/// Returns all issuer settings that are invalid, alone or in combination.
pub fn problems(issuers: &BTreeMap<String, IssuerSettings>) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    for (name, settings) in issuers {
        found.extend(name_problem(name));
        found.extend(of_issuer(name, settings));
        let others = issuers.iter().take_while(|(other, _)| *other != name);
        let twin = others.into_iter().find(|(_, other)| other.issuer == settings.issuer);
        if let Some((other, _)) = twin.filter(|_| !settings.issuer.is_empty()) {
            let message = format!("authn.issuers.{other} has the same value");
            found.push(InvalidSetting::new(format!("authn.issuers.{name}.issuer"), message));
        }
    }
    found
}

fn name_problem(name: &str) -> Option<InvalidSetting> {
    let reason = match name {
        "" => "the name of an issuer is empty",
        _ if name.contains('/') => "the name of an issuer must not contain a slash",
        client_certificates::ID_PREFIX => "this name is reserved for client certificates",
        EMBEDDED_ID_PREFIX => "this name is reserved for programs that embed the catalog",
        _ => return None,
    };
    Some(InvalidSetting::new(format!("authn.issuers.{name}"), reason))
}

fn of_issuer(name: &str, settings: &IssuerSettings) -> Vec<InvalidSetting> {
    let at = |field: &str, message: &str| {
        InvalidSetting::new(format!("authn.issuers.{name}.{field}"), message)
    };
    let has_file = !settings.jwks_file.as_os_str().is_empty();
    let mut found = Vec::new();
    if settings.issuer.is_empty() {
        found.push(at("issuer", "is missing; it is the iss of the issuer's tokens"));
    }
    if settings.audiences.is_empty() {
        let message = "must name at least one value, otherwise tokens issued for other services would be \
                       accepted";
        found.push(at("audiences", message));
    }
    if has_file && !settings.jwks_url.is_empty() {
        found.push(at("jwks_url", "cannot be combined with jwks_file"));
    }
    if settings.algorithms.is_empty() {
        found.push(at("algorithms", "expected at least one"));
    }
    let names = ALGORITHMS.map(|(name, _)| name);
    for unknown in settings.algorithms.iter().filter(|it| algorithm(it).is_none()) {
        let problem = at("algorithms", &format!("unknown algorithm '{unknown}'"));
        found.push(problem.with_help(match nearest(unknown, names) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("expected one of {}", names.join(", ")),
        }));
    }
    // An issuer whose keys are configured explicitly may have any string as its `iss`.
    let is_discovered = !has_file && settings.jwks_url.is_empty();
    let issuer = if is_discovered { settings.issuer.as_str() } else { "" };
    let urls =
        [("issuer", issuer), ("jwks_url", &settings.jwks_url), ("token_url", &settings.token_url)];
    for (field, url) in urls {
        if let Some(reason) = url_problem(url) {
            found.push(at(field, reason));
        }
    }
    found
}

/// Returns the reason why a URL of an issuer is invalid. Unencrypted connections must not leave
/// this machine, because a host that impersonates the issuer could authenticate as anyone.
fn url_problem(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        return None;
    }
    let Ok(parsed) = Url::parse(url) else {
        return Some("expected a URL that begins with https://");
    };
    match (parsed.scheme(), parsed.host()) {
        ("https", Some(_)) => None,
        ("http", Some(host)) if is_loopback(&host) => None,
        ("http", _) => Some(
            "expected https://: without it, anyone on the network path could issue tokens for every user",
        ),
        _ => Some("expected a URL that begins with https://"),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(change: impl FnOnce(&mut IssuerSettings)) -> Vec<String> {
        let mut settings = IssuerSettings {
            issuer: "https://id.example.com".to_owned(),
            audiences: vec!["slateberg".to_owned()],
            ..IssuerSettings::default()
        };
        change(&mut settings);
        let found = problems(&BTreeMap::from([("corporate".to_owned(), settings)]));
        let prefix = "authn.issuers.corporate.";
        found.iter().map(|it| it.key.trim_start_matches(prefix).to_owned()).collect()
    }

    #[test]
    fn issuer_urls_are_https_except_on_loopback() {
        for url in ["https://id", "http://localhost:1", "http://127.0.0.1:1/a", "http://[::1]:1"] {
            assert_eq!(keys(|it| it.issuer = url.to_owned()), [""; 0], "{url}");
        }
        for url in ["http://id.example.com", "id.example.com", "ftp://id", "http://localhost.evil"]
        {
            assert_eq!(keys(|it| it.issuer = url.to_owned()), ["issuer"], "{url}");
            assert_eq!(keys(|it| it.jwks_url = url.to_owned()), ["jwks_url"], "{url}");
        }
        let any_text = |it: &mut IssuerSettings| {
            it.issuer = "accounts.example.com".to_owned();
            it.jwks_url = "https://id.example.com/keys".to_owned();
        };
        assert_eq!(keys(any_text), [""; 0]);
    }

    #[test]
    fn all_problems_of_an_issuer_are_reported() {
        let wrong = keys(|it| {
            it.audiences.clear();
            it.algorithms = vec!["HS256".to_owned()];
            it.jwks_url = "https://id.example.com/keys".to_owned();
            it.jwks_file = "keys.json".into();
        });
        assert_eq!(wrong, ["audiences", "jwks_url", "algorithms"]);
    }
}
