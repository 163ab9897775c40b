//! Checks the directives of `log.level`, such as `warn,slateberg=debug`.
//!
//! The filter would treat an unknown word as the name of a crate, and log only this crate. So a
//! misspelled level would disable all output. Therefore only the names of crates that log are
//! accepted.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use slateberg_base::setting::InvalidSetting;
use slateberg_base::similar::nearest;

const KEY: &str = "log.level";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Crates in this program that log, or that could log with other features. A test compares the list
/// with `Cargo.lock`.
const CRATES: [&str; 65] = [
    "apache_avro",
    "async_nats",
    "aws_config",
    "aws_credential_types",
    "aws_runtime",
    "aws_sdk_kms",
    "aws_sdk_sts",
    "aws_sigv4",
    "aws_smithy_async",
    "aws_smithy_http",
    "aws_smithy_http_client",
    "aws_smithy_observability",
    "aws_smithy_runtime",
    "aws_smithy_runtime_api",
    "aws_smithy_types",
    "aws_types",
    "axum",
    "cedar_policy",
    "console_subscriber",
    "ena",
    "fail_parallel",
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_util",
    "iana_time_zone",
    "iceberg",
    "jiff",
    "jiff_core",
    "jni",
    "mio",
    "moka",
    "nkeys",
    "object_store",
    "quinn",
    "quinn_proto",
    "quinn_udp",
    "reqwest",
    "rskafka",
    "rustls",
    "rustls_platform_verifier",
    "slateberg",
    "slateberg_authn",
    "slateberg_catalog",
    "slateberg_embedded",
    "slateberg_kms",
    "slateberg_objects",
    "slateberg_runtime",
    "slateberg_store",
    "slateberg_telemetry",
    "slateberg_wal",
    "slatedb",
    "slatedb_common",
    "slatedb_mirror",
    "slatedb_txn_obj",
    "thread_priority",
    "tokio",
    "tokio_rustls",
    "tonic",
    "tower",
    "tower_http",
    "tracing",
    "tracing_log",
    "tracing_opentelemetry",
    "tracing_subscriber",
];

/// Returns the filter that these directives describe. Rejects unknown levels and crates that log
/// nothing.
pub(super) fn parse(directives: &str) -> Result<EnvFilter, InvalidSetting> {
    let parts: Vec<_> = directives.split(',').map(str::trim).collect();
    for part in &parts {
        check(part)?;
    }
    EnvFilter::try_new(parts.join(",")).map_err(|error| InvalidSetting::new(KEY, error.to_string()))
}

fn check(directive: &str) -> Result<(), InvalidSetting> {
    let (target, level) = match directive.rsplit_once('=') {
        // The equals sign in `crate[span{field=value}]` does not precede a level.
        Some((target, level)) if !level.contains(']') => (target, Some(level)),
        _ => (directive, None),
    };
    let module = target.split('[').next().unwrap_or_default();
    let name = module.split("::").next().unwrap_or_default();
    match level {
        Some(level) if !is_level(level) => return Err(unknown_level(level, directive)),
        None if is_level(target) => return Ok(()),
        _ => {}
    }
    match is_crate(name) || (name.is_empty() && target.starts_with('[')) {
        true => Ok(()),
        false if level.is_none() => Err(unknown_level(target, directive)),
        false => Err(unknown_crate(name)),
    }
}

fn is_level(level_name: &str) -> bool {
    !level_name.is_empty() && LevelFilter::from_str(level_name).is_ok()
}

/// Whether this is the name of a crate that logs, or the common prefix of several such names: `aws`
/// for `aws_config` and others.
fn is_crate(name: &str) -> bool {
    let is_family = |known: &str| known.strip_prefix(name).is_some_and(|it| it.starts_with('_'));
    !name.is_empty() && CRATES.iter().any(|known| *known == name || is_family(known))
}

fn unknown_level(level_name: &str, directive: &str) -> InvalidSetting {
    if directive.is_empty() {
        let message = "expected a level or a directive such as slateberg=debug, got nothing";
        return InvalidSetting::new(KEY, message).with_help(levels());
    }
    let message = format!("unknown level '{level_name}'");
    let module = level_name.split(['[', ':']).next().unwrap_or_default();
    let known = LEVELS.into_iter().chain(CRATES);
    InvalidSetting::new(KEY, message).with_help(match nearest(module, known) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => levels(),
    })
}

fn unknown_crate(name: &str) -> InvalidSetting {
    let message = format!("no crate '{name}' logs in this program");
    InvalidSetting::new(KEY, message).with_help(match nearest(name, CRATES) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => {
            "expected slateberg, or a library such as slatedb, object_store, hyper, h2, rustls, \
                 reqwest or aws_config"
                .to_owned()
        }
    })
}

fn levels() -> String {
    format!("expected one of {}", LEVELS.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(directives: &str) -> String {
        parse(directives).map(|_| directives.to_owned()).expect_err("refused").to_string()
    }

    #[test]
    fn unknown_level_is_rejected_with_a_suggestion() {
        let meant = |level_name: &str, level: &str| {
            format!("log.level: unknown level '{level_name}' (did you mean '{level}'?)")
        };
        assert_eq!(rejection("warning"), meant("warning", "warn"));
        assert_eq!(rejection("trac"), meant("trac", "trace"));
        assert_eq!(rejection("info,slateberg=debgu"), meant("debgu", "debug"));
        assert_eq!(rejection("info,slatebreg"), meant("slatebreg", "slateberg"));
        let all = "(expected one of off, error, warn, info, debug, trace)";
        assert_eq!(rejection("verbose"), format!("log.level: unknown level 'verbose' {all}"));
        for nothing in ["", "info,", "=", "info,=debug"] {
            rejection(nothing);
        }
    }

    #[test]
    fn unknown_crate_is_rejected_with_a_suggestion() {
        let message =
            "log.level: no crate 'slatedbb' logs in this program (did you mean 'slatedb'?)";
        assert_eq!(rejection("slatedbb=info"), message);
        assert!(rejection("mine::module=info").contains("expected slateberg"), "mine");
    }

    #[test]
    fn levels_crates_modules_and_spans_are_accepted() {
        for good in [
            "info",
            "WARN",
            "off",
            "3",
            "warn,slateberg=info",
            "warn, slateberg=debug",
            "warn,slateberg::store::journal=trace",
            "info,slatedb",
            "info,aws=debug",
            "info,h2=off,hyper=warn",
            "info,slateberg[request{method=GET}]=debug",
            "info,[request]=debug",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    /// Crates of the lock file that log, and that the program does not contain.
    const ONLY_IN_TESTS: [&str; 2] = ["stateright", "tiny_http"];

    #[test]
    fn crate_list_matches_the_logging_crates_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let packages = lock.split("[[package]]\n").skip(1);
        let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().replace('-', "_");
        let mut names = Vec::new();
        for package in packages {
            let name = quoted(package.lines().next().unwrap_or_default());
            let logs = |line: &str| matches!(line.trim(), "\"log\"," | "\"tracing\",");
            let is_known =
                CRATES.contains(&name.as_str()) || ONLY_IN_TESTS.contains(&name.as_str());
            assert!(is_known || !package.lines().any(logs), "CRATES lacks {name}");
            names.push(name);
        }
        for name in CRATES {
            assert!(names.iter().any(|it| it == name), "no crate of the program is called {name}");
        }
        assert!(CRATES.is_sorted());
    }
}
