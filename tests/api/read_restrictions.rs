//! Restrictions on rows and columns, as `loadTable` returns them to clients.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::table::set_property;

const TABLES: &str = "/v1/default/namespaces/crm/tables";
const TABLE: &str = "/v1/default/namespaces/crm/tables/people";
/// The fields of `people`.
const REGION: i32 = 2;
const EMAIL: i32 = 3;
const BORN: i32 = 4;
const HOME: i32 = 5;
const STREET: i32 = 7;

fn people() -> Value {
    json!({ "name": "people", "schema": { "type": "struct", "fields": [
        { "id": 1, "name": "id", "required": true, "type": "long" },
        { "id": 2, "name": "region", "required": false, "type": "string" },
        { "id": 3, "name": "email", "required": false, "type": "string" },
        { "id": 4, "name": "born", "required": false, "type": "date" },
        { "id": 5, "name": "home", "required": false, "type": { "type": "struct", "fields": [
            { "id": 7, "name": "street", "required": false, "type": "string" },
            { "id": 8, "name": "rooms", "required": true, "type": "int" } ] } },
        { "id": 6, "name": "tags", "required": false, "type":
            { "type": "list", "element-id": 9, "element": "string", "element-required": true } },
    ] } })
}

/// Returns the policy that permits a role to read and change the tables of crm, with these
/// annotations.
fn reads(role: &str, annotations: &str) -> String {
    format!(
        "@id(\"{role}\")\n{annotations}\npermit (\n  principal in Role::\"{role}\",\n  action in \
         [Action::\"Read\", Action::\"Write\", Action::\"Register\"],\n  resource in \
         Namespace::\"default/crm\"\n);\n"
    )
}

/// Returns an annotation with its quoted value.
fn row_filter(expression: &Value) -> String {
    format!("@row_filter({})", Value::String(expression.to_string()))
}

fn column_mask(masks: &str) -> String {
    format!("@column_mask({})", Value::String(masks.to_owned()))
}

fn of_region(region: &str) -> Value {
    json!({ "type": "eq", "term": "region", "value": region })
}

/// Returns [`of_region`] in the form for clients.
fn of_region_by_id(region: &str) -> Value {
    json!({
        "type": "eq",
        "left": { "type": "reference", "id": REGION },
        "right": { "type": "literal", "value": region },
    })
}

/// Returns the names of an object's members, in alphabetical order.
fn members(object: &Value) -> Vec<&str> {
    let members = object.as_object().expect("an object").keys();
    let mut names: Vec<_> = members.map(String::as_str).collect();
    names.sort_unstable();
    names
}

async fn app(policies: &[String]) -> TestApp {
    let way_in = "@id(\"way-in\") permit (principal, action in Action::\"Browse\", resource == \
                  Warehouse::\"default\");\n";
    let app = TestApp::with_policies(&(way_in.to_owned() + &policies.concat()), |_| {}).await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["crm"] })).await.expect(200);
    app.post(TABLES, people()).await.expect(200);
    app
}

impl TestApp {
    /// Creates a key with all of these roles.
    async fn key_with_roles(&self, roles: &[&str]) -> String {
        self.make_key(json!({ "name": roles.join("-"), "roles": roles })).await.1
    }

    /// Returns the `read-restrictions` for a principal with these roles.
    async fn restrictions_of(&self, roles: &[&str]) -> Value {
        let key = self.key_with_roles(roles).await;
        self.get_as(&key, TABLE).await.expect(200).body["read-restrictions"].clone()
    }

    async fn load_with(&self, key: &str, path: &str, headers: &[(&str, &str)]) -> TestResponse {
        let bearer = format!("Bearer {key}");
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        self.request(Method::GET, path, &headers, &Value::Null).await
    }

    /// Commits to `people` as the admin.
    async fn change_people(&self, updates: Vec<Value>) {
        let body = json!({ "requirements": [], "updates": updates });
        self.post(TABLE, body).await.expect(200);
    }

