//! Who may come in, and how that is proven.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::key_text;
use slateberg_base::secret::Secret;
use slateberg_base::setting::InvalidSetting;

/// Settings of authentication; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether everybody who reaches the port may do everything.
    pub insecure_no_auth: bool,
    /// Allows this on non-loopback addresses.
    pub insecure_no_auth_on_public_address: bool,
    /// Whether `GET /metrics` asks for a credential too.
    pub metrics_need_credential: bool,
    /// A file with the admin key of the first start, in the place of one that is minted.
    pub bootstrap_key_file: PathBuf,
    /// That key itself; empty for none.
    pub bootstrap_key: Secret,
    /// API keys that there may be.
    pub api_keys_max: usize,
    /// Bytes that a token may have; longer ones are refused unread.
    pub token_bytes_max: usize,
    /// Verified tokens that are remembered until they expire.
    pub verified_tokens_max: usize,
    /// Seconds by which an issuer's clock may differ from ours.
    pub clock_leeway_seconds: u64,
    /// Seconds for which a token of `POST /v1/oauth/tokens` is good.
    pub own_token_lifetime_seconds: u64,
    /// Days after which slateberg signs its tokens with a new key.
    pub signing_key_lifetime_days: u64,
    /// Failed attempts per source and minute before responses are delayed.
    pub failures_before_delay: u32,
    /// Milliseconds that the answer to a failure is held back at most.
    pub failure_delay_ms_max: u64,
    /// Seconds between two looks at an issuer's keys.
    pub issuer_refresh_seconds: u64,
    /// Seconds between two looks at an issuer's keys for the sake of a key that is not known.
    pub issuer_refetch_pause_seconds: u64,
    /// The issuers whose tokens are taken, by a name of our own.
    pub issuers: BTreeMap<String, IssuerSettings>,
    /// Whom client certificates speak for.
    pub client_certificates: ClientCertificateSettings,
    /// Whether this start mints a further admin key. A flag alone: it is good for one start.
    #[serde(skip)]
    pub new_admin_key: bool,
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerSettings {
    /// The `iss` of its tokens, to the letter.
    pub issuer: String,
    /// Where its keys are; empty if its discovery document (below `issuer`) says so.
    pub jwks_url: String,
    /// A file with its keys, read once at the start, in place of fetched ones.
    pub jwks_file: PathBuf,
    /// What a token's `aud` has to hold, one of these.
    pub audiences: Vec<String>,
    /// The algorithms that it signs with; none else are taken, whatever a token says.
    pub algorithms: Vec<String>,
    /// Path to the claim that says who it is; dots lead into nested claims.
    pub subject_claim: String,
    /// Path to the claim with the name that people call them.
    pub name_claim: String,
    /// Path to the claim with their groups.
    pub groups_claim: String,
    /// Path to the claim with their roles.
    pub roles_claim: String,
    /// Where clients get tokens, for `GET /v1/config`; empty if the discovery document says so.
    pub token_url: String,
}

/// Whom client certificates speak for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientCertificateSettings {
    /// What of a certificate is the name of whoever shows it.
    pub name_from: NameFrom,
    /// What there is to say of some of them, by that name.
    pub subjects: BTreeMap<String, SubjectSettings>,
}

/// What of a certificate is the name of whoever shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameFrom {
    /// The subject's common name.
    #[default]
    CommonName,
    /// The alternative name that is the name of a host.
    DnsName,
    /// The alternative name that is a URI, as SPIFFE has it.
    Uri,
}

/// What there is to say of somebody who shows a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubjectSettings {
    /// Whether that is a program or a person.
    pub kind: SubjectKind,
    /// The roles that they have.
    pub roles: BTreeSet<String>,
    /// The groups that they belong to.
    pub groups: BTreeSet<String>,
    /// The only warehouses that they may see; all of them if it is not there.
    pub warehouses: Option<BTreeSet<String>>,
}

/// A program, or a person.
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

/// With more leeway, expired tokens would stay valid for too long.
const CLOCK_LEEWAY_SECONDS_MAX: u64 = 300;

impl Settings {
    /// Returns the setting that is wrong in itself, if there is one.
    pub fn problem(&self) -> Option<InvalidSetting> {
        let seconds = self.clock_leeway_seconds;
        (seconds > CLOCK_LEEWAY_SECONDS_MAX).then(|| {
            let message = format!("expected at most {CLOCK_LEEWAY_SECONDS_MAX}, got {seconds}");
            InvalidSetting::new("authn.clock_leeway_seconds", message)
        })
    }

    /// Whether they say which admin key the first start is to have.
    pub fn brings_bootstrap_key(&self) -> bool {
        !self.bootstrap_key_file.as_os_str().is_empty() || !self.bootstrap_key.reveal().is_empty()
    }

    /// The admin key that the first start is to have, if the settings bring one.
    pub fn bootstrap_key(&self) -> Result<Option<Secret>, String> {
        let (file, key) = (&self.bootstrap_key_file, &self.bootstrap_key);
        let in_file = !file.as_os_str().is_empty();
        match (in_file, key.reveal().is_empty()) {
            (true, false) => Err("authn.bootstrap_key: there is a bootstrap_key_file".to_owned()),
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

    /// How far clocks may differ, in milliseconds.
    pub(super) fn leeway_ms(&self) -> i64 {
        ms(self.clock_leeway_seconds)
    }

    /// For how long an own token is good, in milliseconds.
    pub(super) fn own_token_lifetime_ms(&self) -> i64 {
        ms(self.own_token_lifetime_seconds)
    }

    /// For how long a signing key signs, in milliseconds.
    pub(super) fn signing_key_lifetime_ms(&self) -> i64 {
        ms(self.signing_key_lifetime_days.saturating_mul(24 * 60 * 60))
    }

    /// Between two looks at an issuer's keys.
    pub fn issuer_refresh(&self) -> Duration {
        Duration::from_secs(self.issuer_refresh_seconds.max(1))
    }

    /// Between two looks for the sake of an unknown key, in milliseconds.
    pub(super) fn issuer_refetch_pause_ms(&self) -> i64 {
        ms(self.issuer_refetch_pause_seconds)
    }
}

/// Refuses what is no key, without repeating it.
fn checked(key: Secret, wrong: impl Fn(&str) -> String) -> Result<Option<Secret>, String> {
    match key_text::hash(key.reveal()) {
        Some(_) => Ok(Some(key)),
        None => Err(wrong("expected an API key as `slateberg key generate` makes it")),
    }
}

fn ms(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}
