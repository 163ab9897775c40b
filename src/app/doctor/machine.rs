//! Checks of this machine: ports, directories, certificates and limits.

use std::fs::OpenOptions;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use crate::app::tls::Tls;
use slateberg_base::clock::Clock;
use slateberg_base::ids::PROBE_PREFIX;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::state::State;
use slateberg_runtime::warehouses::ConfiguredLocations;
use slateberg_telemetry::settings::AuditTo;

/// Timeout for the response of the program that has bound a port.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// If a certificate expires in less than this number of days, the check recommends its renewal.
const RENEWAL_DAYS: i64 = 14;
/// Limit of open files below which a busy server runs out of connections.
const OPEN_FILES_MIN: u64 = 4096;

/// Checks whether the ports can be bound.
pub(super) async fn ports(settings: &Settings) -> Vec<Check> {
    let server = &settings.server;
    let encrypted = server.tls.is_on();
    let clients = Some(("client port", server.listen, encrypted));
    let operators = server
        .management
        .listen
        .map(|address| ("operator port", address, encrypted && !server.management.plain_http));
    let mut checks = Vec::new();
    for (subject, address, encrypted) in clients.into_iter().chain(operators) {
        checks.push(port(subject, address, encrypted).await);
    }
    checks
}

async fn port(subject: &str, address: SocketAddr, encrypted: bool) -> Check {
    let error = match TcpListener::bind(address) {
        Ok(_) => return Check::ok(subject, format!("{address} is free")),
        Err(error) => error,
    };
    let message = format!("{address}: {error}");
    match error.kind() {
        io::ErrorKind::AddrInUse if is_slateberg(address, encrypted).await => {
            Check::ok(subject, format!("{address} is in use by a running slateberg"))
        }
        io::ErrorKind::AddrInUse => {
            let help = "another program listens there: stop it, or choose another port";
            Check::failed(subject, message, help)
        }
        io::ErrorKind::AddrNotAvailable => {
            Check::failed(subject, message, "this machine does not have that address")
        }
        io::ErrorKind::PermissionDenied => {
            let help = "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one";
            Check::failed(subject, message, help)
        }
        _ => Check::failed(subject, message, "choose another address"),
    }
}

/// Whether the program at an address responds like a slateberg server.
async fn is_slateberg(address: SocketAddr, encrypted: bool) -> bool {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let scheme = if encrypted { "https" } else { "http" };
    let url = format!("{scheme}://{}/ready", SocketAddr::new(ip, address.port()));
    // The certificate is not verified: it may name a host other than this address, and the request
    // contains no secret.
    let client = reqwest::Client::builder()
        .timeout(RESPONSE_TIMEOUT)
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .build();
    let Ok(client) = client else { return false };
    let Ok(response) = client.get(url).send().await else { return false };
    let body: Option<Value> = match response.bytes().await {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(_) => None,
    };
    body.is_some_and(|body| body["role"] == "writer")
}

/// Checks whether the directories are writable.
pub(super) fn directories(settings: &Settings, dependencies: &Dependencies) -> Vec<Check> {
    let mut entries: Vec<(String, PathBuf)> = Vec::new();
    if let Ok(state) = State::of(settings, dependencies) {
        let parts = state.parts().iter().filter_map(|(_, opened)| opened.directory.clone());
        entries.extend(parts.map(|directory| ("state".to_owned(), directory)));
    }
    for (name, warehouse) in &settings.warehouses {
        if let Ok(it) =
            ConfiguredLocations::new(settings, name, warehouse, None, &dependencies.opener)
        {
            let directories = it.opened.iter().filter_map(|(_, opened)| opened.directory.clone());
            entries.extend(directories.map(|it| (format!("warehouse {name}"), it)));
        }
    }
    if settings.store.has_object_cache() {
        entries.push(("object cache".to_owned(), settings.store.object_cache_dir.clone()));
    }
    if settings.audit.to == AuditTo::File {
        let parent = settings.audit.file.parent().map(Path::to_owned).unwrap_or_default();
        entries.push(("audit log".to_owned(), std::path::absolute(&parent).unwrap_or(parent)));
    }
    let id = dependencies.ids.random().simple().to_string();
    entries.into_iter().map(|(subject, path)| directory(subject, &path, &id)).collect()
}

/// Creates and deletes a file in a directory, or in its nearest existing ancestor.
fn directory(subject: String, path: &Path, id: &str) -> Check {
    let Some(existing) = path.ancestors().find(|path| path.exists()) else {
        let help = "name a directory that exists";
        return Check::failed(subject, format!("{}: does not exist", path.display()), help);
    };
    let file = existing.join(format!("{PROBE_PREFIX}{id}"));
    let result = OpenOptions::new().create_new(true).write(true).open(&file);
    match result.and_then(|_| std::fs::remove_file(&file)) {
        Ok(()) if existing == path => {
            Check::ok(subject, format!("{}: can be written", path.display()))
        }
        Ok(()) => Check::ok(subject, format!("{}: will be created", path.display())),
        Err(error) => Check::failed(
            subject,
            format!("{}: cannot write: {error}", existing.display()),
            "run doctor as the server's user; make that user the owner of the directory, and make sure that the \
             disk is neither full nor mounted read-only",
        ),
    }
}

/// Checks the validity of the server's certificate.
pub(super) fn certificates(settings: &Settings, clock: &dyn Clock) -> Option<Check> {
    let subject = "certificate";
    let tls = match Tls::open(settings) {
        Ok(tls) => tls?,
        Err(error) => {
            return Some(Check::failed(
                subject,
                error.to_string(),
                "correct the files of [server.tls]",
            ));
        }
    };
    let (now, validity) = (clock.now_ms() / 1000, tls.validity());
    let days = (validity.not_after - now) / (24 * 60 * 60);
    let help = "renew it; the server loads the new files without a restart";
    Some(match () {
        () if now > validity.not_after => Check::failed(subject, "has expired", help),
        () if now < validity.not_before => {
            let help = "check this machine's clock, or wait";
            Check::failed(subject, "is not valid yet", help)
        }
        () if days < RENEWAL_DAYS => {
            Check::warning(subject, format!("expires in {days} days"), help)
        }
        () => Check::ok(subject, format!("is valid for {days} days")),
    })
}

/// Checks the limit of open files. Linux only: reads `/proc/self/limits`.
pub(super) fn open_files() -> Option<Check> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    let (soft, hard) = (numbers.next()?, numbers.next()?);
    let message = format!("limit of open files: {soft}, can be raised to {hard}");
    Some(if hard < OPEN_FILES_MIN {
        Check::warning(
            "limits",
            message,
            "each connection is an open file: raise the limit (LimitNOFILE= of systemd, --ulimit nofile= of \
             containers)",
        )
    } else {
        Check::ok("limits", message)
    })
}
