//! The banner that a server prints once it is ready: its address, and snippets for clients.

use std::collections::BTreeMap;

use serde_json::json;

use super::App;
use super::run::PortUrls;
use slateberg_base::rfc3339;
use slateberg_base::version::VERSION;
use slateberg_store::records::CloneOf;

/// Renders the banner for people.
pub fn banner(app: &App, urls: &PortUrls) -> String {
    let uri = &urls.clients;
    let warehouse = &app.runtime.settings.default_warehouse;
    let served = app.runtime.catalog.warehouses().served();
    let warehouses: Vec<_> = served
        .all()
        .map(|entry| &entry.warehouse)
        .map(|warehouse| {
            format!("  warehouse   {:<12} {}", warehouse.name, warehouse.storage.location)
        })
        .collect();
    let access = AccessInfo::of(app);
    format!(
        r#"slateberg {version} is ready at {uri}
  state       {state}
{clone}{log}{management}{warehouses}
  access      {access_line}

PyIceberg   pip install 'pyiceberg[pyarrow]'

  from pyiceberg.catalog import load_catalog
  catalog = load_catalog("slateberg", type="rest", uri="{uri}", warehouse="{warehouse}"{python})
  catalog.create_namespace_if_not_exists("demo")

Spark

  spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 \
    --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \
    --conf spark.sql.catalog.slateberg=org.apache.iceberg.spark.SparkCatalog \
    --conf spark.sql.catalog.slateberg.type=rest \
    --conf spark.sql.catalog.slateberg.uri={uri} \
    --conf spark.sql.catalog.slateberg.warehouse={warehouse} \
{spark}    --conf spark.sql.defaultCatalog=slateberg
"#,
        version = VERSION,
        state = app.runtime.state_url,
        management = management_line(urls.operators.clone()),
        clone = app.runtime.catalog.clone_of().map(clone_line).unwrap_or_default(),
        log = log_line(&app.runtime.settings.state.wal_url),
        warehouses = warehouses.join("\n"),
        access_line = access.line,
        python = access.python,
        spark = access.spark,
    )
}

/// Renders the banner for machines as one line of JSON. On the first start, it contains the admin
/// key.
pub fn banner_line(app: &App, urls: &PortUrls) -> String {
    let served = app.runtime.catalog.warehouses().served();
    let warehouses: BTreeMap<_, _> = served
        .all()
        .map(|entry| (&entry.warehouse.name, entry.warehouse.storage.location.to_string()))
        .collect();
    let fields = json!({
        "message": "ready",
        "version": VERSION,
        "url": urls.clients,
        "management-url": urls.operators,
        "state": app.runtime.state_url,
        "warehouses": warehouses,
        "admin-key": app.runtime.minted_key.as_ref().map(|key| key.reveal()),
    });
    let line = json!({
        "timestamp": rfc3339::format(app.runtime.catalog.now_ms()),
        "level": "INFO",
        "target": "slateberg::ready",
        "fields": fields,
    });
    format!("{line}\n")
}

/// Renders the banner of a standby for people.
pub fn standby_banner(urls: &PortUrls, state_url: &str, writer: &str) -> String {
    format!(
        "slateberg {VERSION} is ready at {}\n  state       {state_url}\n{}  cluster     standby; the writer is {writer}\n",
        urls.clients,
        management_line(urls.operators.clone()),
    )
}

/// Renders the banner of a standby for machines as one line of JSON.
pub fn standby_banner_line(urls: &PortUrls, state_url: &str, writer: &str, now_ms: i64) -> String {
    let fields = json!({
        "message": "ready",
        "version": VERSION,
        "url": urls.clients,
        "management-url": urls.operators,
        "state": state_url,
        "role": "standby",
        "writer": writer,
    });
    let line = json!({
        "timestamp": rfc3339::format(now_ms),
        "level": "INFO",
        "target": "slateberg::ready",
        "fields": fields,
    });
    format!("{line}\n")
}

/// The management URL, if there is a separate port for operators.
fn management_line(url: Option<String>) -> String {
    url.map(|url| format!("  management  {url}\n")).unwrap_or_default()
}

/// The parent and its state, if this catalog is a clone.
fn clone_line(clone: &CloneOf) -> String {
    let (parent, as_of) = (&clone.parent_url, rfc3339::format(clone.as_of_ms));
    format!("  clone       of {parent} at {as_of}; never deletes table files\n")
}

/// The URL of the write-ahead log, if it is not stored with the state.
fn log_line(wal_url: &str) -> String {
    match wal_url {
        "" => String::new(),
        url => format!("  log         {url}\n"),
    }
}

/// The authentication of clients, for the line of the banner and the arguments of the snippets.
struct AccessInfo {
    line: String,
    python: String,
    spark: String,
}

impl AccessInfo {
    fn of(app: &App) -> Self {
        if app.runtime.authn.is_open() {
            let line = "none: anyone who can reach the port has full access (insecure-no-auth)";
            return Self { line: line.to_owned(), python: String::new(), spark: String::new() };
        }
        let (line, key) = match &app.runtime.minted_key {
            Some(key) => {
                let key = key.reveal();
                (format!("admin key {key}\n{:14}keep it: it is not shown again", ""), key)
            }
            None if app.runtime.settings.authn.brings_bootstrap_key() => {
                ("the admin key is the bootstrap key of the settings".to_owned(), "YOUR_KEY")
            }
            None => {
                let line =
                    "the first start printed an admin key. To get a new one: --new-admin-key";
                (line.to_owned(), "YOUR_KEY")
            }
        };
        Self {
            line,
            python: format!(", token=\"{key}\""),
            spark: format!("    --conf spark.sql.catalog.slateberg.token={key} \\\n"),
        }
    }
}
