//! Tests of requests that are signed, and of attacks.

use std::collections::BTreeMap;

use super::*;
use crate::location::Location;
use crate::vend::files::Privileges;

const OWN: &str = "w/ns/t-1";
const MINIO: &str = "http://127.0.0.1:9000";
const OF_ITS_OWN: &str = "http://s3.corp";
const AWS: &str = "https://s3.eu-central-1.amazonaws.com";
const READ: Privileges = Privileges { read: true, write: false, delete: false };
const WRITE: Privileges = Privileges { read: false, write: true, delete: true };
const BOTH: Privileges = Privileges { read: true, write: true, delete: true };

fn signer(endpoint: Option<&str>) -> Signer {
    signer_with(endpoint, &[])
}

fn signer_with(endpoint: Option<&str>, more: &[(&str, &str)]) -> Signer {
    let mut options = BTreeMap::from([
        ("aws_region".to_owned(), "eu-central-1".to_owned()),
        ("aws_access_key_id".to_owned(), "AKIDEXAMPLE".to_owned()),
        ("aws_secret_access_key".to_owned(), "wJalrXUtnFEMI".to_owned()),
        ("aws_allow_http".to_owned(), "true".to_owned()),
    ]);
    if let Some(endpoint) = endpoint {
        options.insert("aws_endpoint".to_owned(), endpoint.to_owned());
    }
    options.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let location = Location::parse("s3://lake/w").expect("a location");
    Signer::new(S3Store::open(&location, &options).expect("it opens"))
}

fn request(method: &str, uri: &str) -> SignRequest {
    SignRequest {
        method: method.to_owned(),
        region: "eu-central-1".to_owned(),
        uri: uri.to_owned(),
        ..Default::default()
    }
}

async fn sign(
    endpoint: Option<&str>,
    request: &SignRequest,
    privileges: Privileges,
) -> Result<Signed, SignError> {
    let locations = [Location::parse(&format!("s3://lake/{OWN}")).expect("a location")];
    let allowed = Allowed { locations: &locations, privileges };
    let signer = signer(endpoint);
    let checked = signer.check(request, &allowed)?;
    signer.sign(&checked, Some(&vended()), 1_800_000_000_000).await
}

/// Returns credentials for the table only.
fn vended() -> BTreeMap<String, Secret> {
    let all = [
        ("s3.access-key-id", "ASIAEXAMPLE"),
        ("s3.secret-access-key", "wJalrXUtnFEMI"),
        ("s3.session-token", "token"),
    ];
    all.map(|(key, value)| (key.to_owned(), Secret::new(value))).into()
}

async fn status(endpoint: Option<&str>, request: &SignRequest, privileges: Privileges) -> u16 {
    match sign(endpoint, request, privileges).await {
        Ok(_) => 200,
        Err(SignError::Invalid(_)) => 400,
        Err(SignError::NotAllowed(_)) => 403,
        Err(SignError::Unavailable(reason)) => panic!("{reason}"),
    }
}

#[tokio::test]
async fn write_access_without_delete_signs_no_deletion() {
    let o = format!("{MINIO}/lake/{OWN}");
    let keeps = Privileges { delete: false, ..BOTH };
    for (method, rest, expected) in [
        ("PUT", "data/x", 200),
        ("DELETE", "data/x?uploadId=abc", 200),
        ("DELETE", "data/x", 403),
        ("DELETE", "data/x?x-id=DeleteObject", 403),
    ] {
        let one = request(method, &format!("{o}/{rest}"));
        assert_eq!(status(Some(MINIO), &one, keeps).await, expected, "{method} {rest}");
    }
    let several = SignRequest {
        body: Some(format!("<Delete><Object><Key>{OWN}/a</Key></Object></Delete>")),
        ..request("POST", &format!("{MINIO}/lake?delete"))
    };
    assert_eq!(status(Some(MINIO), &several, keeps).await, 403);
}

