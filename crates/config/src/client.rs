//! How a running server is reached, as the environment says it.

use std::path::PathBuf;

use slateberg_base::secret::Secret;

/// The variable with the server's URL.
pub const URL: &str = "SLATEBERG_URL";
/// The variable with the key to send.
pub const API_KEY: &str = "SLATEBERG_API_KEY";
/// The variable with the file of certificates that the server's may come from.
pub const CA_CERT: &str = "SLATEBERG_CA_CERT";
/// The variable with the file of the certificate to show, and its key.
pub const CLIENT_CERT: &str = "SLATEBERG_CLIENT_CERT";
/// The variable with the token for the catalog that a migration reads.
pub const SOURCE_TOKEN: &str = "SLATEBERG_SOURCE_TOKEN";
/// The variable with the credential that is exchanged for such a token: `<id>:<secret>`.
pub const SOURCE_CREDENTIAL: &str = "SLATEBERG_SOURCE_CREDENTIAL";
/// All of these variables.
pub const VARIABLES: [&str; 6] =
    [URL, API_KEY, CA_CERT, CLIENT_CERT, SOURCE_TOKEN, SOURCE_CREDENTIAL];
/// The URL of a server with the default settings.
pub const URL_DEFAULT: &str = "http://127.0.0.1:8181";

/// The server's URL, if the environment says it.
pub fn said_url() -> Option<String> {
    variable(URL)
}

/// The key to send, if there is one.
pub fn api_key() -> Option<Secret> {
    variable(API_KEY).map(Secret::new)
}

/// The token for the catalog that a migration reads, if there is one.
pub fn source_token() -> Option<Secret> {
    variable(SOURCE_TOKEN).map(Secret::new)
}

/// The credential that is exchanged for such a token.
pub fn source_credential() -> Option<Secret> {
    variable(SOURCE_CREDENTIAL).map(Secret::new)
}

/// The file of certificates that the server's may come from, besides those of the system.
pub fn ca_cert() -> Option<PathBuf> {
    variable(CA_CERT).map(PathBuf::from)
}

/// The file of the certificate to show, and its key.
pub fn client_cert() -> Option<PathBuf> {
    variable(CLIENT_CERT).map(PathBuf::from)
}

#[expect(clippy::disallowed_methods, reason = "this room reads the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
