//! Measures the search in a store with many tables: the time to build the index, its size, and the
//! time of each of a fixed list of queries. A query returns a page of 50 hits.
//!
//! `cargo bench -p slateberg-catalog --bench search -- [TABLES] [SCHEMAS] [DIRECTORY]`
//!
//! `SCHEMAS` is `names` (tables without metadata), `shared` (2,000 schemas) or `distinct` (each
//! table has its own schema of 20 columns). A later run with the same directory uses its store
//! again. Without a directory, the store is temporary.

#![expect(clippy::print_stdout, reason = "the benchmark prints its results")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use serde_json::json;
use slateberg_authz::authority::Authority;
use slateberg_authz::permit::{Permit, Task};
use slateberg_authz::policy_set::PolicySet;
use slateberg_authz::schema::Schema;
use slateberg_base::clock::SystemClock;
use slateberg_base::ids::RandomIds;
use slateberg_catalog::operation::Context;
use slateberg_catalog::planning::PlanningState;
use slateberg_catalog::policies::Sources;
use slateberg_catalog::search::SearchRequest;
use slateberg_catalog::settings::Settings;
use slateberg_catalog::warehouses::served_warehouses::{Entry, ServedWarehouses};
use slateberg_catalog::webhooks::target::TargetRules;
use slateberg_catalog::{Catalog, Error, Operation, Parts};
use slateberg_model::ident::TabularKind;
use slateberg_model::page::PageRequest;
use slateberg_model::principal::Principal;
use slateberg_model::segmented_json::{Segment, SegmentedJson};
use slateberg_model::warehouse::{StorageProfile, Warehouse};
use slateberg_objects::open::opener;
use slateberg_objects::stores::Stores;
use slateberg_store::Store;
use slateberg_store::codec::Document;
use slateberg_store::keys::{
    MetadataKey, NamespaceKey, NamespaceNameKey, TabularKey, TabularNameKey,
};
use slateberg_store::open::StoreLocation;
use slateberg_store::records::{NameEntry, NamespaceRecord, TabularRecord, WarehouseRecord};
use slateberg_telemetry::collection::{Collection, Data};
use uuid::Uuid;

/// Number of tables in a namespace.
const NAMESPACE_TABLES: usize = 1000;
/// Number of columns of a table.
const COLUMNS: usize = 20;
/// Number of distinct names of columns.
const COLUMN_NAMES: u64 = 20_000;
/// Number of schemas that the tables share in the mode `shared`.
const SHARED_SCHEMAS: u64 = 2000;
/// Number of measurements of a query.
const ROUNDS: usize = 40;
/// Number of hits of a page.
const HITS: usize = 50;
const WAREHOUSE: Uuid = Uuid::from_u128(1);

const DOMAINS: [&str; 16] = [
    "sales",
    "finance",
    "crm",
    "billing",
    "logistics",
    "hr",
    "marketing",
    "web",
    "mobile",
    "risk",
    "fraud",
    "supply",
    "retail",
    "media",
    "search",
    "ads",
];
const ENTITIES: [&str; 24] = [
    "orders",
    "customers",
    "payments",
    "invoices",
    "shipments",
    "products",
    "sessions",
    "events",
    "clicks",
    "accounts",
    "contracts",
    "employees",
    "campaigns",
    "reviews",
    "stores",
    "devices",
    "returns",
    "prices",
    "stock",
    "routes",
    "visits",
    "tickets",
    "users",
    "transfers",
];
const KINDS: [&str; 8] =
    ["raw", "daily", "hourly", "agg", "snapshot", "history", "staging", "features"];
const PARTS: [&str; 30] = [
    "customer", "order", "price", "total", "name", "city", "street", "country", "created",
    "updated", "status", "type", "code", "amount", "currency", "count", "first", "last", "email",
    "phone", "weight", "height", "source", "target", "region", "score", "flag", "rate", "start",
    "end",
];

/// The queries, and whether they search columns and comments instead of names.
const QUERIES: [(&str, bool, &str); 20] = [
    ("one word", false, "invoices"),
    ("one rare word", false, "000777"),
    ("frequent word", false, "daily"),
    ("frequent part of a word", false, "rder"),
    ("single letter", false, "e"),
    ("single digit", false, "7"),
    ("two words", false, "orders daily"),
    ("two words, one rare", false, "orders 004242"),
    ("three words", false, "sales customers history"),
    ("two words that no name has together", false, "orders customers"),
    ("two parts of words", false, "ales ustomer"),
    ("two letters", false, "a e"),
    ("three letters, also in namespaces", false, "s 9 4"),
    ("namespace and name", false, "ns_42.orders"),
    ("name with separators", false, "retail_orders_daily_00"),
    ("no hit", false, "zebra"),
    ("no hit for one of two words", false, "orders zebra"),
    ("column", true, "customer_order_17"),
    ("frequent column", true, "customer"),
    ("column and table", true, "customer_code orders"),
];

/// Returns a number that looks random.
fn mixed(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

fn pick<'a>(from: &[&'a str], number: u64) -> &'a str {
    from[number as usize % from.len()]
}

