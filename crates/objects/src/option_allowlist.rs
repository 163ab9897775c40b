//! Allow-list of the object store options that requests may set. These options contain no secret,
//! name no local file, and do not send credentials to another host. An option that a later version
//! of the library introduces is rejected until it is added here.
//!
//! The endpoint of S3 is allowed: requests to S3 are signed, so another host would get a signature
//! but no credential. Requests to the other stores contain tokens, so their endpoints are allowed
//! only in the configuration.

use url::Url;

use super::location::AZURE;

/// Form of an option's value.
#[derive(Clone, Copy)]
enum Shape {
    /// `true` or `false`.
    Flag,
    /// A region. It is part of host names to which tokens are sent.
    Region,
    /// An account of Azure. It is part of the host name to which tokens are sent.
    Account,
    /// A URL without credentials.
    Endpoint,
    /// A name of a resource.
    Name,
}

/// Options of S3, without `aws_`.
const S3: [(&str, Shape); 15] = [
    ("region", Shape::Region),
    ("default_region", Shape::Region),
    ("endpoint", Shape::Endpoint),
    ("endpoint_url", Shape::Endpoint),
    ("allow_http", Shape::Flag),
    ("virtual_hosted_style_request", Shape::Flag),
    ("unsigned_payload", Shape::Flag),
    ("skip_signature", Shape::Flag),
    ("disable_tagging", Shape::Flag),
    ("disable_bulk_delete", Shape::Flag),
    ("request_payer", Shape::Flag),
    ("checksum_algorithm", Shape::Name),
    ("server_side_encryption", Shape::Name),
    ("sse_kms_key_id", Shape::Name),
    ("sse_bucket_key_enabled", Shape::Flag),
];

/// Options of Google Cloud Storage.
const GOOGLE: [(&str, Shape); 1] = [("skip_signature", Shape::Flag)];

/// Options of Azure.
const MICROSOFT: [(&str, Shape); 3] = [
    ("storage_account_name", Shape::Account),
    ("account_name", Shape::Account),
    ("skip_signature", Shape::Flag),
];

/// Reason why an option is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionRejected {
    /// The option is rejected with any value.
    #[error(
        "Option '{0}' is not accepted here, because it could contain a secret or redirect requests: put it \
         into [credentials.NAME] in the server's configuration, and set 'credentials': 'NAME'"
    )]
    Option(String),
    /// The value is rejected. The error does not repeat it.
    #[error("Invalid value of option '{option}': expected {expected}")]
    Value {
        /// Name of the option.
        option: String,
        /// Expected form of the value.
        expected: &'static str,
    },
}

/// Rejects an option of a store with this scheme that is not allowed over HTTP.
pub fn check(scheme: &str, option: &str, value: &str) -> Result<(), OptionRejected> {
    let Some(shape) = shape(scheme, option) else {
        return Err(OptionRejected::Option(option.to_owned()));
    };
    let is_good = match shape {
        Shape::Flag => matches!(value, "true" | "false"),
        Shape::Region => consists_of(value, 32, |c| c.is_ascii_alphanumeric() || c == '-'),
        Shape::Account => consists_of(value, 24, |c| c.is_ascii_lowercase() || c.is_ascii_digit()),
        Shape::Endpoint => is_endpoint(value),
        Shape::Name => {
            consists_of(value, 256, |c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
        }
    };
    if is_good {
        Ok(())
    } else {
        Err(OptionRejected::Value { option: option.to_owned(), expected: expected(shape) })
    }
}

/// Whether an option of a store with this scheme is allowed over HTTP, in requests and responses.
pub fn is_allowed_over_http(scheme: &str, option: &str) -> bool {
    shape(scheme, option).is_some()
}

fn shape(scheme: &str, option: &str) -> Option<Shape> {
    let (list, prefix) = match scheme {
        "s3" => (&S3[..], "aws_"),
        "gs" => (&GOOGLE[..], "google_"),
        scheme if AZURE.contains(&scheme) => (&MICROSOFT[..], "azure_"),
        _ => return None,
    };
    let name = option.strip_prefix(prefix).unwrap_or(option);
    list.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
}

fn expected(shape: Shape) -> &'static str {
    match shape {
        Shape::Flag => "true or false",
        Shape::Region => "letters, digits and '-'",
        Shape::Account => "at most 24 lower-case letters and digits",
        Shape::Endpoint => "http:// or https:// with a host, and neither a user nor a query",
        Shape::Name => "letters, digits, '-', '_', '.', ':' and '/'",
    }
}

