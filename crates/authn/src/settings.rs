//! Settings of authentication.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::key_text;
use slateberg_base::secret::Secret;
use slateberg_base::setting::InvalidSetting;

/// Settings of authentication. The defaults are those of `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether authentication is disabled. Anyone who can reach the port then has full access.
    pub insecure_no_auth: bool,
    /// Allows `insecure_no_auth` on non-loopback addresses.
    pub insecure_no_auth_on_public_address: bool,
    /// Whether `GET /metrics` requires a credential, too.
    pub metrics_need_credential: bool,
    /// A file with the admin key for the first start, used instead of a generated one.
    pub bootstrap_key_file: PathBuf,
    /// The admin key for the first start, as a string instead of a file. Empty if it is not set.
    pub bootstrap_key: Secret,
    /// Maximum number of API keys.
    pub api_keys_max: usize,
    /// Maximum size of a token, in bytes. Longer tokens are rejected without parsing.
    pub token_bytes_max: usize,
    /// Maximum number of verified tokens in the cache.
    pub verified_tokens_max: usize,
    /// Maximum clock difference to issuers, in seconds.
    pub clock_leeway_seconds: u64,
    /// Lifetime of tokens from `POST /v1/oauth/tokens`, in seconds.
    pub own_token_lifetime_seconds: u64,
    /// Days after which slateberg rotates its signing key.
    pub signing_key_lifetime_days: u64,
    /// Number of failed authentications of a source after which responses to further failures are
    /// delayed. The count restarts after a minute without failures.
    pub failures_before_delay: u32,
    /// Maximum delay of the response to a failure, in milliseconds.
    pub failure_delay_ms_max: u64,
    /// Interval at which the server fetches an issuer's keys, in seconds.
    pub issuer_refresh_seconds: u64,
    /// Minimum interval between two extra fetches of an issuer's keys, in seconds. A token that
    /// names an unknown key causes an extra fetch.
    pub issuer_refetch_pause_seconds: u64,
    /// The accepted issuers, by a name that the operator chooses.
    pub issuers: BTreeMap<String, IssuerSettings>,
    /// Mapping of client certificates to principals.
    pub client_certificates: ClientCertificateSettings,
    /// Whether this start creates a further admin key. Only a command-line flag sets this field, so
    /// it applies to one start.
    #[serde(skip)]
    pub new_admin_key: bool,
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerSettings {
    /// The exact `iss` of its tokens.
    pub issuer: String,
    /// The URL of its keys. If it is empty, the discovery document below `issuer` contains the URL.
    pub jwks_url: String,
    /// A file with its keys. The server reads the file once, at startup, instead of fetching the
    /// keys.
    pub jwks_file: PathBuf,
    /// The accepted audiences. The `aud` of a token must contain at least one of them.
    pub audiences: Vec<String>,
    /// The accepted signature algorithms. Tokens with other algorithms are rejected.
    pub algorithms: Vec<String>,
    /// Path to the claim with the subject. Dots separate nested claims.
    pub subject_claim: String,
    /// Path to the claim with the display name.
    pub name_claim: String,
    /// Path to the claim with the groups.
    pub groups_claim: String,
    /// Path to the claim with the roles.
    pub roles_claim: String,
    /// The URL of the token endpoint for `GET /v1/config`. If it is empty, the discovery document
    /// contains the URL.
    pub token_url: String,
}

/// Mapping of client certificates to principals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientCertificateSettings {
    /// The part of a certificate that contains the name of its holder.
    pub name_from: NameFrom,
    /// Settings of individual names.
    pub subjects: BTreeMap<String, SubjectSettings>,
}

/// The part of a certificate that contains the name of its holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameFrom {
    /// The subject's common name.
    #[default]
    CommonName,
    /// The DNS name among the subject alternative names.
    DnsName,
    /// The URI among the subject alternative names, as in SPIFFE.
    Uri,
}

/// Settings of the holder of a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubjectSettings {
    /// Program or person.
    pub kind: SubjectKind,
    /// The roles of the principal.
    pub roles: BTreeSet<String>,
    /// The groups of the principal.
    pub groups: BTreeSet<String>,
    /// Warehouses to which the principal is limited. `None` if it may use all warehouses.
    pub warehouses: Option<BTreeSet<String>>,
}