fn table_name(number: usize) -> String {
    let random = mixed(number as u64);
    let (domain, entity) = (pick(&DOMAINS, random), pick(&ENTITIES, random >> 16));
    format!("{domain}_{entity}_{}_{number:06}", pick(&KINDS, random >> 32))
}

/// Returns the name of a column. Small numbers are frequent.
fn column_name(random: u64) -> String {
    let uniform = random % (1 << 20);
    let skewed = uniform * uniform / (1 << 20) * COLUMN_NAMES / (1 << 20);
    let (first, second) = (pick(&PARTS, skewed), pick(&PARTS, skewed / 30));
    match skewed / 900 {
        0 => format!("{first}_{second}"),
        version => format!("{first}_{second}_{version}"),
    }
}

/// Returns the metadata of a table, as far as the search reads it.
fn metadata(schema: u64) -> Bytes {
    let column = |at: usize| {
        let random = mixed(schema * COLUMNS as u64 + at as u64);
        let name = if at == 0 { "id".to_owned() } else { column_name(random) };
        let mut field = json!({ "id": at + 1, "name": name, "required": false, "type": "string" });
        if random.is_multiple_of(20) {
            field["doc"] = json!(format!("The {name} of the source, number {}", random % 7));
        }
        field
    };
    let fields: Vec<_> = (0..COLUMNS).map(column).collect();
    let mut names = std::collections::HashSet::new();
    let fields: Vec<_> =
        fields.into_iter().filter(|field| names.insert(field["name"].to_string())).collect();
    let document = json!({ "format-version": 2, "current-schema-id": 0,
        "schemas": [{ "type": "struct", "schema-id": 0, "fields": fields }], "properties": {} });
    document.to_string().into()
}

/// Opens the store in a directory.
async fn open(directory: &Path) -> Store {
    let path = directory.join("state");
    let location = StoreLocation {
        object_store: Arc::new(LocalFileSystem::new()),
        path: path.to_string_lossy().trim_start_matches('/').to_owned(),
        conditional_update: false,
        directory: Some(path),
        log: None,
        encryption: None,
        storage: Default::default(),
    };
    // About the shares of a server with a gigabyte of memory.
    let settings = slateberg_store::settings::Settings {
        block_cache_bytes: 160 << 20,
        meta_cache_bytes: 64 << 20,
        unflushed_bytes_max: 128 << 20,
        ..Default::default()
    };
    let store = Store::open(&location, settings).await.expect("the store opens");
    let permit = Permit::for_task(Task::Open);
    store.ensure_format(&permit, Uuid::from_u128(2), 0).await.expect("the format is written");
    store
}

fn namespace_id(number: usize) -> Uuid {
    Uuid::from_u64_pair(mixed(number as u64), number as u64)
}

/// Writes the records of a namespace and its tables, without those that the search does not read.
async fn write_namespace(store: &Store, number: usize, tables: usize, schemas: &str) {
    let permit = Permit::for_task(Task::Import);
    let namespace = NamespaceRecord {
        id: namespace_id(number),
        warehouse: WAREHOUSE,
        parent: WAREHOUSE,
        name: format!("ns_{number}"),
        properties: BTreeMap::new(),
        version: 1,
        created_ms: 0,
        owner: None,
    };
    let namespace = &namespace;
    let written = store.transact("fill", &permit, |t| async move {
        let name = NamespaceNameKey { parent: WAREHOUSE, name: namespace.name.clone() };
        t.put(&name, &NameEntry { id: namespace.id })?;
        t.put(&NamespaceKey(namespace.id), namespace)?;
        for table in number * NAMESPACE_TABLES..((number + 1) * NAMESPACE_TABLES).min(tables) {
            let record = table_record(namespace.id, table);
            let (kind, name) = (record.kind, record.name.clone());
            let name = TabularNameKey { kind, namespace: namespace.id, name };
            t.put(&name, &NameEntry { id: record.id })?;
            let schema = match schemas {
                "shared" => mixed(table as u64) % SHARED_SCHEMAS,
                "distinct" => table as u64,
                _ => continue,
            };
            t.put(&TabularKey(record.id), &record)?;
            let text = SegmentedJson::new(vec![Segment::Inline(metadata(schema))]);
            t.put(&MetadataKey(record.id), &Document { version: 1, text }.head())?;
        }
        Ok::<_, slateberg_store::Error>(())
    });
    written.await.expect("the namespace is written").1.durable().await.expect("it is durable");
}

fn table_record(namespace: Uuid, number: usize) -> TabularRecord {
    let id = Uuid::from_u64_pair(mixed(number as u64), number as u64);
    let location = format!("file:///warehouse/{id}");
    TabularRecord {
        id,
        kind: TabularKind::Table,
        warehouse: WAREHOUSE,
        namespace,
        name: table_name(number),
        uuid: id,
        metadata_location: format!("{location}/metadata/00000-{id}.metadata.json"),
        location,
        further_paths: Vec::new(),
        version: 1,
        created_ms: 0,
        updated_ms: 0,
        owner: None,
    }
}

