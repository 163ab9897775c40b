//! Credentials for S3 and compatible stores. Assumes a role for each table, with a session policy
//! that limits the permissions of the role to this table.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_sts::config::{BehaviorVersion, Region};
use aws_sdk_sts::error::DisplayErrorContext;
use serde_json::{Value, json};

use super::files::{Files, VendError, Vended};
use super::s3_store::S3Store;
use crate::location::Location;
use slateberg_base::error_chain::Cause;
use slateberg_base::secret::Secret;
use slateberg_model::warehouse::FileAccess;

/// Placeholder for services that need no role name, such as `MinIO`.
const NO_ROLE: &str = "arn:aws:iam::000000000000:role/slateberg";
/// Maximum number of characters in a session policy.
const POLICY_CHARS_MAX: usize = 2048;

/// Assumes roles.
pub struct Aws {
    store: S3Store,
    sts: aws_sdk_sts::Client,
    access: FileAccess,
}

impl Aws {
    pub(super) fn open(
        location: &Location,
        options: &BTreeMap<String, String>,
        access: &FileAccess,
    ) -> Result<Self, VendError> {
        let store = S3Store::open(location, options)?;
        let config = aws_sdk_sts::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(store.region.clone()));
        let config = match &access.sts_endpoint {
            Some(endpoint) => config.endpoint_url(endpoint),
            None => config,
        };
        let sts = aws_sdk_sts::Client::from_conf(config.build());
        Ok(Self { store, sts, access: access.clone() })
    }

    pub(super) fn store(&self) -> &S3Store {
        &self.store
    }

    pub(super) async fn vend(&self, files: &Files, seconds: u32) -> Result<Vended, VendError> {
        let role = self.access.role_arn.as_deref();
        let policy =
            session_policy(files, &self.store.partition(role), self.store.kms_key.as_deref())?;
        let credentials = self.store.credentials().await?;
        let own = aws_sdk_sts::Config::builder().credentials_provider(credentials);
        let answer = self
            .sts
            .assume_role()
            .role_arn(role.unwrap_or(NO_ROLE))
            .role_session_name(format!("slateberg-{}", files.table.simple()))
            .set_external_id(self.access.external_id.clone())
            .duration_seconds(i32::try_from(seconds).unwrap_or(i32::MAX))
            .policy(policy)
            .customize()
            .config_override(own)
            .send()
            .await
            .map_err(|error| {
                VendError(Cause::new(format!("AssumeRole: {}", DisplayErrorContext(error))))
            })?;
        let found = answer.credentials.ok_or_else(|| {
            VendError(Cause::new("AssumeRole: the response contains no credentials"))
        })?;
        let expires_at_ms = found.expiration.to_millis();
        let expires_at_ms = expires_at_ms.map_err(|error| VendError(Cause::new(error)))?;
        let config = [
            ("s3.access-key-id", found.access_key_id),
            ("s3.secret-access-key", found.secret_access_key),
            ("s3.session-token", found.session_token),
            ("s3.session-token-expires-at-ms", expires_at_ms.to_string()),
        ];
        let config = config.map(|(key, value)| (key.to_owned(), Secret::new(value)));
        Ok(Vended { config: Arc::new(config.into()), expires_at_ms })
    }
}

