//! [`ScanTable`]: a table whose manifests are written as engines write them, without data files.

use apache_avro::types::Value as Avro;
use apache_avro::{Codec, DeflateSettings, Schema, Writer};
use axum::http::Method;
use serde_json::{Value, json};

use super::app::{TestApp, TestResponse};

/// The table.
pub const TABLE: &str = "/v1/default/namespaces/ns/tables/t";

/// Content of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Content {
    /// Rows.
    #[default]
    Data,
    /// Deletions by position. Contains the data file if all deletions concern a single one.
    Positions(Option<String>),
    /// A deletion vector of this data file.
    Vector(String),
    /// Deletions by the column `id`.
    Ids,
}

/// An entry of a manifest. Partitions are `region` and the day of `ts`.
#[derive(Debug, Clone)]
pub struct ScanFile {
    /// 0: existing, 1: added, 2: deleted.
    pub status: i32,
    /// Content of the file.
    pub content: Content,
    /// Name of the file below the table's location.
    pub name: String,
    /// Partition value `region`.
    pub region: Option<&'static str>,
    /// Partition value for the day of `ts`, in days since 1970.
    pub day: Option<i32>,
    /// The smallest and the greatest id.
    pub ids: (i64, i64),
    /// Number of rows.
    pub rows: i64,
    /// Data sequence number, of an existing file.
    pub sequence_number: Option<i64>,
    /// Snapshot that added the file, if it is not the snapshot of the manifest.
    pub snapshot_id: Option<i64>,
}

/// Returns an added data file of a region with these ids, on the first day.
pub fn data_file(name: &str, region: &'static str, ids: (i64, i64)) -> ScanFile {
    ScanFile {
        status: 1,
        content: Content::Data,
        name: name.to_owned(),
        region: Some(region),
        day: Some(0),
        ids,
        rows: 10,
        sequence_number: None,
        snapshot_id: None,
    }
}

/// A table in an in-memory catalog.
pub struct ScanTable {
    /// The catalog.
    pub app: TestApp,
    /// Location of the table.
    pub location: String,
    version: u8,
    /// The manifests of the newest snapshot, as entries of a list.
    manifests: Vec<Vec<(String, Avro)>>,
    /// Number of manifests that were written.
    written: usize,
    newest: Option<i64>,
}

fn create_table(version: u8) -> Value {
    json!({ "name": "t", "properties": { "format-version": version.to_string() },
        "schema": { "type": "struct", "fields": [
            { "id": 1, "name": "id", "required": true, "type": "long" },
            { "id": 2, "name": "region", "required": false, "type": "string" },
            { "id": 3, "name": "ts", "required": false, "type": "timestamptz" },
            { "id": 4, "name": "score", "required": false, "type": "double" } ] },
        "partition-spec": { "fields": [
            { "source-id": 2, "field-id": 1000, "name": "region", "transform": "identity" },
            { "source-id": 3, "field-id": 1001, "name": "ts_day", "transform": "day" } ] } })
}

impl ScanTable {
    /// Creates the table in a new catalog.
    pub async fn new(version: u8) -> Self {
        Self::on(TestApp::new().await, version).await
    }

    /// Creates the table in this catalog.
    pub async fn on(app: TestApp, version: u8) -> Self {
        let namespace = json!({ "namespace": ["ns"] });
        app.post("/v1/default/namespaces", namespace).await.expect(200);
        let created = app.post("/v1/default/namespaces/ns/tables", create_table(version)).await;
        let location = &created.expect(200).body["metadata"]["location"];
        let location = location.as_str().expect("a location").to_owned();
        Self { app, location, version, manifests: Vec::new(), written: 0, newest: None }
    }

    /// Restarts the catalog.
    pub async fn restart(self) -> Self {
        Self { app: self.app.restart().await, ..self }
    }

