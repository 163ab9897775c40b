//! Policies for the principals that the host names, with the same audit log and metrics as for
//! requests.

use std::collections::BTreeMap;
use std::path::Path;

use iceberg::{Catalog, ErrorKind};
use serde_json::Value;
use slateberg_authn::issuers::Issuers;
use slateberg_authn::settings::IssuerSettings;
use slateberg_authz::bundled::default_policies;
use slateberg_catalog::ReadAccess;
use slateberg_embedded::{EmbeddedCatalog, Error, Identity, IdentityKind, cause};
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_telemetry::settings::AuditTo;

use crate::support::app::memory_settings;
use crate::support::bucket::bucket;
use crate::support::embedded::{
    builder_on, make_table, namespace, open_on, set_property, settings_in, with_any_files,
};

/// The id of a principal from a token begins with the name of its issuer, so no issuer may have the
/// name of embedded principals.
#[test]
fn embedded_principals_need_no_issuer() {
    let named = |name: &str| BTreeMap::from([(name.to_owned(), IssuerSettings::default())]);
    let error = Issuers::new(&named("embedded")).err().expect("it is reserved").to_string();
    assert!(error.contains("reserved for programs that embed the catalog"), "{error}");
}

fn with_role(role: &str) -> Identity {
    Identity::embedded(role).with_roles([role])
}

#[tokio::test]
async fn read_only_principal_gets_a_permission_error_on_writes() {
    let opened = open_on(bucket()).await;
    let t = make_table(&with_any_files(&opened)).await;
    let reader = with_any_files(&opened.acting_as(with_role("reader")));
    reader.load_table(&t).await.expect("readers read");
    let ns = namespace(&["ns"]);
    let denied = [
        reader.drop_table(&t).await,
        reader.drop_namespace(&ns).await,
        reader.update_namespace(&ns, Default::default()).await,
        reader.create_namespace(&namespace(&["other"]), Default::default()).await.map(|_| ()),
        set_property(&reader, &t, ("a", "1")).await.map(|_| ()),
    ];
    for denied in denied {
        let error = denied.expect_err("readers change nothing");
        assert_eq!((error.kind(), error.retryable()), (ErrorKind::PreconditionFailed, false));
        assert!(error.message().starts_with("Permission denied: "), "{error}");
        assert!(matches!(cause(&error), Some(Error::Forbidden(_))), "{error}");
    }
}

#[tokio::test]
async fn hidden_table_does_not_exist() {
    let opened = open_on(bucket()).await;
    let t = make_table(&with_any_files(&opened)).await;
    let nobody = with_any_files(&opened.acting_as(Identity::embedded("nobody")));
    // A principal without permissions gets an error that reports this.
    let error = nobody.load_table(&t).await.expect_err("it has no permissions");
    assert!(matches!(cause(&error), Some(Error::Forbidden(_))), "{error}");
    assert!(error.message().contains("has no permissions in this catalog"), "{error}");
    let elsewhere = opened.in_warehouse("elsewhere").warehouse();
    assert_eq!(elsewhere.err(), Some(Error::NoSuchWarehouse("elsewhere".to_owned())));
}

/// Policies see the identity exactly as the host defined it.
#[tokio::test]
async fn policies_evaluate_the_principal_of_the_host() {
    let directory = tempfile::tempdir().expect("there is room");
    let own = r#"
        @id("alice")
        permit (principal == User::"corp/alice", action, resource)
        when { context.authentication == "embedded" };
        @id("only-some-rows")
        @row_filter("{\"type\":\"eq\",\"term\":\"id\",\"value\":7}")
        permit (principal in Role::"some-rows", action in Action::"Read", resource);
    "#;
    let settings = with_policies(memory_settings(), directory.path(), own);
    let opened = builder_on(bucket(), settings).open().await.expect("it opens");
    let alice = Identity {
        kind: IdentityKind::User,
        id: "corp/alice".to_owned(),
        ..Identity::embedded("alice")
    };
    let alice = with_any_files(&opened.acting_as(alice));
    let t = make_table(&alice).await;
    let bob = with_any_files(&opened.acting_as(Identity::embedded("corp/alice")));
    bob.load_table(&t).await.expect_err("a service account is no user");

    // The `iceberg` crate would scan all rows, so only the typed API supports restrictions.
    let some_rows = opened.acting_as(with_role("some-rows"));
    let error = with_any_files(&some_rows).load_table(&t).await.expect_err("it is restricted");
    assert_eq!(error.kind(), ErrorKind::FeatureUnsupported);
    let t = TabularIdent { namespace: NamespaceIdent(vec!["ns".into()]), name: "t".into() };
    let loaded = some_rows.load_table(&t).await.expect("it may be read in part");
    assert!(matches!(loaded.access, ReadAccess::Restricted { .. }));
}

fn with_policies(
    mut settings: slateberg_embedded::Settings,
    directory: &Path,
    own: &str,
) -> slateberg_embedded::Settings {
    let mut files: Vec<_> = default_policies().into_iter().map(|it| (it.name, it.text)).collect();
    files.push(("own.cedar".to_owned(), own.to_owned()));
    for (name, text) in files {
        let name = name.rsplit('/').next().expect("a file has a name").to_owned();
        std::fs::write(directory.join(name), text).expect("it is written");
    }
    settings.authz.policy_paths = vec![directory.to_owned()];
    settings
}

#[tokio::test]
async fn audit_log_contains_embedded_calls() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("audit.jsonl");
    let mut settings = settings_in(&directory.path().join("catalog"));
    settings.audit.to = AuditTo::File;
    settings.audit.file = file.clone();
    let opened = EmbeddedCatalog::open(settings).await.expect("it opens");
    let t = make_table(&opened.as_iceberg()).await;
    let reader = opened.acting_as(with_role("reader")).as_iceberg();
    reader.drop_table(&t).await.expect_err("readers change nothing");
    opened.close().await.expect("it closes");

    let text = std::fs::read_to_string(file).expect("there is a log");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found = lines.map(|line| {
        let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
        assert!(!text("request-id").is_empty(), "{line}");
        [text("event"), text("action"), text("principal"), text("method")]
    });
    let found: Vec<_> = found.collect();
    let found: Vec<_> = found.iter().map(|line| line.each_ref().map(String::as_str)).collect();
    assert_eq!(
        found,
        [
            ["change", "create_namespace", "embedded/host", "embedded"],
            ["change", "create_table", "embedded/host", "embedded"],
            ["denial", "Drop", "embedded/reader", "embedded"],
        ]
    );
}
