//! Environment variables for clients of a running server.

use std::path::PathBuf;

use slateberg_base::secret::Secret;

/// The variable with the URL of the server.
pub const URL: &str = "SLATEBERG_URL";
/// The variable with the API key.
pub const API_KEY: &str = "SLATEBERG_API_KEY";
/// The variable with the file of additional CA certificates.
pub(crate) const CA_CERT: &str = "SLATEBERG_CA_CERT";
/// The variable with the file of the client certificate and its key.
pub(crate) const CLIENT_CERT: &str = "SLATEBERG_CLIENT_CERT";
/// The variable with the token for the source catalog of a migration.
pub(crate) const SOURCE_TOKEN: &str = "SLATEBERG_SOURCE_TOKEN";
/// The variable with the credential, `<id>:<secret>`, with which a migration requests a token for
/// the source catalog.
pub(crate) const SOURCE_CREDENTIAL: &str = "SLATEBERG_SOURCE_CREDENTIAL";
/// All of these variables.
pub(crate) const VARIABLES: [&str; 6] =
    [URL, API_KEY, CA_CERT, CLIENT_CERT, SOURCE_TOKEN, SOURCE_CREDENTIAL];
/// The URL of a server with the default settings.
pub const URL_DEFAULT: &str = "http://127.0.0.1:8181";

/// Returns the URL of the server, if the variable is set.
pub fn server_url() -> Option<String> {
    variable(URL)
}

/// Returns the API key, if the variable is set.
pub fn api_key() -> Option<Secret> {
    variable(API_KEY).map(Secret::new)
}

/// Returns the token for the source catalog of a migration, if the variable is set.
pub fn source_token() -> Option<Secret> {
    variable(SOURCE_TOKEN).map(Secret::new)
}

/// Returns the credential for the source catalog of a migration, if the variable is set.
pub fn source_credential() -> Option<Secret> {
    variable(SOURCE_CREDENTIAL).map(Secret::new)
}

/// Returns the file of CA certificates that are trusted in addition to the system's CA
/// certificates.
pub fn ca_cert() -> Option<PathBuf> {
    variable(CA_CERT).map(PathBuf::from)
}

/// Returns the file of the client certificate and its key.
pub fn client_cert() -> Option<PathBuf> {
    variable(CLIENT_CERT).map(PathBuf::from)
}

/// Returns the value of a variable that the clients of a message broker use, such as `NATS_CREDS`.
pub fn broker_variable(name: &str) -> Option<String> {
    variable(name)
}

#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