    /// Replaces the columns of `people`.
    async fn change_columns(&self, fields: Value) {
        let schema = json!({ "type": "struct", "fields": fields });
        self.change_people(vec![
            json!({ "action": "add-schema", "schema": schema }),
            json!({ "action": "set-current-schema", "schema-id": -1 }),
        ])
        .await;
    }
}

#[tokio::test]
async fn filter_and_masks_are_returned_by_field_id() {
    let masks = column_mask("email: sha-256-global, home.street: replace-with-null");
    let policy = reads("eu", &format!("{}\n{masks}", row_filter(&of_region("EU"))));
    let app = app(&[policy]).await;
    let eu = app.key_with_role("eu").await;
    let response_body = app.get_as(&eu, TABLE).await.expect(200).body;
    assert_eq!(
        response_body["read-restrictions"],
        json!({
            "required-row-filter": of_region_by_id("EU"),
            "required-column-projections": [
                { "action": "sha-256-global", "field-id": EMAIL },
                { "action": "replace-with-null", "field-id": STREET },
            ],
        })
    );
    let whole = app.get(TABLE).await.expect(200).body;
    assert_eq!(response_body["metadata"], whole["metadata"]);
    assert_eq!(members(&whole), ["config", "metadata", "metadata-location"], "admins read all");
}

#[tokio::test]
async fn visible_rows_are_the_union_of_single_permits() {
    let email = column_mask("email: show-first-4");
    let app = app(&[
        reads("eu", &format!("{}\n{email}", row_filter(&of_region("EU")))),
        reads("us", &row_filter(&of_region("US"))),
        reads("tail", &column_mask("email: show-last-4")),
        reads("years", &column_mask("born: truncate-to-year")),
        reads("none", "@row_filter(\"false\")"),
        reads("steward", "@description(\"Reads everything.\")"),
    ])
    .await;
    let mask = |action: &str, id: i32| json!({ "action": action, "field-id": id });
    let both_regions =
        json!({ "type": "or", "left": of_region_by_id("EU"), "right": of_region_by_id("US") });
    let cases = [
        (&["us"][..], json!({ "required-row-filter": of_region_by_id("US") })),
        (
            &["eu", "us"],
            json!({
                "required-row-filter": both_regions,
                "required-column-projections": [mask("show-first-4", EMAIL)],
            }),
        ),
        (&["us", "tail"], json!({ "required-column-projections": [mask("show-last-4", EMAIL)] })),
        (&["eu", "tail"], json!({ "required-column-projections": [mask("mask-alphanum", EMAIL)] })),
        (
            &["tail", "years"],
            json!({ "required-column-projections":
                [mask("show-last-4", EMAIL), mask("truncate-to-year", BORN)] }),
        ),
        (&["none"], json!({ "required-row-filter": false })),
        (&["none", "us"], json!({ "required-row-filter": of_region_by_id("US") })),
        (&["eu", "us", "tail", "years", "steward"], Value::Null),
    ];
    for (roles, expected) in cases {
        assert_eq!(app.restrictions_of(roles).await, expected, "{roles:?}");
    }
}

#[tokio::test]
async fn every_mask_is_returned_for_the_types_that_it_supports() {
    let cases = [
        ("mask-alphanum", "email", EMAIL),
        ("mask-to-fixed-value", "home", HOME),
        ("mask-to-fixed-value", "id", 1),
        ("replace-with-null", "tags", 6),
        ("show-first-4", "email", EMAIL),
        ("show-last-4", "home.street", STREET),
        ("truncate-to-year", "born", BORN),
        ("truncate-to-month", "born", BORN),
        ("sha-256-global", "id", 1),
        ("sha-256-query-local", "tags.element", 9),
    ];
    let app = app(&[]).await;
    let key = app.key_with_role("masked").await;
    for (action, column, id) in cases {
        let policy = reads("masked", &column_mask(&format!("{column}: {action}")));
        app.put_policy("masked", &policy).await.expect(200);
        let response_body = app.get_as(&key, TABLE).await.expect(200).body;
        let expected = json!([{ "action": action, "field-id": id }]);
        assert_eq!(response_body["read-restrictions"]["required-column-projections"], expected);
    }
}

