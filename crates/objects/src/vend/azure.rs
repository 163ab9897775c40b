//! Credentials for Azure: a shared access signature for the table's directory, signed with a user
//! delegation key. Only accounts with a hierarchical namespace have directories.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object_store::CredentialProvider;
use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

use super::files::{Files, Privileges, VendError, Vended};
use super::http::{answer, client};
use crate::location::Location;
use slateberg_base::error_chain::Cause;
use slateberg_base::rfc3339;
use slateberg_base::secret::Secret;

/// Version of Azure's storage service for which requests and signatures are created.
const VERSION: &str = "2022-11-02";
/// Signatures are valid from this number of seconds before their creation, because clocks may
/// differ.
const EARLIER_SECONDS: i64 = 300;

/// Creates shared access signatures.
pub struct Azure {
    credentials: Arc<dyn CredentialProvider<Credential = AzureCredential>>,
    client: reqwest::Client,
    account: String,
    container: String,
    endpoint: String,
}

/// A user delegation key, with which signatures are created.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DelegationKey {
    signed_oid: String,
    signed_tid: String,
    signed_start: String,
    signed_expiry: String,
    signed_service: String,
    signed_version: String,
    value: String,
}

/// Parameters of a signature.
struct SignatureRequest<'a> {
    account: &'a str,
    container: &'a str,
    directory: &'a str,
    permissions: &'a str,
    start: &'a str,
    expiry: &'a str,
}

impl Azure {
    pub(super) fn open(
        location: &Location,
        options: &BTreeMap<String, String>,
    ) -> Result<Self, VendError> {
        let (container, host) = match location.authority().split_once('@') {
            Some((container, host)) => (container, Some(host)),
            None => (location.authority(), None),
        };
        let mut builder = MicrosoftAzureBuilder::new().with_container_name(container);
        if let Some(account) = host.and_then(|host| host.split('.').next()) {
            builder = builder.with_account(account);
        }
        for (key, value) in options {
            if let Ok(key) = AzureConfigKey::from_str(key) {
                builder = builder.with_config(key, value);
            }
        }
        let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let account = value(AzureConfigKey::AccountName);
        let account = account.ok_or_else(|| VendError(Cause::new("the account has no name")))?;
        let endpoint = value(AzureConfigKey::Endpoint)
            .unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
        let store = builder.build().map_err(|error| VendError(Cause::new(error)))?;
        Ok(Self {
            credentials: Arc::clone(store.credentials()),
            client: client()?,
            account,
            container: container.to_owned(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
        })
    }

    pub(super) async fn vend(
        &self,
        files: &Files,
        seconds: u32,
        now_ms: i64,
    ) -> Result<Vended, VendError> {
        let directory = files.locations.first().map(Location::path).unwrap_or_default();
        let expires_at_ms = now_ms + i64::from(seconds) * 1000;
        let start = rfc3339::format_seconds(now_ms - EARLIER_SECONDS * 1000);
        let expiry = rfc3339::format_seconds(expires_at_ms);
        let key = self.delegation_key(&start, &expiry).await?;
        let grant = SignatureRequest {
            account: &self.account,
            container: &self.container,
            directory: &directory,
            permissions: permissions(files.privileges),
            start: &start,
            expiry: &expiry,
        };
        let token = signature(&grant, &key)?;
        let host = format!("{}.dfs.core.windows.net", self.account);
        let config = [
            (format!("adls.sas-token.{host}"), token.clone()),
            (format!("adls.sas-token-expires-at-ms.{host}"), expires_at_ms.to_string()),
            ("adls.sas-token".to_owned(), token),
            ("adls.account-name".to_owned(), self.account.clone()),
        ];
        let config = config.map(|(key, value)| (key, Secret::new(value)));
        Ok(Vended { config: Arc::new(config.into()), expires_at_ms })
    }

    async fn delegation_key(&self, start: &str, expiry: &str) -> Result<DelegationKey, VendError> {
        let own = self.credentials.get_credential().await;
        let own = own.map_err(|error| VendError(Cause::new(error)))?;
        let AzureCredential::BearerToken(token) = &*own else {
            return Err(VendError(Cause::new(
                "an account key or a SAS cannot create a user delegation key: use an identity, such as a \
                 client secret, a managed identity or a workload identity",
            )));
        };
        let url = format!("{}/?restype=service&comp=userdelegationkey", self.endpoint);
        let request = self
            .client
            .post(url)
            .bearer_auth(token)
            .header("x-ms-version", VERSION)
            .header("content-type", "application/xml")
            .body(key_info(start, expiry));
        let answer = answer(request).await?;
        parse_key(&answer)
    }
}

fn key_info(start: &str, expiry: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>"
    )
}