/// Builds a session policy that allows access to the objects below the table's locations, and
/// listings of these objects.
fn session_policy(
    files: &Files,
    partition: &str,
    kms_key: Option<&str>,
) -> Result<String, VendError> {
    let location =
        |location: &Location| (location.authority().to_owned(), literal(&location.path()));
    let locations: Vec<_> = files.locations.iter().map(location).collect();
    let arn = |name: &str| format!("arn:{partition}:s3:::{name}");
    let objects: Vec<_> =
        locations.iter().map(|(bucket, path)| arn(&format!("{bucket}/{path}/*"))).collect();
    let buckets: std::collections::BTreeSet<_> = locations.iter().map(|(it, _)| arn(it)).collect();
    let mut statements: Vec<Value> = Vec::new();
    let mut allow = |actions: &[&str], resources: Value, condition: Option<Value>| {
        let mut statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resources });
        if let Some(condition) = condition {
            statement["Condition"] = condition;
        }
        statements.push(statement);
    };
    let mut on_objects = Vec::new();
    let mut on_keys = Vec::new();
    if files.privileges.read {
        on_objects.push("s3:GetObject");
        on_keys.push("kms:Decrypt");
        let prefixes: Vec<_> = locations.iter().map(|(_, path)| format!("{path}/*")).collect();
        let condition = json!({ "StringLike": { "s3:prefix": prefixes } });
        allow(&["s3:ListBucket"], json!(buckets), Some(condition));
    }
    if files.privileges.write {
        on_objects.push("s3:PutObject");
        on_objects.extend(files.privileges.delete.then_some("s3:DeleteObject"));
        on_objects.extend(["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]);
        on_keys.extend(["kms:GenerateDataKey", "kms:Decrypt"]);
    }
    allow(&on_objects, json!(objects), None);
    if let Some(key) = kms_key.filter(|key| key.starts_with("arn:")) {
        on_keys.sort_unstable();
        on_keys.dedup();
        allow(&on_keys, json!([key]), None);
    }
    let policy = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
    match policy.chars().count() {
        ..=POLICY_CHARS_MAX => Ok(policy),
        chars => Err(VendError(Cause::new(format!(
            "the table's locations are too long for a session policy: {chars} characters, at most \
             {POLICY_CHARS_MAX} are allowed"
        )))),
    }
}

/// Escapes the wildcards of a path.
fn literal(path: &str) -> String {
    let mut literal = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '*' | '?' | '$' => literal.extend(['$', '{', c, '}']),
            other => literal.push(other),
        }
    }
    literal
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::vend::files::Privileges;

    fn policy(urls: &[&str], privileges: Privileges) -> Value {
        let locations = urls.iter().map(|url| Location::parse(url).expect("a location")).collect();
        let files = Files { table: Uuid::nil(), locations, privileges };
        let policy = session_policy(&files, "aws", None).expect("it is short");
        serde_json::from_str(&policy).expect("it is JSON")
    }

    const READ: Privileges = Privileges { read: true, write: false, delete: false };
    const WRITE: Privileges = Privileges { read: false, write: true, delete: true };

    #[test]
    fn read_access_gets_and_lists_the_tables_files() {
        let expected = json!({ "Version": "2012-10-17", "Statement": [
            { "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::b"],
              "Condition": { "StringLike": { "s3:prefix": ["w/t/*"] } } },
            { "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b/w/t/*"] },
        ] });
        assert_eq!(policy(&["s3://b/w/t"], READ), expected);
    }

    #[test]
    fn write_access_does_not_read() {
        let expected = json!({ "Version": "2012-10-17", "Statement": [
            { "Effect": "Allow",
              "Action": ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload",
                         "s3:ListMultipartUploadParts"],
              "Resource": ["arn:aws:s3:::b/w/t/*", "arn:aws:s3:::b/data/t/*"] },
        ] });
        assert_eq!(policy(&["s3://b/w/t", "s3://b/data/t"], WRITE), expected);
    }

    #[test]
    fn write_access_without_delete_does_not_delete() {
        let keeps = Privileges { delete: false, ..WRITE };
        let policy_json = policy(&["s3://b/w/t"], keeps);
        let actions = &policy_json["Statement"][0]["Action"];
        let expected = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"];
        assert_eq!(*actions, json!(expected));
    }

    #[test]
    fn wildcards_in_locations_are_escaped() {
        let policy_json = policy(&["s3://b/w/*/${aws:username}"], WRITE);
        let objects = &policy_json["Statement"][0]["Resource"][0];
        assert_eq!(objects, "arn:aws:s3:::b/w/${*}/${$}{aws:username}/*");
    }

    #[test]
    fn delete_objects_names_its_keys_and_rejects_too_many() {
        let location = |url: &str| Location::parse(url).expect("a location");
        let files = |url: &str| Files {
            table: Uuid::nil(),
            locations: vec![location(url)],
            privileges: Privileges { read: true, write: true, delete: true },
        };
        let key = "arn:aws:kms:eu-central-1:1:key/k";
        let policy_json =
            session_policy(&files("s3://b/w/t"), "aws-cn", Some(key)).expect("it is short");
        assert!(policy_json.contains("arn:aws-cn:s3:::b/w/t/*"));
        assert!(policy_json.contains(r#"["kms:Decrypt","kms:GenerateDataKey"]"#), "{policy_json}");
        let long = format!("s3://b/{}", "x".repeat(900));
        assert!(session_policy(&files(&long), "aws", None).is_err());
    }
}