#[tokio::test]
async fn mask_of_a_struct_covers_its_nested_fields() {
    let masks = column_mask("home: mask-to-fixed-value, home.street: show-first-4");
    let app = app(&[reads("masked", &masks)]).await;
    assert_eq!(
        app.restrictions_of(&["masked"]).await["required-column-projections"],
        json!([{ "action": "mask-to-fixed-value", "field-id": HOME }])
    );
}

#[tokio::test]
async fn filter_that_cannot_be_expressed_hides_all_rows() {
    let cases = [
        json!({ "type": "eq", "term": "country", "value": "EU" }),
        json!({ "type": "eq", "term": "Region", "value": "EU" }),
        json!({ "type": "eq", "term": "region", "value": 7 }),
        json!({ "type": "eq", "term": "home", "value": "x" }),
        json!({ "type": "eq", "term": "tags.element", "value": "x" }),
        json!({ "type": "is-nan", "term": "region" }),
        json!({ "type": "starts-with", "term": "born", "value": "2000" }),
        json!({ "type": "lt", "term": "born", "value": "2000-02-30" }),
        json!({ "type": "not", "child": { "type": "is-null", "term": "country" } }),
        json!({ "type": "or", "left": { "type": "not-null", "term": "id" },
                "right": { "type": "is-null", "term": "country" } }),
    ];
    let app = app(&[reads("us", &row_filter(&of_region("US")))]).await;
    let key = app.key_with_role("filtered").await;
    for expression in cases {
        app.put_policy("filtered", &reads("filtered", &row_filter(&expression))).await.expect(200);
        let response_body = app.get_as(&key, TABLE).await.expect(200).body;
        let nothing = json!({ "required-row-filter": false });
        assert_eq!(response_body["read-restrictions"], nothing, "{expression}");
    }
    let both = app.restrictions_of(&["filtered", "us"]).await;
    assert_eq!(both, json!({ "required-row-filter": of_region_by_id("US") }));
}

#[tokio::test]
async fn table_that_cannot_be_masked_is_hidden() {
    let app = app(&[]).await;
    let key = app.key_with_role("masked").await;
    let cases = [
        ("mail: show-last-4", "there is no column mail to mask"),
        ("id: replace-with-null", "does not apply to column id of type required long"),
        ("born: show-first-4", "show-first-4 does not apply to column born of type date"),
    ];
    for (masks, reason) in cases {
        app.put_policy("masked", &reads("masked", &column_mask(masks))).await.expect(200);
        for path in [TABLE, "/v1/default/namespaces/crm/tables/people?snapshots=refs"] {
            let response = app.get_as(&key, path).await.expect_error(403, "ForbiddenException");
            let message = response.message();
            assert!(message.contains("crm.people") && message.contains("policy masked"));
            assert!(message.contains(reason), "{message}");
        }
    }
}

#[tokio::test]
async fn restrictions_follow_renamed_columns() {
    let annotations =
        format!("{}\n@column_mask(\"email: show-last-4\")", row_filter(&of_region("EU")));
    let app = app(&[reads("eu", &annotations), reads("us", &row_filter(&of_region("US")))]).await;
    let (eu, us) = (app.key_with_role("eu").await, app.key_with_role("us").await);
    let field = |id: i32, name: &str| json!({ "id": id, "name": name, "required": false, "type": "string" });
    let id = json!({ "id": 1, "name": "id", "required": true, "type": "long" });

    // The column of the filter was renamed, so the visible rows cannot be determined.
    app.change_columns(json!([id, field(2, "area"), field(3, "email")])).await;
    let response_body = app.get_as(&us, TABLE).await.expect(200).body;
    assert_eq!(response_body["read-restrictions"], json!({ "required-row-filter": false }));
    // The column of the mask was renamed, so its values would be visible.
    app.change_columns(json!([id, field(2, "region"), field(3, "mail")])).await;
    app.get_as(&eu, TABLE).await.expect_error(403, "ForbiddenException");
    app.change_columns(json!([id, field(2, "region")])).await;
    app.get_as(&eu, TABLE).await.expect_error(403, "ForbiddenException");
    let response_body = app.get_as(&us, TABLE).await.expect(200).body;
    assert_eq!(
        response_body["read-restrictions"],
        json!({ "required-row-filter": of_region_by_id("US") })
    );
}