    /// Returns a location below that of the table.
    pub fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.location)
    }

    /// Appends a snapshot with a manifest of these files in addition to the existing manifests.
    pub async fn append(&mut self, id: i64, files: &[ScanFile]) {
        self.commit(id, "append", &[files]).await;
    }

    /// Adds a snapshot with these manifests in addition to the existing ones.
    pub async fn commit(&mut self, id: i64, operation: &str, manifests: &[&[ScanFile]]) {
        for files in manifests {
            self.write_manifest(id, files).await;
        }
        self.commit_list(id, operation).await;
    }

    /// Writes a manifest, which the next list contains.
    pub async fn write_manifest(&mut self, id: i64, files: &[ScanFile]) {
        self.written += 1;
        let path = self.at(&format!("metadata/m{}.avro", self.written));
        let content = self.manifest(files);
        let length = i64::try_from(content.len()).expect("it is short");
        self.app.put_file(&path, content).await;
        self.manifests.push(self.list_entry((&path, length), id, files));
    }

    /// Changes a member of the last manifest's entry in the lists.
    pub fn set(&mut self, name: &str, value: Avro) {
        let entry = self.manifests.last_mut().expect("a manifest");
        let member = entry.iter_mut().find(|(member, _)| member == name);
        member.expect("it has the member").1 = value;
    }

    /// Adds a snapshot with the manifests that were written.
    pub async fn commit_list(&mut self, id: i64, operation: &str) {
        let list = self.at(&format!("metadata/snap-{id}.avro"));
        self.app.put_file(&list, self.manifest_list()).await;
        let snapshot = self.snapshot(id, operation, &list);
        self.commit_snapshot(snapshot).await.expect(200);
    }

    /// Returns a snapshot on top of the newest one.
    pub fn snapshot(&self, id: i64, operation: &str, list: &str) -> Value {
        let mut snapshot = json!({
            "snapshot-id": id, "sequence-number": id, "manifest-list": list, "schema-id": 0,
            "timestamp-ms": 1_700_000_000_000_i64 + id, "summary": { "operation": operation } });
        if let Some(parent) = self.newest {
            snapshot["parent-snapshot-id"] = json!(parent);
        }
        if self.version >= 3 {
            snapshot["first-row-id"] = json!(1000 * (id - 1));
            snapshot["added-rows"] = json!(1000);
        }
        snapshot
    }

    /// Commits a snapshot to `main`.
    pub async fn commit_snapshot(&mut self, snapshot: Value) -> TestResponse {
        let id = snapshot["snapshot-id"].as_i64().expect("an id");
        self.newest = Some(id);
        let updates = vec![
            json!({ "action": "add-snapshot", "snapshot": snapshot }),
            json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
                    "snapshot-id": id }),
        ];
        self.app.post(TABLE, json!({ "requirements": [], "updates": updates })).await
    }

    /// Plans a scan.
    pub async fn plan(&self, request: Value) -> TestResponse {
        self.app.post(&format!("{TABLE}/plan"), request).await
    }

    /// Sends a request with a key that has this role.
    pub async fn post_as(&self, role: &str, path: &str, request: Value) -> TestResponse {
        let key = self.app.key_with_role(role).await;
        self.app.request_as(&key, Method::POST, path, &request).await
    }

    /// Plans a scan with a key that has this role.
    pub async fn plan_as(&self, role: &str, request: Value) -> TestResponse {
        self.post_as(role, &format!("{TABLE}/plan"), request).await
    }

    /// Plans a scan with a key that has this role, and returns the names of the files.
    pub async fn names_as(&self, role: &str, request: Value) -> Vec<String> {
        let plan = self.plan_as(role, request).await.expect(200);
        self.names_of(&plan.body)
    }

    /// Plans a scan with this filter, and returns the names of the files.
    pub async fn names(&self, filter: Value) -> Vec<String> {
        let plan = self.plan(json!({ "filter": filter })).await.expect(200);
        self.names_of(&plan.body)
    }

    /// Returns the names of the files of a response.
    pub fn names_of(&self, body: &Value) -> Vec<String> {
        let tasks = body["file-scan-tasks"].as_array().expect("tasks");
        let path = |task: &Value| task["data-file"]["file-path"].as_str().map(ToOwned::to_owned);
        let paths = tasks.iter().map(|task| path(task).expect("a path"));
        paths.map(|path| path[self.location.len() + 1..].to_owned()).collect()
    }

    fn manifest_list(&self) -> Vec<u8> {
        let schema = Schema::parse_str(&list_schema()).expect("a schema");
        let mut writer = Writer::new(&schema, Vec::new());
        let version = self.version.to_string();
        writer.add_user_metadata("format-version".to_owned(), version).expect("a member");
        for entry in &self.manifests {
            writer.append(Avro::Record(entry.clone())).expect("an entry");
        }
        writer.into_inner().expect("a file")
    }

    fn list_entry(
        &self,
        (path, length): (&str, i64),
        id: i64,
        files: &[ScanFile],
    ) -> Vec<(String, Avro)> {
        let count = |status| {
            let files = files.iter().filter(|file| file.status == status);
            Avro::Int(i32::try_from(files.count()).expect("they are few"))
        };
        let has_deletes = files.iter().any(|file| file.content != Content::Data);
        let first_row_id = (self.version >= 3 && !has_deletes).then(|| Avro::Long(1000 * (id - 1)));
        let regions: Vec<_> = files.iter().filter_map(|file| file.region).collect();
        let days: Vec<_> = files.iter().filter_map(|file| file.day).collect();
        let text = |text: Option<&&str>| text.map(|it| Avro::Bytes(it.as_bytes().to_vec()));
        let day = |day: Option<&i32>| day.map(|it| Avro::Bytes(it.to_le_bytes().to_vec()));
        let summary = |lower, upper, has_null| {
            record(vec![
                ("contains_null", Avro::Boolean(has_null)),
                ("contains_nan", optional(Some(Avro::Boolean(false)))),
                ("lower_bound", optional(lower)),
                ("upper_bound", optional(upper)),
            ])
        };
        let (of_region, of_day) = (
            summary(
                text(regions.iter().min()),
                text(regions.iter().max()),
                regions.len() < files.len(),
            ),
            summary(day(days.iter().min()), day(days.iter().max()), days.len() < files.len()),
        );
        let entry = vec![
            ("manifest_path", Avro::String(path.to_owned())),
            ("manifest_length", Avro::Long(length)),
            ("partition_spec_id", Avro::Int(0)),
            ("content", Avro::Int(i32::from(has_deletes))),
            ("sequence_number", Avro::Long(id)),
            ("min_sequence_number", Avro::Long(1)),
            ("added_snapshot_id", Avro::Long(id)),
            ("added_files_count", count(1)),
            ("existing_files_count", count(0)),
            ("deleted_files_count", count(2)),
            ("partitions", optional(Some(Avro::Array(vec![of_region, of_day])))),
            ("key_metadata", optional(None)),
            ("first_row_id", optional(first_row_id)),
        ];
        entry.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn manifest(&self, files: &[ScanFile]) -> Vec<u8> {
        let schema = Schema::parse_str(&manifest_schema()).expect("a schema");
        let codec = Codec::Deflate(DeflateSettings::default());
        let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
        for file in files {
            writer.append(self.entry(file)).expect("an entry");
        }
        writer.into_inner().expect("a file")
    }

    fn entry(&self, file: &ScanFile) -> Avro {
        let long = |value: Option<i64>| optional(value.map(Avro::Long));
        let (content, referenced) = match &file.content {
            Content::Data => (0, None),
            Content::Positions(path) => (1, path.clone()),
            Content::Vector(path) => (1, Some(path.clone())),
            Content::Ids => (2, None),
        };
        let vector = matches!(file.content, Content::Vector(_));
        let format = if vector { "PUFFIN" } else { "PARQUET" };
        let count = |count: i64| map(vec![(1, Avro::Long(count))]);
        let bound = |id: i64| map(vec![(1, Avro::Bytes(id.to_le_bytes().to_vec()))]);
        let ids = (file.content == Content::Ids).then(|| Avro::Array(vec![Avro::Int(1)]));
        let partition = record(vec![
            ("region", optional(file.region.map(|it| Avro::String(it.to_owned())))),
            ("ts_day", optional(file.day.map(Avro::Date))),
        ]);
        let data_file = record(vec![
            ("content", Avro::Int(content)),
            ("file_path", Avro::String(self.at(&file.name))),
            ("file_format", Avro::String(format.to_owned())),
            ("partition", partition),
            ("record_count", Avro::Long(file.rows)),
            ("file_size_in_bytes", Avro::Long(4096)),
            ("value_counts", count(file.rows)),
            ("null_value_counts", count(0)),
            ("lower_bounds", bound(file.ids.0)),
            ("upper_bounds", bound(file.ids.1)),
            ("split_offsets", optional(Some(Avro::Array(vec![Avro::Long(4)])))),
            ("equality_ids", optional(ids)),
            ("sort_order_id", optional(Some(Avro::Int(0)))),
            ("referenced_data_file", optional(referenced.map(Avro::String))),
            ("content_offset", long(vector.then_some(4))),
            ("content_size_in_bytes", long(vector.then_some(44))),
        ]);
        record(vec![
            ("status", Avro::Int(file.status)),
            ("snapshot_id", long(file.snapshot_id)),
            ("sequence_number", long(file.sequence_number)),
            ("file_sequence_number", long(file.sequence_number)),
            ("data_file", data_file),
        ])
    }
}