#[tokio::test]
async fn requests_of_engines_are_signed() {
    let o = format!("lake/{OWN}");
    for (method, rest, privileges) in [
        ("GET", format!("{o}/data/x.parquet"), READ),
        ("GET", format!("{o}/data/x.parquet?x-id=GetObject"), READ),
        ("HEAD", format!("{o}/metadata/v1.json"), READ),
        ("GET", "lake?list-type=2&prefix=w%2Fns%2Ft-1%2Fdata%2F&delimiter=%2F".to_owned(), READ),
        (
            "GET",
            "lake/?list-type=2&prefix=w/ns/t-1/&max-keys=10&encoding-type=url".to_owned(),
            READ,
        ),
        ("PUT", format!("{o}/data/x"), WRITE),
        ("PUT", format!("{o}/data/x?partNumber=1&uploadId=abc"), WRITE),
        ("POST", format!("{o}/data/x?uploads"), WRITE),
        ("POST", format!("{o}/data/x?uploads="), WRITE),
        ("POST", format!("{o}/data/x?uploadId=abc"), WRITE),
        ("GET", format!("{o}/data/x?uploadId=abc"), WRITE),
        ("DELETE", format!("{o}/data/x?uploadId=abc"), WRITE),
        ("DELETE", format!("{o}/data/x"), WRITE),
        // Values of partitions are encoded in the key.
        ("PUT", format!("{o}/data/ts=2020-01-01T00%253A00/a%252Fb"), WRITE),
        ("PUT", format!("{o}/data/a%20b%2Bc+%C3%BC"), WRITE),
    ] {
        let one = request(method, &format!("{MINIO}/{rest}"));
        assert_eq!(status(Some(MINIO), &one, privileges).await, 200, "{method} {rest}");
        let other = Privileges {
            read: !privileges.read,
            write: !privileges.write,
            delete: !privileges.delete,
        };
        assert_eq!(status(Some(MINIO), &one, other).await, 403, "{method} {rest}");
    }
}

#[tokio::test]
async fn request_outside_of_the_table_is_rejected() {
    let o = format!("{MINIO}/lake/{OWN}");
    for (method, uri, expected) in [
        // Other keys.
        ("GET", format!("{MINIO}/lake/w/ns/t-2/x"), 403),
        ("GET", format!("{MINIO}/lake/w/ns/t-10/x"), 403),
        ("GET", format!("{MINIO}/lake/{OWN}"), 403),
        ("GET", format!("{MINIO}/other/{OWN}/x"), 403),
        ("GET", format!("{MINIO}/lake//{OWN}/x"), 403),
        ("GET", format!("{MINIO}//lake/{OWN}/x"), 403),
        ("GET", format!("{o}/../t-2/x"), 403),
        ("GET", format!("{o}/%2e%2e/t-2/x"), 403),
        ("GET", format!("{o}/..%2ft-2/x"), 403),
        ("GET", format!("{o}/%252e%252e/t-2/x"), 403),
        ("GET", format!("{o}/%25252e%25252e/t-2/x"), 403),
        ("GET", format!("{o}/./x"), 403),
        ("GET", format!("{o}//x"), 403),
        ("GET", format!("{o}/a%5C..%5Cb"), 403),
        ("GET", format!("{o}/a%255Cb"), 403),
        ("GET", format!("{o}/a\\b"), 400),
        ("GET", format!("{o}/a%00"), 400),
        ("GET", format!("{o}/a%2500"), 403),
        ("GET", format!("{o}/a%0d%0aX: y"), 400),
        ("GET", format!("{o}/a%zz"), 400),
        ("GET", format!("{o}/a%"), 400),
        ("GET", format!("{o}/a%c3%28"), 400),
        ("GET", format!("{o}/x#y"), 400),
        // Other hosts.
        ("GET", format!("http://127.0.0.1:9001/lake/{OWN}/x"), 403),
        ("GET", format!("https://127.0.0.1:9000/lake/{OWN}/x"), 403),
        ("GET", format!("http://evil.example/lake/{OWN}/x"), 403),
        ("GET", format!("http://127.0.0.1:9000@evil.example/lake/{OWN}/x"), 403),
        ("GET", format!("http://u@127.0.0.1:9000/lake/{OWN}/x"), 403),
        ("GET", format!("http://other.127.0.0.1:9000/{OWN}/x"), 403),
        ("GET", format!("file:///lake/{OWN}/x"), 403),
        ("GET", format!("/lake/{OWN}/x"), 400),
        ("GET", String::new(), 400),
        // Other requests.
        ("GET", MINIO.to_owned(), 403),
        ("GET", format!("{MINIO}/lake"), 403),
        ("GET", format!("{MINIO}/lake?prefix=w/ns/t-1/"), 403),
        ("GET", format!("{MINIO}/lake?list-type=2"), 403),
        ("GET", format!("{MINIO}/lake?list-type=2&prefix=w/ns/t-1"), 403),
        ("GET", format!("{MINIO}/lake?list-type=2&prefix=w/ns/"), 403),
        ("GET", format!("{MINIO}/lake?list-type=2&prefix=w/ns/t-1/&prefix="), 403),
        ("GET", format!("{MINIO}/lake?list-type=2&prefix=w/ns/t-1/&versions"), 403),
        ("GET", format!("{MINIO}/lake?list-type=2&prefix=w/ns/t-1/../"), 403),
        ("GET", format!("{MINIO}/lake?policy"), 403),
        ("GET", format!("{o}/x?acl"), 403),
        ("GET", format!("{o}/x?versionId=1"), 403),
        ("GET", format!("{o}/x?response-content-type=text/html"), 403),
        ("GET", format!("{o}/x?X-Amz-Signature=1"), 403),
        ("PUT", format!("{o}/x?acl"), 403),
        ("PUT", format!("{o}/x?tagging"), 403),
        ("PUT", format!("{o}/x?partNumber=1"), 403),
        ("PUT", format!("{MINIO}/lake"), 403),
        ("POST", format!("{o}/x"), 403),
        ("POST", format!("{o}/x?restore"), 403),
        ("POST", format!("{o}/x?select&select-type=2"), 403),
        ("DELETE", format!("{o}/x?versionId=1"), 403),
        ("DELETE", format!("{MINIO}/lake"), 403),
        ("PATCH", format!("{o}/x"), 400),
        ("get", format!("{o}/x"), 400),
        ("GET", format!("{o}/x?x-id=ListBuckets"), 403),
    ] {
        let one = request(method, &uri);
        assert_eq!(status(Some(MINIO), &one, BOTH).await, expected, "{method} {uri}");
    }
    let elsewhere =
        SignRequest { region: "us-east-1".to_owned(), ..request("GET", &format!("{o}/x")) };
    assert_eq!(status(Some(MINIO), &elsewhere, BOTH).await, 400);
}