#[tokio::test]
async fn etag_is_valid_only_for_the_same_read_access() {
    let app = app(&[
        reads("eu", &row_filter(&of_region("EU"))),
        reads("us", &row_filter(&of_region("US"))),
        reads("europe", &row_filter(&of_region("EU"))),
    ])
    .await;
    let admin = app.credential().to_owned();
    let mut keys = vec![admin];
    for role in ["eu", "us"] {
        keys.push(app.key_with_role(role).await);
    }
    let refs = format!("{TABLE}?snapshots=refs");
    let mut tags = Vec::new();
    for key in &keys {
        for path in [TABLE, &refs] {
            let tag = app.get_as(key, path).await.expect(200).header("etag").to_owned();
            assert!(!tags.contains(&(key, path, tag.clone())));
            tags.push((key, path, tag));
        }
    }
    for key in &keys {
        for path in [TABLE, &refs] {
            for (whose, of, tag) in &tags {
                let known = [("if-none-match", tag.as_str())];
                let status = app.load_with(key, path, &known).await.status.as_u16();
                let expected = if *whose == key && *of == path { 304 } else { 200 };
                assert_eq!(status, expected, "{tag}");
            }
        }
    }
    // Principals with the same restrictions get the same `ETag`.
    let europe = app.key_with_role("europe").await;
    let tag = app.get_as(&europe, TABLE).await.expect(200).header("etag").to_owned();
    assert!(tags.iter().any(|(whose, _, other)| **whose == keys[1] && *other == tag));
}

#[tokio::test]
async fn change_of_policies_invalidates_the_etag() {
    let app = app(&[]).await;
    let key = app.key_with_role("reader-of-crm").await;
    let put = async |annotations: &str| {
        let policy = reads("reader-of-crm", annotations);
        app.put_policy("reader-of-crm", &policy).await.expect(200);
    };
    put(&row_filter(&of_region("EU"))).await;
    let before = app.get_as(&key, TABLE).await.expect(200);
    let known = [("if-none-match", before.header("etag"))];
    app.load_with(&key, TABLE, &known).await.expect(304);

    put(&format!("@description(\"the same\")\n{}", row_filter(&of_region("EU")))).await;
    app.load_with(&key, TABLE, &known).await.expect(304);
    put(&row_filter(&of_region("US"))).await;
    let after = app.load_with(&key, TABLE, &known).await.expect(200).body;
    assert_eq!(after["read-restrictions"], json!({ "required-row-filter": of_region_by_id("US") }));
    put("").await;
    let whole = app.load_with(&key, TABLE, &known).await.expect(200).body;
    assert_eq!(whole.get("read-restrictions"), None);
}

#[tokio::test]
async fn cached_responses_differ_by_read_access_and_coding() {
    let app = app(&[reads("eu", &row_filter(&of_region("EU"))), reads("all", "")]).await;
    app.change_people(vec![set_property("long", &"x".repeat(20_000))]).await;
    let (eu, all) = (app.key_with_role("eu").await, app.key_with_role("all").await);
    for _ in 0..3 {
        for (key, expected) in [(&eu, of_region_by_id("EU")), (&all, Value::Null)] {
            let plain = app.get_as(key, TABLE).await.expect(200);
            assert_eq!(plain.body["read-restrictions"]["required-row-filter"], expected);
            let coded = app.load_with(key, TABLE, &[("accept-encoding", "gzip")]).await.expect(200);
            assert_eq!(coded.header("content-encoding"), "gzip");
            let weak = [("if-none-match", coded.header("etag"))];
            app.load_with(key, TABLE, &weak).await.expect(304);
        }
    }
}