fn record(fields: Vec<(&str, Avro)>) -> Avro {
    Avro::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn optional(value: Option<Avro>) -> Avro {
    match value {
        None => Avro::Union(0, Box::new(Avro::Null)),
        Some(value) => Avro::Union(1, Box::new(value)),
    }
}

fn map(pairs: Vec<(i32, Avro)>) -> Avro {
    let pair = |(key, value)| record(vec![("key", Avro::Int(key)), ("value", value)]);
    optional(Some(Avro::Array(pairs.into_iter().map(pair).collect())))
}

fn field(id: i32, name: &str, kind: &str) -> String {
    format!(r#"{{"name":"{name}","type":{kind},"field-id":{id}}}"#)
}

fn optional_field(id: i32, name: &str, kind: &str) -> String {
    field(id, name, &format!(r#"["null",{kind}]"#))
}

fn record_schema(name: &str, fields: &[String]) -> String {
    format!(r#"{{"type":"record","name":"{name}","fields":[{}]}}"#, fields.join(","))
}

fn list_schema() -> String {
    let (string, int, long, bytes) = (r#""string""#, r#""int""#, r#""long""#, r#""bytes""#);
    let summary = record_schema(
        "r508",
        &[
            field(509, "contains_null", r#""boolean""#),
            optional_field(518, "contains_nan", r#""boolean""#),
            optional_field(510, "lower_bound", bytes),
            optional_field(511, "upper_bound", bytes),
        ],
    );
    let summaries = format!(r#"{{"type":"array","items":{summary},"element-id":508}}"#);
    let fields = [
        field(500, "manifest_path", string),
        field(501, "manifest_length", long),
        field(502, "partition_spec_id", int),
        field(517, "content", int),
        field(515, "sequence_number", long),
        field(516, "min_sequence_number", long),
        field(503, "added_snapshot_id", long),
        field(504, "added_files_count", int),
        field(505, "existing_files_count", int),
        field(506, "deleted_files_count", int),
        optional_field(507, "partitions", &summaries),
        optional_field(519, "key_metadata", bytes),
        optional_field(520, "first_row_id", long),
    ];
    record_schema("manifest_file", &fields)
}

fn manifest_schema() -> String {
    let (string, int, long) = (r#""string""#, r#""int""#, r#""long""#);
    let map = |id: i32, name: &str, (key, value): (i32, i32), kind: &str| {
        let pair = [field(key, "key", int), field(value, "value", kind)];
        let pair = record_schema(&format!("k{key}_v{value}"), &pair);
        let array = format!(r#"{{"type":"array","items":{pair},"logicalType":"map"}}"#);
        optional_field(id, name, &array)
    };
    let list = |id: i32, name: &str, kind: &str| {
        optional_field(id, name, &format!(r#"{{"type":"array","items":{kind}}}"#))
    };
    let partition = [
        optional_field(1000, "region", string),
        optional_field(1001, "ts_day", r#"{"type":"int","logicalType":"date"}"#),
    ];
    let file = [
        field(134, "content", int),
        field(100, "file_path", string),
        field(101, "file_format", string),
        field(102, "partition", &record_schema("r102", &partition)),
        field(103, "record_count", long),
        field(104, "file_size_in_bytes", long),
        map(109, "value_counts", (119, 120), long),
        map(110, "null_value_counts", (121, 122), long),
        map(125, "lower_bounds", (126, 127), r#""bytes""#),
        map(128, "upper_bounds", (129, 130), r#""bytes""#),
        list(132, "split_offsets", long),
        list(135, "equality_ids", int),
        optional_field(140, "sort_order_id", int),
        optional_field(143, "referenced_data_file", string),
        optional_field(144, "content_offset", long),
        optional_field(145, "content_size_in_bytes", long),
    ];
    let fields = [
        field(0, "status", int),
        optional_field(1, "snapshot_id", long),
        optional_field(3, "sequence_number", long),
        optional_field(4, "file_sequence_number", long),
        field(2, "data_file", &record_schema("r2", &file)),
    ];
    record_schema("manifest_entry", &fields)
}