fn catalog(store: Store) -> Catalog {
    let storage =
        StorageProfile { location: "file:///warehouse".to_owned(), ..StorageProfile::default() };
    let warehouse = Warehouse {
        id: WAREHOUSE,
        name: "default".to_owned(),
        storage,
        client_defaults: BTreeMap::new(),
        client_overrides: BTreeMap::new(),
        dropped_kept_seconds: None,
        maintenance: BTreeMap::new(),
        version: 0,
    };
    let record = WarehouseRecord {
        id: WAREHOUSE,
        location: "file:///warehouse".to_owned(),
        created_ms: 0,
        definition: None,
    };
    let entry = Entry { warehouse: Arc::new(warehouse), record: Arc::new(record), shut: None };
    let policies = PolicySet::build(Arc::new(Schema::bundled()), &[], &[]);
    let settings = Settings { search_index_bytes_max: 100_000_000, ..Settings::default() };
    Catalog::new(Parts {
        store,
        planning: PlanningState::new(&settings),
        warehouses: ServedWarehouses::new("default").with_roots(entry, Ok(Vec::new())),
        stores: Stores {
            opener: opener(),
            ambient_options: BTreeMap::new(),
            credentials: BTreeMap::new(),
            local_dirs: Vec::new(),
            in_memory: false,
            reserved: Default::default(),
        },
        authority: Arc::new(Authority::new(policies.expect("they are valid"), 1000)),
        policy_sources: Sources::default(),
        policy_limits: slateberg_authz::settings::Settings::default().limits(),
        clone_of: None,
        catalog_id: Uuid::from_u128(2),
        timeline: None,
        settings,
        webhooks: TargetRules::new(&Default::default()).expect("the rules are valid"),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
    })
}

async fn search(catalog: &Catalog, query: &str, sources: &[&str]) -> Result<usize, Error> {
    let operation = Operation {
        principal: Principal::Anonymous,
        context: Context::default(),
        request_id: None,
        idempotency: None,
        room: None,
    };
    let page = PageRequest { limit: Some(HITS), ..PageRequest::default() };
    let sources = sources.iter().map(|source| (*source).to_owned()).collect();
    let request =
        SearchRequest { query: query.to_owned(), sources, page, ..SearchRequest::default() };
    catalog.search().search(&operation, &request).await.map(|page| page.hits.len())
}

/// Returns the size of the index in megabytes.
fn index_megabytes(catalog: &Catalog) -> f64 {
    let mut collection = Collection::default();
    catalog.collect(&mut collection);
    let size = collection.metrics().find(|(name, _)| *name == "slateberg.search.index");
    match size.map(|(_, metric)| &metric.data) {
        Some(Data::Gauge(values)) => values.values().sum::<f64>() / 1e6,
        _ => 0.0,
    }
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    // Fields 14 and 15 of the file, in hundredths of a second: user time and system time.
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(12) + ticks(13)))
}

/// Measures work that is done once.
async fn once<T>(what: &str, work: impl Future<Output = T>) -> T {
    let (began, cpu) = (Instant::now(), cpu_time());
    let result = work.await;
    println!(
        "{what}: {:.1} s, {:.1} s of CPU",
        began.elapsed().as_secs_f64(),
        (cpu_time() - cpu).as_secs_f64()
    );
    result
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let tables: usize =
        arguments.next().map_or(1_000_000, |it| it.parse().expect("a number of tables"));
    let schemas = arguments.next().unwrap_or_else(|| "names".to_owned());
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = arguments.next().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    if !directory.join("state").exists() {
        let store = open(&directory).await;
        let fill = async {
            for number in 0..tables.div_ceil(NAMESPACE_TABLES) {
                write_namespace(&store, number, tables, &schemas).await;
            }
        };
        once("fill the store", fill).await;
        store.close().await.expect("the store closes");
    }
    let catalog = catalog(open(&directory).await);
    once("first search: build the index of names", async {
        search(&catalog, "orders", &[]).await.expect("the search succeeds");
    })
    .await;
    println!("index of names: {:.1} MB", index_megabytes(&catalog));
    if schemas != "names" {
        let build = async {
            // Searches get 503 until the columns and comments have been read.
            while search(&catalog, "orders", &["columns"]).await.is_err() {}
        };
        once("add columns and comments", build).await;
        println!("index with columns and comments: {:.1} MB", index_megabytes(&catalog));
    }
    println!("{:>44} {:>6} {:>9} {:>9} {:>9}", "query", "hits", "p50 ms", "p99 ms", "max ms");
    for (what, with_columns, query) in QUERIES {
        if with_columns && schemas == "names" {
            continue;
        }
        let sources: &[&str] = if with_columns { &["columns", "comments"] } else { &["names"] };
        let (mut times, mut hits) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            hits = search(&catalog, query, sources).await.expect("the search succeeds");
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!("{what:>44} {hits:>6} {:>9.2} {:>9.2} {:>9.2}", at(50), at(99), at(100));
    }
}