#[tokio::test]
async fn response_to_create_contains_the_read_restrictions() {
    let app = app(&[
        reads("eu", &row_filter(&of_region("EU"))),
        reads("masked", "@column_mask(\"nothing: show-last-4\")"),
        "@id(\"maker\") permit (principal in Role::\"maker\", action == Action::\"Create\", resource);\n"
            .to_owned(),
    ])
    .await;
    let eu = app.key_with_role("eu").await;
    let create = async |key: &str, name: &str, stage: bool| {
        let mut body = people();
        body["name"] = json!(name);
        body["stage-create"] = json!(stage);
        app.request_as(key, Method::POST, TABLES, &body).await.expect(200)
    };
    let filter = json!({ "required-row-filter": of_region_by_id("EU") });
    assert_eq!(create(&eu, "staged", true).await.body["read-restrictions"], filter);
    let created = create(&eu, "made", false).await;
    assert_eq!(created.body["read-restrictions"], filter);
    let known = [("if-none-match", created.header("etag"))];
    app.load_with(&eu, &format!("{TABLES}/made"), &known).await.expect(304);
    let admin = app.credential();
    app.load_with(admin, &format!("{TABLES}/made"), &known).await.expect(200);

    app.delete(&format!("{TABLES}/made")).await.expect(204);
    let body =
        json!({ "name": "registered", "metadata-location": created.body["metadata-location"] });
    let register = "/v1/default/namespaces/crm/register";
    let registered = app.request_as(&eu, Method::POST, register, &body).await.expect(200);
    assert_eq!(registered.body["read-restrictions"], filter);

    // The table was created, so the response reports success. However, one role has a mask for a
    // missing column, and the other may not load tables. So the restriction in the response allows
    // no rows.
    let nothing = json!({ "required-row-filter": false });
    for role in ["masked", "maker"] {
        let key = app.key_with_role(role).await;
        assert_eq!(create(&key, role, false).await.body["read-restrictions"], nothing, "{role}");
    }
}

#[tokio::test]
async fn restrictions_on_attributes_apply_to_the_creator() {
    let tagged = |tag: &str| format!("when {{ resource.hasTag(\"{tag}\") }};");
    let with = |role: &str, annotations: &str, condition: &str| {
        reads(role, annotations).replace(';', condition)
    };
    let app = app(&[
        with("open", "", &tagged("open")),
        with("closed", &row_filter(&of_region("EU")), &tagged("closed")),
    ])
    .await;
    let key = app.key_with_roles(&["open", "closed"]).await;
    let create = async |tags: &[&str], stage: bool| {
        let mut body = people();
        body["name"] = json!(tags.join("-"));
        body["stage-create"] = json!(stage);
        body["properties"] = tags.iter().map(|tag| ((*tag).to_owned(), json!("yes"))).collect();
        let response_body =
            app.request_as(&key, Method::POST, TABLES, &body).await.expect(200).body;
        response_body["read-restrictions"].clone()
    };
    for stage in [true, false] {
        let filtered = json!({ "required-row-filter": of_region_by_id("EU") });
        assert_eq!(create(&["closed"], stage).await, filtered);
        assert_eq!(create(&["open", "closed"], stage).await, Value::Null);
    }
}