/// Program or person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A program.
    #[default]
    ServiceAccount,
    /// A person.
    User,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            insecure_no_auth: false,
            insecure_no_auth_on_public_address: false,
            metrics_need_credential: false,
            bootstrap_key_file: PathBuf::new(),
            bootstrap_key: Secret::new(""),
            api_keys_max: 10_000,
            token_bytes_max: 16 << 10,
            verified_tokens_max: 10_000,
            clock_leeway_seconds: 30,
            own_token_lifetime_seconds: 60 * 60,
            signing_key_lifetime_days: 30,
            failures_before_delay: 10,
            failure_delay_ms_max: 2_000,
            issuer_refresh_seconds: 5 * 60,
            issuer_refetch_pause_seconds: 10,
            issuers: BTreeMap::new(),
            client_certificates: ClientCertificateSettings::default(),
            new_admin_key: false,
        }
    }
}

impl Default for IssuerSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            jwks_url: String::new(),
            jwks_file: PathBuf::new(),
            audiences: Vec::new(),
            algorithms: ["RS256", "ES256"].map(str::to_owned).into(),
            subject_claim: "sub".to_owned(),
            name_claim: "preferred_username".to_owned(),
            groups_claim: "groups".to_owned(),
            roles_claim: "roles".to_owned(),
            token_url: String::new(),
        }
    }
}

/// A greater leeway would keep expired tokens valid for too long.
const CLOCK_LEEWAY_SECONDS_MAX: u64 = 300;

impl Settings {
    /// Returns the first invalid setting.
    pub fn problem(&self) -> Option<InvalidSetting> {
        let seconds = self.clock_leeway_seconds;
        (seconds > CLOCK_LEEWAY_SECONDS_MAX).then(|| {
            let message = format!("expected at most {CLOCK_LEEWAY_SECONDS_MAX}, got {seconds}");
            InvalidSetting::new("authn.clock_leeway_seconds", message)
        })
    }

    /// Whether the settings contain an admin key for the first start.
    pub fn brings_bootstrap_key(&self) -> bool {
        !self.bootstrap_key_file.as_os_str().is_empty() || !self.bootstrap_key.reveal().is_empty()
    }

    /// Returns the admin key for the first start, if the settings contain one.
    pub fn bootstrap_key(&self) -> Result<Option<Secret>, String> {
        let (file, key) = (&self.bootstrap_key_file, &self.bootstrap_key);
        let in_file = !file.as_os_str().is_empty();
        match (in_file, key.reveal().is_empty()) {
            (true, false) => {
                Err("authn.bootstrap_key: cannot be combined with authn.bootstrap_key_file"
                    .to_owned())
            }
            (false, true) => Ok(None),
            (false, false) => checked(key.clone(), |it| format!("authn.bootstrap_key: {it}")),
            (true, true) => {
                let wrong =
                    |it: &str| format!("authn.bootstrap_key_file: {}: {it}", file.display());
                let text = std::fs::read_to_string(file).map_err(|it| wrong(&it.to_string()))?;
                checked(Secret::new(text.trim()), wrong)
            }
        }
    }

    /// Returns the maximum clock difference, in milliseconds.
    pub(super) fn leeway_ms(&self) -> i64 {
        ms(self.clock_leeway_seconds)
    }

    /// Returns the lifetime of own tokens, in milliseconds.
    pub(super) fn own_token_lifetime_ms(&self) -> i64 {
        ms(self.own_token_lifetime_seconds)
    }

    /// Returns the lifetime of signing keys, in milliseconds.
    pub(super) fn signing_key_lifetime_ms(&self) -> i64 {
        ms(self.signing_key_lifetime_days.saturating_mul(24 * 60 * 60))
    }

    /// Returns the interval at which the server fetches an issuer's keys.
    pub fn issuer_refresh(&self) -> Duration {
        Duration::from_secs(self.issuer_refresh_seconds.max(1))
    }

    /// Returns the minimum interval between two extra fetches that unknown keys cause, in
    /// milliseconds.
    pub(super) fn issuer_refetch_pause_ms(&self) -> i64 {
        ms(self.issuer_refetch_pause_seconds)
    }
}

/// Validates a key. The error does not contain the key.
fn checked(key: Secret, wrong: impl Fn(&str) -> String) -> Result<Option<Secret>, String> {
    match key_text::hash(key.reveal()) {
        Some(_) => Ok(Some(key)),
        None => Err(wrong("expected an API key from `slateberg key generate`")),
    }
}

fn ms(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}
