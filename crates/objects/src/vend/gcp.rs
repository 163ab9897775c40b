//! Credentials for Google Cloud Storage: the token of the store, downscoped by a credential access
//! boundary.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use object_store::CredentialProvider;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use serde::Deserialize;
use serde_json::json;

use super::files::{Files, VendError, Vended};
use super::http::{answer, client};
use crate::location::Location;
use slateberg_base::error_chain::Cause;
use slateberg_base::secret::Secret;

/// URL of the token exchange.
const ENDPOINT: &str = "https://sts.googleapis.com/v1/token";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// Lifetime of a downscoped token if the response does not contain its lifetime. Such a token
/// expires together with the original token. The library replaces the original token five minutes
/// before it expires, so both are valid for at least this time.
const LIFE_SECONDS_MIN: i64 = 300;

/// Exchanges tokens.
pub struct Gcp {
    credentials: Arc<dyn CredentialProvider<Credential = GcpCredential>>,
    client: reqwest::Client,
}

/// Response of the exchange.
#[derive(Deserialize)]
struct Exchanged {
    access_token: String,
    expires_in: Option<i64>,
}

impl Gcp {
    pub(super) fn open(
        location: &Location,
        options: &BTreeMap<String, String>,
    ) -> Result<Self, VendError> {
        let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(location.authority());
        for (key, value) in options {
            if let Ok(key) = GoogleConfigKey::from_str(key) {
                builder = builder.with_config(key, value);
            }
        }
        let store = builder.build().map_err(|error| VendError(Cause::new(error)))?;
        Ok(Self { credentials: Arc::clone(store.credentials()), client: client()? })
    }

    pub(super) async fn vend(&self, files: &Files, now_ms: i64) -> Result<Vended, VendError> {
        let own = self.credentials.get_credential().await;
        let own = own.map_err(|error| VendError(Cause::new(error)))?;
        let request = self.client.post(ENDPOINT).body(form(files, &own.bearer));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = answer(request).await?;
        let Exchanged { access_token, expires_in } =
            serde_json::from_str(&answer).map_err(|_| {
                VendError(Cause::new("the response of the token exchange contains no token"))
            })?;
        Ok(vended(access_token, expires_in, now_ms))
    }
}

fn vended(token: String, expires_in: Option<i64>, now_ms: i64) -> Vended {
    let expires_at_ms = now_ms + expires_in.unwrap_or(LIFE_SECONDS_MIN).max(0) * 1000;
    let config =
        [("gcs.oauth2.token", token), ("gcs.oauth2.token-expires-at", expires_at_ms.to_string())];
    let config = config.map(|(key, value)| (key.to_owned(), Secret::new(value)));
    Vended { config: Arc::new(config.into()), expires_at_ms }
}

/// Returns the body of an exchange.
fn form(files: &Files, token: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
        .append_pair("subject_token_type", ACCESS_TOKEN)
        .append_pair("requested_token_type", ACCESS_TOKEN)
        .append_pair("subject_token", token)
        .append_pair("options", &boundary(files))
        .finish()
}

/// Returns the access boundary of a table.
fn boundary(files: &Files) -> String {
    let bucket = files.locations.first().map_or("", Location::authority);
    let any = |what: &dyn Fn(&str) -> String| -> String {
        let all: Vec<_> =
            files.locations.iter().map(|location| what(&literal(&location.path()))).collect();
        all.join(" || ")
    };
    let named = any(&|path| {
        format!("resource.name.startsWith('projects/_/buckets/{bucket}/objects/{path}/')")
    });
    let listed = any(&|path| {
        format!(
            "api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('{path}/')"
        )
    });
    let rule = |role: &str, condition: String| {
        json!({
            "availableResource": format!("//storage.googleapis.com/projects/_/buckets/{bucket}"),
            "availablePermissions": [format!("inRole:roles/storage.{role}")],
            "availabilityCondition": { "expression": condition },
        })
    };
    let mut rules = Vec::new();
    if files.privileges.read {
        rules.push(rule("objectViewer", format!("{named} || {listed}")));
    }
    if files.privileges.write {
        let role = if files.privileges.delete { "legacyBucketWriter" } else { "objectCreator" };
        rules.push(rule(role, named));
    }
    json!({ "accessBoundary": { "accessBoundaryRules": rules } }).to_string()
}

/// Escapes a path within the quotes of an expression.
fn literal(path: &str) -> String {
    path.replace('\\', "\\\\").replace('\'', "\\'")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::vend::files::Privileges;

    fn files(url: &str, privileges: Privileges) -> Files {
        let location = Location::parse(url).expect("a location");
        Files { table: Uuid::nil(), locations: vec![location], privileges }
    }

    #[test]
    fn the_exchange_is_written_as_google_documents_it() {
        let encoded = form(
            &files("gs://b/w/t", Privileges { read: true, write: false, delete: false }),
            "ya29.x",
        );
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(encoded.as_bytes()).into_owned().collect();
        let expected = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("subject_token", "ya29.x"),
        ];
        let named = |(key, value): &(String, String)| (key.clone(), value.clone());
        let expected: Vec<_> = expected.map(|(k, v)| named(&(k.into(), v.into()))).into();
        assert_eq!(pairs[..4], expected);
        let options: serde_json::Value = serde_json::from_str(&pairs[4].1).expect("it is JSON");
        let rules = &options["accessBoundary"]["accessBoundaryRules"];
        assert_eq!(rules.as_array().expect("a list").len(), 1);
        assert_eq!(
            rules[0],
            json!({
                "availableResource": "//storage.googleapis.com/projects/_/buckets/b",
                "availablePermissions": ["inRole:roles/storage.objectViewer"],
                "availabilityCondition": { "expression":
                    "resource.name.startsWith('projects/_/buckets/b/objects/w/t/') || \
                     api.getAttribute('storage.googleapis.com/objectListPrefix', '')\
                     .startsWith('w/t/')" },
            })
        );
    }

    #[test]
    fn quote_in_a_location_is_escaped() {
        let write = Privileges { read: false, write: true, delete: true };
        let encoded = boundary(&files("gs://b/w/x') || true || ('", write));
        assert!(encoded.contains(r"objects/w/x\\') || true || (\\'/')"), "{encoded}");
        assert!(encoded.contains("legacyBucketWriter") && !encoded.contains("objectViewer"));
    }

    #[test]
    fn write_access_without_delete_does_not_delete() {
        let keeps = Privileges { read: true, write: true, delete: false };
        let encoded = boundary(&files("gs://b/w/t", keeps));
        assert!(
            encoded.contains("objectCreator") && !encoded.contains("legacyBucketWriter"),
            "{encoded}"
        );
    }

    #[test]
    fn token_without_expiry_gets_the_minimum_lifetime() {
        assert_eq!(vended("t".into(), None, 1_000).expires_at_ms, 301_000);
        let one = vended("t".into(), Some(3599), 1_000);
        assert_eq!(one.expires_at_ms, 3_600_000);
        assert_eq!(one.config["gcs.oauth2.token-expires-at"].reveal(), "3600000");
    }
}
