//! Short-lived credentials for reading or writing the files of one table.
//!
//! A [`Vendor`] belongs to one location of a warehouse, and has the options of its object store.
//! Vended credentials are derived from the credentials with which the catalog accesses the
//! warehouse. [`aws`], [`gcp`] and [`azure`] send requests to the providers, and [`cache`] stores
//! the results.

pub mod aws;
pub mod azure;
pub mod cache;
pub mod files;
pub mod gcp;
pub(super) mod http;
pub mod s3_store;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::files::{Files, VendError, Vended};
use self::http::ANSWER_MAX;
use super::location::{AZURE, Location};
use super::option_allowlist::is_endpoint;
use super::sign::Signer;
use slateberg_base::error_chain::Cause;
use slateberg_model::warehouse::{Delegation, FileAccess};

/// AWS accepts these lifetimes for an assumed role. The same limits apply to other providers.
const SECONDS: std::ops::RangeInclusive<u32> = 900..=43_200;

/// Issues credentials and signatures for the files below one location of a warehouse.
pub struct Vendor {
    provider: Provider,
    access: FileAccess,
    /// Configuration of the store, which clients get with every delegation mode. Contains no
    /// secret.
    client: Arc<BTreeMap<String, String>>,
}

enum Provider {
    S3 { aws: Box<aws::Aws>, signer: Box<Signer> },
    Gcs(gcp::Gcp),
    Azure(azure::Azure),
}

impl Vendor {
    /// Returns the vendor for a location whose store has these options. Returns `None` if clients
    /// get no access through the catalog. Sends no request.
    pub fn open(
        location: &Location,
        options: &BTreeMap<String, String>,
        access: &FileAccess,
    ) -> Result<Option<Self>, VendError> {
        if access.delegation.is_empty() {
            return Ok(None);
        }
        check(location, access)?;
        let (provider, client) = match location.scheme() {
            "s3" => {
                let aws = aws::Aws::open(location, options, access)?;
                let signer = Box::new(Signer::new(aws.store().clone()));
                let client = aws.store().client_config();
                (Provider::S3 { aws: Box::new(aws), signer }, client)
            }
            "gs" => (Provider::Gcs(gcp::Gcp::open(location, options)?), BTreeMap::new()),
            _ => (Provider::Azure(azure::Azure::open(location, options)?), BTreeMap::new()),
        };
        Ok(Some(Self { provider, access: access.clone(), client: Arc::new(client) }))
    }

    /// Delegation modes. The preferred mode is the first one.
    pub fn delegation(&self) -> &[Delegation] {
        &self.access.delegation
    }

    /// Configuration of the store for clients. Contains no secret.
    pub fn client_config(&self) -> &Arc<BTreeMap<String, String>> {
        &self.client
    }

    /// Name of the property with the URL at which a client gets new credentials.
    pub fn refresh_key(&self) -> &'static str {
        match &self.provider {
            Provider::S3 { .. } => "client.refresh-credentials-endpoint",
            Provider::Gcs(_) => "gcs.oauth2.refresh-credentials-endpoint",
            Provider::Azure(_) => "adls.refresh-credentials-endpoint",
        }
    }

    /// Requests credentials from the provider.
    pub async fn vend(&self, files: &Files, now_ms: i64) -> Result<Vended, VendError> {
        let seconds = self.access.credentials_seconds;
        let request = async {
            match &self.provider {
                Provider::S3 { aws, .. } => aws.vend(files, seconds).await,
                Provider::Gcs(gcp) => gcp.vend(files, now_ms).await,
                Provider::Azure(azure) => azure.vend(files, seconds, now_ms).await,
            }
        };
        let late = |_| {
            VendError(Cause::new(format!("no response within {} seconds", ANSWER_MAX.as_secs())))
        };
        tokio::time::timeout(ANSWER_MAX, request).await.map_err(late)?
    }

    /// Whether the provider issues credentials for single tables, even if clients do not get them.
    pub fn vends(&self) -> bool {
        match &self.provider {
            Provider::S3 { .. } => {
                self.access.role_arn.is_some() || self.access.sts_endpoint.is_some()
            }
            Provider::Gcs(_) | Provider::Azure(_) => true,
        }
    }

    /// Signer of requests. `None` for stores without signed requests.
    pub fn signer(&self) -> Option<&Signer> {
        match &self.provider {
            Provider::S3 { signer, .. } => Some(signer),
            Provider::Gcs(_) | Provider::Azure(_) => None,
        }
    }
}