fn consists_of(value: &str, chars_max: usize, of: impl Fn(char) -> bool) -> bool {
    !value.is_empty() && value.chars().count() <= chars_max && value.chars().all(of)
}

pub(super) fn is_endpoint(value: &str) -> bool {
    Url::parse(value).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host().is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use object_store::aws::AmazonS3ConfigKey;
    use object_store::azure::AzureConfigKey;
    use object_store::gcp::GoogleConfigKey;

    use super::*;

    #[test]
    fn only_listed_options_are_accepted() {
        for (scheme, option, value) in [
            ("s3", "aws_region", "eu-central-1"),
            ("s3", "region", "eu-central-1"),
            ("s3", "aws_endpoint", "http://127.0.0.1:9000"),
            ("s3", "aws_allow_http", "true"),
            ("az", "azure_storage_account_name", "lake1"),
            ("gs", "google_skip_signature", "true"),
        ] {
            assert_eq!(check(scheme, option, value), Ok(()), "{option}");
        }
        for (scheme, option) in [
            ("s3", "aws_secret_access_key"),
            ("s3", "aws_session_token"),
            ("s3", "aws_access_key_id"),
            ("s3", "aws_bucket"),
            ("s3", "aws_endpoint_url_sts"),
            ("s3", "aws_metadata_endpoint"),
            ("s3", "aws_container_credentials_full_uri"),
            ("s3", "aws_web_identity_token_file"),
            ("s3", "aws_sse_customer_key_base64"),
            ("s3", "proxy_url"),
            ("s3", "allow_invalid_certificates"),
            ("gs", "google_service_account_key"),
            ("gs", "google_service_account"),
            ("gs", "google_base_url"),
            ("az", "azure_storage_account_key"),
            ("az", "azure_storage_sas_key"),
            ("az", "azure_client_secret"),
            ("az", "azure_endpoint"),
            ("az", "azure_container_name"),
            ("file", "aws_region"),
        ] {
            let result = check(scheme, option, "x");
            assert_eq!(result, Err(OptionRejected::Option(option.to_owned())), "{option}");
        }
    }

    #[test]
    fn value_with_another_host_is_rejected_without_repeating_it() {
        for (scheme, option, value) in [
            ("s3", "aws_region", "x.example.com/?"),
            ("s3", "aws_endpoint", "https://key:word@example.com"),
            ("s3", "aws_endpoint", "file:///etc/passwd"),
            ("s3", "aws_endpoint", "https://example.com/?word=1"),
            ("s3", "aws_allow_http", "perhaps"),
            ("az", "account_name", "example.com/x?"),
            ("az", "account_name", ""),
        ] {
            let result = check(scheme, option, value).expect_err(value);
            assert!(matches!(result, OptionRejected::Value { .. }), "{option}={value}");
            assert!(value.is_empty() || !result.to_string().contains(value), "{result}");
        }
    }

    #[test]
    fn every_option_of_the_lists_is_one_of_the_library() {
        fn known<K: FromStr>(prefix: &str, list: &[(&str, Shape)]) {
            for (option, _) in list {
                let names = [format!("{prefix}{option}"), (*option).to_owned()];
                assert!(names.iter().any(|name| K::from_str(name).is_ok()), "{option}");
            }
        }
        known::<AmazonS3ConfigKey>("aws_", &S3);
        known::<GoogleConfigKey>("google_", &GOOGLE);
        known::<AzureConfigKey>("azure_", &MICROSOFT);
    }
}