#[tokio::test]
async fn restricted_caller_gets_no_credentials() {
    let way_in = "@id(\"way-in\") permit (principal, action in Action::\"Browse\", resource == \
                  Warehouse::\"default\");\n";
    let policies = way_in.to_owned() + &reads("eu", &row_filter(&of_region("EU")));
    let secrets =
        ["s3.access-key-id", "s3.secret-access-key", "gcs.oauth2.token", "adls.sas-token.a"];
    let app = TestApp::with_policies(&policies, |settings| {
        let warehouse = settings.warehouses.get_mut("default").expect("there is one");
        for secret in secrets {
            warehouse.client_defaults.insert(secret.to_owned(), "secret".to_owned());
            warehouse.client_overrides.insert(secret.to_owned(), "secret".to_owned());
        }
    })
    .await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["crm"] })).await.expect(200);
    let eu = app.key_with_role("eu").await;
    let response_body = app.request_as(&eu, Method::POST, TABLES, &people()).await.expect(200).body;
    let loaded = app.get_as(&eu, TABLE).await.expect(200).body;
    for told in [response_body, loaded] {
        assert_eq!(
            members(&told),
            ["config", "metadata", "metadata-location", "read-restrictions"]
        );
        assert_eq!(told["config"], json!({}), "neither credentials nor a signer");
    }
}

#[tokio::test]
async fn grant_of_a_template_with_a_filter_is_restricted() {
    let template = format!(
        "@id(\"grant-eu\")\n{}\npermit (principal in ?principal, action in Action::\"Read\", \
         resource in ?resource);\n",
        row_filter(&of_region("EU"))
    );
    let app = app(&[template]).await;
    let grant = json!({
        "template": "grant-eu", "grantee": "role:analysts", "resource": "table:default/crm/people",
    });
    app.post("/management/v1/grants", grant).await.expect(201);
    assert_eq!(
        app.restrictions_of(&["analysts"]).await,
        json!({ "required-row-filter": of_region_by_id("EU") })
    );
    // The restriction has no effect on a principal that also has an unrestricted permission.
    assert_eq!(app.restrictions_of(&["analysts", "reader"]).await, Value::Null);
}

#[tokio::test]
async fn policy_with_an_invalid_read_annotation_is_rejected() {
    let app = app(&[]).await;
    let response = async |annotations: &str, expected: &str| {
        let answer = app.put_policy("eu", &reads("eu", annotations)).await;
        let answer = answer.expect_error(400, "IllegalArgumentException");
        assert!(answer.message().contains(expected), "{}", answer.message());
    };
    response("@row_filters(\"false\")", "@row_filters: expected @id or @description").await;
    response("@row_filter(\"region = 'EU'\")", "@row_filter: Cannot parse expression").await;
    response("@column_mask(\"email: hide\")", "there is no mask hide: expected one of").await;
    response("@column_mask(\"email\")", "expected 'column: mask', got 'email'").await;
    assert_eq!(app.policies_of("api").await, Vec::<String>::new());
}

#[tokio::test]
async fn explain_returns_restrictions_as_written() {
    let annotations =
        format!("{}\n@column_mask(\"email: show-last-4\")", row_filter(&of_region("EU")));
    let app =
        app(&[reads("eu", &annotations), reads("tail", "@column_mask(\"email: show-last-4\")")])
            .await;
    let eu_rule = json!({
        "policy": "eu", "row-filter": of_region("EU"), "column-masks": { "email": "show-last-4" },
    });
    let question = |roles: &[&str], action: &str| {
        json!({
            "action": action, "resource": "table:default/crm/people",
            "principal": { "user": "corp/ann", "roles": roles },
        })
    };
    let ask = async |roles: &[&str], action: &str| {
        app.post("/management/v1/authorize", question(roles, action)).await.expect(200).body
    };
    assert_eq!(ask(&["eu"], "Load").await["read-rules"], json!([eu_rule]));
    let both = ask(&["eu", "tail"], "Load").await;
    let tail =
        json!({ "policy": "tail", "row-filter": true, "column-masks": { "email": "show-last-4" } });
    assert_eq!(both["read-rules"], json!([eu_rule, tail]));
    for (roles, action) in [(&["eu", "reader"][..], "Load"), (&["eu"], "Drop"), (&[], "Load")] {
        assert_eq!(ask(roles, action).await.get("read-rules"), None, "{roles:?} {action}");
    }
    let path = "/management/v1/permissions?resource=table:default/crm/people&user=corp/ann&role=eu";
    assert_eq!(app.get(path).await.expect(200).body["read-rules"], json!([eu_rule]));
}
