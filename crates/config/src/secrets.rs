//! Settings whose values must not be shown.

/// Tables of object store options.
const OPTIONS: [&str; 2] = ["options", "wal_options"];
/// Substrings of option names whose values are not secret.
const SHOWN: [&str; 9] = [
    "endpoint",
    "region",
    "allow_http",
    "bucket",
    "path_style",
    "virtual_hosted",
    "account_name",
    "metadata",
    "timeout",
];

/// Whether the value at a path may be a secret. Object store options are treated as secret unless
/// they are known not to be.
pub(super) fn is_secret(path: &[String]) -> bool {
    let Some((name, above)) = path.split_last() else { return false };
    let of_options = above.last().is_some_and(|table| OPTIONS.contains(&table.as_str()));
    match path[0].as_str() {
        "credentials" => above.len() > 1,
        "authn" => path.len() == 2 && name == "bootstrap_key",
        _ => of_options && !SHOWN.iter().any(|part| name.contains(part)),
    }
}