/// Rejects access that a kind of store does not support.
fn check(location: &Location, access: &FileAccess) -> Result<(), VendError> {
    let rejection =
        |reason: &str| Err(VendError(Cause::new(format!("Invalid access to files: {reason}"))));
    let is_s3 = location.scheme() == "s3";
    let vends = access.delegation.contains(&Delegation::VendedCredentials);
    let mut seen = std::collections::HashSet::new();
    if !access.delegation.iter().all(|way| seen.insert(way)) {
        return rejection("each access delegation mode can be named only once");
    }
    if !is_s3 && location.scheme() != "gs" && !AZURE.contains(&location.scheme()) {
        return rejection("there are no credentials for this kind of store");
    }
    if !is_s3 && access.delegation.contains(&Delegation::RemoteSigning) {
        return rejection("requests to this kind of store are not signed");
    }
    if !SECONDS.contains(&access.credentials_seconds) {
        return rejection("the lifetime of credentials must be 900 to 43200 seconds");
    }
    let of_s3 = [&access.role_arn, &access.external_id, &access.sts_endpoint];
    if !is_s3 && of_s3.iter().any(|it| it.is_some()) {
        return rejection("role_arn, external_id and sts_endpoint apply only to S3");
    }
    if is_s3 && vends && access.role_arn.is_none() && access.sts_endpoint.is_none() {
        return rejection(
            "vended credentials need role_arn, or the sts_endpoint of a store like MinIO",
        );
    }
    if access.role_arn.as_ref().is_some_and(|arn| !is_role(arn)) {
        return rejection("expected role_arn as arn:aws:iam::<account>:role/<name>");
    }
    if access.sts_endpoint.as_ref().is_some_and(|url| !is_endpoint(url)) {
        return rejection(
            "expected sts_endpoint as http:// or https:// with a host, and without secrets",
        );
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "+=,.@:/-_".contains(c);
    if access
        .external_id
        .as_ref()
        .is_some_and(|id| !(2..=1224).contains(&id.len()) || !id.chars().all(plain))
    {
        return rejection("expected external_id as letters, digits and any of +=,.@:/-_");
    }
    Ok(())
}

fn is_role(arn: &str) -> bool {
    let parts: Vec<_> = arn.splitn(6, ':').collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || "+=,.@-_/".contains(c);
    matches!(parts[..], ["arn", partition, "iam", "", account, role]
    if partition.starts_with("aws")
        && account.chars().all(|c| c.is_ascii_digit())
        && role.strip_prefix("role/").is_some_and(|name| {
            !name.is_empty() && name.len() <= 600 && name.chars().all(plain)
        }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(url: &str, change: impl FnOnce(&mut FileAccess)) -> Option<String> {
        let mut access = FileAccess {
            delegation: vec![Delegation::VendedCredentials],
            role_arn: Some("arn:aws:iam::123456789012:role/slateberg".into()),
            ..Default::default()
        };
        change(&mut access);
        let location = Location::parse(url).expect("it is a location");
        check(&location, &access).err().map(|error| error.to_string())
    }

    #[test]
    fn unsupported_access_is_rejected_without_a_request() {
        assert_eq!(rejection("s3://b/w", |_| ()), None);
        assert_eq!(rejection("s3://b/w", |it| it.delegation.push(Delegation::RemoteSigning)), None);
        assert_eq!(rejection("gs://b/w", |it| it.role_arn = None), None);
        let wrong = |url, change: fn(&mut FileAccess)| assert!(rejection(url, change).is_some());
        wrong("file:///w", |it| it.role_arn = None);
        wrong("gs://b/w", |_| ());
        wrong("az://b/w", |it| it.delegation = vec![Delegation::RemoteSigning]);
        wrong("s3://b/w", |it| it.role_arn = None);
        wrong("s3://b/w", |it| it.role_arn = Some("arn:aws:iam::1:user/x".into()));
        wrong("s3://b/w", |it| it.role_arn = Some("arn:aws:iam::1:role/x y".into()));
        wrong("s3://b/w", |it| it.sts_endpoint = Some("https://user:word@sts.example".into()));
        wrong("s3://b/w", |it| it.external_id = Some("a b".into()));
        wrong("s3://b/w", |it| it.credentials_seconds = 60);
        wrong("s3://b/w", |it| it.delegation.push(Delegation::VendedCredentials));
    }
}