fn parse_key(xml: &str) -> Result<DelegationKey, VendError> {
    // The response is secret, so the error does not contain it.
    quick_xml::de::from_str(xml.trim_start_matches('\u{feff}'))
        .map_err(|_| VendError(Cause::new("the response is not a user delegation key")))
}

/// Formats privileges in the order that the service requires.
fn permissions(privileges: Privileges) -> &'static str {
    match (privileges.read, privileges.write, privileges.write && privileges.delete) {
        (true, true, true) => "racwdl",
        (true, true, false) => "racwl",
        (true, false, _) => "rl",
        (false, true, true) => "acwd",
        (false, true, false) => "acw",
        (false, false, _) => "",
    }
}

/// Creates a shared access signature for a directory and everything below it.
fn signature(grant: &SignatureRequest<'_>, key: &DelegationKey) -> Result<String, VendError> {
    let SignatureRequest { account, container, directory, permissions, start, expiry } = grant;
    let resource = format!("/blob/{account}/{container}/{directory}");
    let none = "";
    let text = [
        permissions,
        start,
        expiry,
        resource.as_str(),
        &key.signed_oid,
        &key.signed_tid,
        &key.signed_start,
        &key.signed_expiry,
        &key.signed_service,
        &key.signed_version,
        // The fields for users, correlation id and addresses are empty.
        none,
        none,
        none,
        none,
        "https",
        VERSION,
        "d",
        // The fields for the snapshot, the encryption scope, and headers of the response are empty.
        none,
        none,
        none,
        none,
        none,
        none,
        none,
    ]
    .join("\n");
    let wrong = |_| VendError(Cause::new("the user delegation key is not base64"));
    let secret = STANDARD.decode(&key.value).map_err(wrong)?;
    let key_of_mac = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let signed = STANDARD.encode(hmac::sign(&key_of_mac, text.as_bytes()));
    let depth = directory.split('/').filter(|segment| !segment.is_empty()).count().to_string();
    let pairs = [
        ("sp", *permissions),
        ("st", start),
        ("se", expiry),
        ("skoid", &key.signed_oid),
        ("sktid", &key.signed_tid),
        ("skt", &key.signed_start),
        ("ske", &key.signed_expiry),
        ("sks", &key.signed_service),
        ("skv", &key.signed_version),
        ("spr", "https"),
        ("sv", VERSION),
        ("sr", "d"),
        ("sdd", &depth),
        ("sig", &signed),
    ];
    let pairs = pairs.map(|(key, value)| {
        let value: String = byte_serialize(value.as_bytes()).collect();
        format!("{key}={value}")
    });
    Ok(pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey>\
        <SignedOid>oid</SignedOid><SignedTid>tid</SignedTid>\
        <SignedStart>2027-01-15T08:00:00Z</SignedStart><SignedExpiry>2027-01-15T09:00:00Z</SignedExpiry>\
        <SignedService>b</SignedService><SignedVersion>2022-11-02</SignedVersion>\
        <Value>c2VjcmV0</Value></UserDelegationKey>";

    #[test]
    fn a_signature_is_for_one_directory() {
        let key = parse_key(KEY).expect("it is a key");
        let grant = |directory, permissions| {
            let grant = SignatureRequest {
                account: "lake",
                container: "c",
                directory,
                permissions,
                start: "2027-01-15T07:55:00Z",
                expiry: "2027-01-15T09:00:00Z",
            };
            signature(&grant, &key).expect("it is signed")
        };
        let keeps = Privileges { read: true, write: true, delete: false };
        assert_eq!(permissions(keeps), "racwl");
        let read = permissions(Privileges { read: true, write: false, delete: false });
        let one = grant("w/ns/t", read);
        assert!(
            one.starts_with(
                "sp=rl&st=2027-01-15T07%3A55%3A00Z&se=2027-01-15T09%3A00%3A00Z&skoid=oid&sktid=tid\
                 &skt=2027-01-15T08%3A00%3A00Z&ske=2027-01-15T09%3A00%3A00Z&sks=b&skv=2022-11-02\
                 &spr=https&sv=2022-11-02&sr=d&sdd=3&sig="
            ),
            "{one}"
        );
        assert_ne!(one, grant("w/ns/u", read));
        assert_ne!(
            one,
            grant("w/ns/t", permissions(Privileges { read: true, write: true, delete: true }))
        );
    }

    #[test]
    fn the_request_for_a_key_is_written_as_azure_documents_it() {
        assert_eq!(
            key_info("2027-01-15T07:55:00Z", "2027-01-15T09:00:00Z"),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><KeyInfo><Start>2027-01-15T07:55:00Z</Start>\
             <Expiry>2027-01-15T09:00:00Z</Expiry></KeyInfo>"
        );
        assert!(parse_key("<Error/>").is_err());
    }
}
