//! Names of object store options, for suggestions in error messages. Also finds endpoints that
//! begin with `http://` if no option allows unencrypted HTTP.

use std::collections::BTreeMap;
use std::str::FromStr;

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use super::location::AZURE;
use slateberg_base::similar::nearest;

const S3: [&str; 26] = [
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_region",
    "aws_default_region",
    "aws_endpoint",
    "aws_endpoint_url_s3",
    "aws_endpoint_url_sts",
    "aws_allow_http",
    "aws_virtual_hosted_style_request",
    "aws_unsigned_payload",
    "aws_checksum_algorithm",
    "aws_metadata_endpoint",
    "aws_container_credentials_relative_uri",
    "aws_container_credentials_full_uri",
    "aws_container_authorization_token_file",
    "aws_web_identity_token_file",
    "aws_role_arn",
    "aws_role_session_name",
    "aws_skip_signature",
    "aws_disable_tagging",
    "aws_request_payer",
    "aws_server_side_encryption",
    "aws_sse_kms_key_id",
    "aws_sse_bucket_key_enabled",
    "aws_sse_customer_key_base64",
];
const GOOGLE: [&str; 5] = [
    "google_service_account",
    "google_service_account_key",
    "google_application_credentials",
    "google_base_url",
    "google_skip_signature",
];
const MICROSOFT: [&str; 13] = [
    "azure_storage_account_name",
    "azure_storage_account_key",
    "azure_storage_client_id",
    "azure_storage_client_secret",
    "azure_storage_tenant_id",
    "azure_storage_authority_host",
    "azure_storage_sas_key",
    "azure_storage_use_emulator",
    "azure_storage_endpoint",
    "azure_msi_endpoint",
    "azure_federated_token_file",
    "azure_use_azure_cli",
    "azure_skip_signature",
];
/// Options of every kind of bucket.
const ANY: [&str; 6] = [
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "timeout",
    "proxy_url",
    "user_agent",
];
/// Options with the URL of a store, by their canonical names.
const ENDPOINTS: [&str; 4] =
    ["aws_endpoint", "aws_endpoint_url_s3", "azure_storage_endpoint", "google_base_url"];

/// Returns the canonical name of an option. The URL's scheme determines the kind of store. Returns
/// `None` if this kind of store has no such option.
pub(super) fn option(url: &str, key: &str) -> Option<String> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3" | "s3a") => {
            AmazonS3ConfigKey::from_str(key).ok().map(|key| key.as_ref().to_owned())
        }
        Some("gs") => GoogleConfigKey::from_str(key).ok().map(|key| key.as_ref().to_owned()),
        Some(scheme) if AZURE.contains(&scheme) => {
            AzureConfigKey::from_str(key).ok().map(|key| key.as_ref().to_owned())
        }
        _ => None,
    }
}

/// Returns the existing option that is most similar to a misspelled name, among those of the URL's
/// kind of store.
pub(super) fn meant(url: &str, name: &str) -> Option<&'static str> {
    let own: &[&str] = match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3" | "s3a") => &S3,
        Some("gs") => &GOOGLE,
        Some(scheme) if AZURE.contains(&scheme) => &MICROSOFT,
        _ => return None,
    };
    nearest(name, own.iter().chain(&ANY).copied())
}

/// Returns the option whose `http://` URL the library would reject at the first request.
pub(super) fn forbidden_http<'a>(
    url: &str,
    options: &'a BTreeMap<String, String>,
) -> Option<&'a String> {
    let is_on = |wanted: &str| {
        let mut set = options.iter();
        set.any(|(name, value)| option(url, name).as_deref() == Some(wanted) && is_true(value))
    };
    if is_on("allow_http") || is_on("azure_storage_use_emulator") {
        return None;
    }
    let is_endpoint =
        |name: &str| option(url, name).is_some_and(|name| ENDPOINTS.contains(&name.as_str()));
    let plain =
        |(name, value): &(&String, &String)| is_endpoint(name) && value.starts_with("http://");
    options.iter().find(plain).map(|(name, _)| name)
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_names_are_those_of_the_library() {
        let of = [("s3://b", &S3[..]), ("gs://b", &GOOGLE), ("az://b", &MICROSOFT)];
        for (url, own) in of {
            for name in own.iter().chain(&ANY) {
                assert!(option(url, name).is_some(), "{url} has no option {name}");
            }
        }
        for name in ENDPOINTS {
            let is_known = |url: &str| option(url, name).as_deref() == Some(name);
            assert!(["s3://b", "gs://b", "az://b"].into_iter().any(is_known), "{name}");
        }
        assert_eq!(meant("s3://b/p", "aws_regoin"), Some("aws_region"));
        assert_eq!(meant("file:///p", "aws_regoin"), None);
    }

    #[test]
    fn an_unencrypted_endpoint_has_to_be_allowed() {
        let options = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let plain = ("endpoint_url", "http://minio:9000");
        let found = options(&[plain]);
        assert_eq!(forbidden_http("s3://b", &found).map(String::as_str), Some("endpoint_url"));
        for allowed in [
            options(&[plain, ("aws_allow_http", "true")]),
            options(&[plain, ("allow_http", "1")]),
            options(&[("endpoint_url", "https://minio:9000")]),
            options(&[]),
        ] {
            assert_eq!(forbidden_http("s3://b", &allowed), None, "{allowed:?}");
        }
    }
}