#[tokio::test]
async fn headers_with_effects_are_rejected_and_others_are_not_signed() {
    let uri = format!("{MINIO}/lake/{OWN}/x");
    let with = |name: &str, value: &str| SignRequest {
        headers: BTreeMap::from([(name.to_owned(), vec![value.to_owned()])]),
        ..request("PUT", &uri)
    };
    for (name, value, expected) in [
        ("x-amz-copy-source", "/lake/w/ns/t-2/x", 403),
        ("X-Amz-Copy-Source", "/lake/w/ns/t-2/x", 403),
        ("x-amz-acl", "public-read", 403),
        ("x-amz-grant-read", "uri=http://acs.amazonaws.com/groups/global/AllUsers", 403),
        ("x-amz-security-token", "t", 403),
        ("x-amz-website-redirect-location", "/x", 403),
        ("x-amz-tagging", "a=b", 403),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", 400),
        ("x-amz-content-sha256", "x", 400),
        ("x-amz-meta-snowball-auto-extract", "true", 403),
        ("x-amz-checksum-crc32", "a\r\nb: c", 400),
        ("host", "evil.example", 403),
        ("host", "127.0.0.1:9000", 200),
        ("x-amz-checksum-crc32", "AAAAAA==", 200),
        ("x-amz-storage-class", "STANDARD_IA", 200),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", 200),
        ("user-agent", "x", 200),
    ] {
        assert_eq!(status(Some(MINIO), &with(name, value), WRITE).await, expected, "{name}");
    }
    let signed = sign(Some(MINIO), &with("Range", "bytes=0-1"), WRITE).await.expect("it is signed");
    let authorization = &signed.headers["authorization"][0];
    assert!(
        authorization
            .contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,")
    );
    assert!(!authorization.contains("wJalrXUtnFEMI"));
}

#[tokio::test]
async fn delete_objects_signs_its_body() {
    let uri = format!("{MINIO}/lake?delete");
    let with = |body: Option<&str>| SignRequest {
        body: body.map(ToOwned::to_owned),
        ..request("POST", &uri)
    };
    let own = format!("<Delete><Object><Key>{OWN}/a</Key></Object></Delete>");
    let signed = sign(Some(MINIO), &with(Some(&own)), WRITE).await.expect("it is signed");
    assert_eq!(signed.headers["x-amz-content-sha256"][0].len(), 64, "it is that of the body");
    // A store might not compare the body with the signature, so this requires credentials for the
    // table.
    let locations = [Location::parse(&format!("s3://lake/{OWN}")).expect("a location")];
    let (minio, allowed) =
        (signer(Some(MINIO)), Allowed { locations: &locations, privileges: WRITE });
    let checked = minio.check(&with(Some(&own)), &allowed).expect("it is good in itself");
    let rejection = minio.sign(&checked, None, 0).await;
    assert!(matches!(rejection, Err(SignError::Invalid(_))));
    let evil = format!(
        "<Delete><Object><Key>{OWN}/a</Key></Object><Object><Key>w/b</Key></Object></Delete>"
    );
    assert_eq!(status(Some(MINIO), &with(Some(&evil)), WRITE).await, 403);
    assert_eq!(status(Some(MINIO), &with(Some("x")), WRITE).await, 400);
    assert_eq!(status(Some(MINIO), &with(None), WRITE).await, 400);
    assert_eq!(status(Some(MINIO), &with(Some(&own)), READ).await, 403);
}

#[tokio::test]
async fn aws_is_known_by_the_names_of_its_hosts() {
    let s3 = "eu-central-1.amazonaws.com";
    for (uri, expected) in [
        (format!("{AWS}/lake/{OWN}/x"), 200),
        (format!("https://lake.s3.{s3}/{OWN}/x"), 200),
        (format!("https://lake.s3.dualstack.{s3}/{OWN}/x"), 200),
        (format!("https://lake.s3.{s3}:443/{OWN}/x"), 200),
        (format!("https://LAKE.S3.{s3}/{OWN}/x"), 200),
        (format!("https://other.s3.{s3}/{OWN}/x"), 403),
        (format!("https://x.lake.s3.{s3}/{OWN}/x"), 403),
        (format!("https://lake.s3.us-east-1.amazonaws.com/{OWN}/x"), 403),
        (format!("https://lake.s3.{s3}.evil.example/{OWN}/x"), 403),
        (format!("https://lakes3.{s3}/{OWN}/x"), 403),
        (format!("http://lake.s3.{s3}/{OWN}/x"), 403),
    ] {
        assert_eq!(status(None, &request("GET", &uri), READ).await, expected, "{uri}");
    }
}

#[test]
fn custom_endpoint_accepts_only_its_addressing_style() {
    let by_path = signer(Some(OF_ITS_OWN));
    let by_host = [("aws_virtual_hosted_style_request", "true")];
    // The endpoint may include the bucket.
    let by_host = [OF_ITS_OWN, "http://lake.s3.corp"].map(|it| signer_with(Some(it), &by_host));
    let checks = |signer: &Signer, uri: &str| {
        // The location of the table looks like a bucket, unless the host distinguishes them.
        let locations = [Location::parse("s3://lake/finance/x").expect("a location")];
        let allowed = Allowed { locations: &locations, privileges: BOTH };
        match signer.check(&request("GET", uri), &allowed) {
            Ok(_) => true,
            Err(SignError::NotAllowed(_)) => false,
            Err(other) => panic!("{uri}: {other}"),
        }
    };
    for (uri, path, host) in [
        ("http://s3.corp/lake/finance/x/key", true, false),
        ("http://s3.corp/lake?list-type=2&prefix=finance/x/", true, false),
        // In path style, these are the key `x/key` of the bucket `finance`, and a list of all
        // buckets.
        ("http://lake.s3.corp/finance/x/key", false, true),
        ("http://lake.s3.corp/?list-type=2&prefix=finance/x/", false, true),
        ("http://lake.s3.corp?list-type=2&prefix=finance/x/", false, true),
        ("http://LAKE.s3.corp/finance/x/key", false, true),
        ("http://lake.s3.corp/lake/finance/x/key", false, false),
        ("http://s3.corp/finance/x/key", false, false),
        ("http://s3.corp/?list-type=2&prefix=finance/x/", false, false),
        ("http://lake.lake.s3.corp/finance/x/key", false, false),
    ] {
        assert_eq!(checks(&by_path, uri), path, "{uri}");
        for signer in &by_host {
            assert_eq!(checks(signer, uri), host, "{uri}");
        }
    }
}

#[tokio::test]
async fn uri_is_signed_in_canonical_form() {
    let uri = format!("{MINIO}/lake/{OWN}/a%2Bb+c%7E%C3%BC=1?x-id=GetObject");
    let signed = sign(Some(MINIO), &request("GET", &uri), READ).await.expect("it is signed");
    let expected = format!("{MINIO}/lake/{OWN}/a%2Bb%2Bc~%C3%BC%3D1?x-id=GetObject");
    assert_eq!(signed.uri, expected);
    assert!(signed.cacheable);
}
