//! A writer that creates manifests and manifest lists with the crate `iceberg`, and merges or
//! compacts them as Java clients do.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, FormatVersion, ManifestContentType,
    ManifestEntryRef, ManifestFile, ManifestList, ManifestListWriter, ManifestWriterBuilder,
    PartitionSpec, Schema, Struct,
};
use serde_json::{Value, json};

use super::app::TestApp;
use super::appends::{LoadedTable, PreparedAppend, ROWS};

/// The treatment of the oldest manifests of the table by a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manifests {
    /// Adds a file, and keeps all manifests.
    Append,
    /// Adds a file, and merges this number of manifests into the new manifest.
    Merge(usize),
    /// Replaces the data files of this number of manifests with one file, and removes the delete
    /// files of these manifests.
    Compact(usize),
    /// Replaces this number of manifests with one manifest.
    Rewrite(usize),
    /// Deletes the files of this number of manifests.
    Delete(usize),
    /// Deletes a row of the data file of this snapshot, by a position delete file or a deletion
    /// vector.
    DeleteRow(i64),
}

/// The live files of a snapshot, by path: their data sequence numbers, and the snapshots that added
/// them.
pub type LiveFiles = BTreeMap<String, (i64, i64)>;

/// Files of a table, for the crate `iceberg`.
struct Files<'a> {
    app: &'a TestApp,
    table: &'a LoadedTable,
    io: FileIO,
}

impl Files<'_> {
    async fn fetch(&self, location: &str) -> Vec<u8> {
        self.try_fetch(location).await.expect("the file exists")
    }

    async fn try_fetch(&self, location: &str) -> Option<Vec<u8>> {
        let content = self.app.file(location).await?;
        let output = self.io.new_output(location).expect("a location");
        output.write(content.clone().into()).await.expect("it is written");
        Some(content.to_vec())
    }

    async fn upload(&self, location: &str) {
        let input = self.io.new_input(location).expect("a location");
        self.app.put_file(location, input.read().await.expect("it was written")).await;
    }

    async fn list(&self, snapshot: &Value) -> Vec<ManifestFile> {
        self.try_list(snapshot).await.expect("the list exists")
    }

    async fn try_list(&self, snapshot: &Value) -> Option<Vec<ManifestFile>> {
        let location = snapshot["manifest-list"].as_str().expect("a location");
        let content = self.try_fetch(location).await?;
        let version = match self.table.number("format-version") {
            1 => FormatVersion::V1,
            2 => FormatVersion::V2,
            _ => FormatVersion::V3,
        };
        let list = ManifestList::parse_with_version(&content, version).expect("a manifest list");
        Some(list.entries().to_vec())
    }

    /// Returns the entries of a manifest, with the values that they inherit.
    async fn entries(&self, manifest: &ManifestFile) -> Vec<ManifestEntryRef> {
        let content = self.fetch(&manifest.manifest_path).await;
        assert_eq!(content.len() as i64, manifest.manifest_length, "{}", manifest.manifest_path);
        let loaded = manifest.load_manifest(&self.io).await.expect("a manifest");
        loaded.entries().to_vec()
    }

    fn data_file(&self, id: i64, rows: i64) -> DataFile {
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(self.table.at(&format!("data/{id}.parquet")))
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::empty())
            .partition_spec_id(0)
            .record_count(rows.cast_unsigned())
            .file_size_in_bytes(100)
            .build()
            .expect("a data file")
    }

    /// Returns a delete file for one row of a data file.
    fn delete_file(&self, id: i64, data_file: i64) -> DataFile {
        let mut file = DataFileBuilder::default();
        file.content(DataContentType::PositionDeletes)
            .file_path(self.table.at(&format!("data/{id}-deletes")))
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::empty())
            .partition_spec_id(0)
            .record_count(1)
            .file_size_in_bytes(100)
            .referenced_data_file(Some(self.table.at(&format!("data/{data_file}.parquet"))));
        if self.table.number("format-version") >= 3 {
            file.file_format(DataFileFormat::Puffin)
                .content_offset(Some(4))
                .content_size_in_bytes(Some(50));
        }
        file.build().expect("a delete file")
    }

    /// Writes a manifest with a new file and with the older entries, which keep their files or mark
    /// them as deleted. All files have the same content.
    async fn manifest(
        &self,
        (id, name): (i64, &str),
        new: Option<DataFile>,
        older: &[ManifestEntryRef],
        deletes: bool,
    ) -> ManifestFile {
        let location = self.table.at(&format!("metadata/{name}.avro"));
        let output = self.io.new_output(&location).expect("a location");
        let schema: Schema =
            serde_json::from_value(self.table.member("schemas")[0].clone()).expect("a schema");
        let spec = PartitionSpec::unpartition_spec();
        let builder = ManifestWriterBuilder::new(output, Some(id), Arc::new(schema), spec);
        let mut files = new.iter().chain(older.iter().map(|entry| entry.data_file()));
        let has_data = files.all(|file| file.content_type() == DataContentType::Data);
        let mut writer = match (self.table.number("format-version"), has_data) {
            (1, _) => builder.build_v1(),
            (2, true) => builder.build_v2_data(),
            (2, false) => builder.build_v2_deletes(),
            (_, true) => builder.build_v3_data(),
            (_, false) => builder.build_v3_deletes(),
        };
        if let Some(file) = new {
            writer.add_file(file, -1).expect("it is added");
        }
        for entry in older {
            let file = entry.data_file().clone();
            let number = entry.sequence_number().expect("it is inherited");
            let (snapshot, in_file) = (entry.snapshot_id(), entry.file_sequence_number);
            if deletes {
                writer.add_delete_file(file, number, in_file).expect("it is added");
            } else {
                let snapshot = snapshot.expect("it is inherited");
                writer.add_existing_file(file, snapshot, number, in_file).expect("it is added");
            }
        }
        let manifest = writer.write_manifest_file().await.expect("it is written");
        self.upload(&location).await;
        manifest
    }

    /// Writes the manifests of a compaction: one with a new data file for the older data files, and
    /// those that mark the older data files and delete files as deleted.
    async fn compaction(&self, id: i64, older: Vec<ManifestEntryRef>) -> Vec<ManifestFile> {
        let is_data = |it: &ManifestEntryRef| it.content_type() == DataContentType::Data;
        let (data, deletes): (Vec<_>, Vec<_>) = older.into_iter().partition(is_data);
        let rows = data.iter().map(|it| it.record_count().cast_signed()).sum();
        let new = Some(self.data_file(id, rows));
        let mut own = vec![
            self.manifest((id, &format!("m-{id}")), new, &[], false).await,
            self.manifest((id, &format!("d-{id}")), None, &data, true).await,
        ];
        if !deletes.is_empty() {
            own.push(self.manifest((id, &format!("e-{id}")), None, &deletes, true).await);
        }
        own
    }
}

impl LoadedTable {
    fn files<'a>(&'a self, app: &'a TestApp) -> Files<'a> {
        Files { app, table: self, io: FileIO::new_with_memory() }
    }

    /// Writes the files of a commit with this snapshot id, and returns the commit.
    pub async fn prepare(&self, app: &TestApp, id: i64, does: Manifests) -> PreparedAppend {
        self.try_prepare(app, id, does).await.expect("the manifest list of this state exists")
    }

    /// Like [`prepare`](Self::prepare). Returns `None` if the snapshot of this state has expired, and
    /// its manifest list is deleted.
    pub async fn try_prepare(
        &self,
        app: &TestApp,
        id: i64,
        does: Manifests,
    ) -> Option<PreparedAppend> {
        let files = self.files(app);
        let head = self.snapshots().iter().find(|it| it["snapshot-id"].as_i64() == self.head());
        let mut all = match head {
            Some(head) => files.try_list(head).await?,
            None => Vec::new(),
        };
        let count = match does {
            Manifests::Append | Manifests::DeleteRow(_) => 0,
            Manifests::Merge(count)
            | Manifests::Compact(count)
            | Manifests::Rewrite(count)
            | Manifests::Delete(count) => count,
        };
        let oldest = all.split_off(all.len() - count);
        let mut older = Vec::new();
        for manifest in &oldest {
            let entries = files.entries(manifest).await;
            older.extend(entries.into_iter().filter(|entry| entry.is_alive()));
        }
        let name = format!("m-{id}");
        let (own, operation) = match does {
            Manifests::Append | Manifests::Merge(_) => {
                let new = Some(files.data_file(id, ROWS));
                (vec![files.manifest((id, &name), new, &older, false).await], "append")
            }
            Manifests::Rewrite(_) => {
                (vec![files.manifest((id, &name), None, &older, false).await], "replace")
            }
            Manifests::Delete(_) => {
                (vec![files.manifest((id, &name), None, &older, true).await], "delete")
            }
            Manifests::DeleteRow(data_file) => {
                let new = Some(files.delete_file(id, data_file));
                (vec![files.manifest((id, &name), new, &[], false).await], "delete")
            }
            Manifests::Compact(_) => (files.compaction(id, older).await, "replace"),
        };
        let manifest = own[0].manifest_path.clone();
        let list = self.write_list(&files, id, [own.clone(), all].concat()).await;
        let mut snapshot = self.snapshot(id, &list);
        let added = |it: &ManifestFile| (it.added_files_count, it.added_rows_count);
        let added = own.iter().map(added).fold((0, 0), |sum, it| {
            (sum.0 + it.0.unwrap_or_default(), sum.1 + it.1.unwrap_or_default())
        });
        snapshot["summary"] = json!({ "operation": operation,
            "added-data-files": added.0.to_string(), "added-records": added.1.to_string() });
        if self.number("format-version") >= 3 {
            let rows = |it: &ManifestFile| {
                it.added_rows_count.unwrap_or_default() + it.existing_rows_count.unwrap_or_default()
            };
            snapshot["first-row-id"] = self.number("next-row-id").into();
            snapshot["added-rows"] = own.iter().map(rows).sum::<u64>().into();
        }
        Some(self.commit_of(snapshot, manifest))
    }

    /// Writes the files of a commit that replaces all files of the table with one file, and returns
    /// the commit.
    pub async fn overwrite(&self, app: &TestApp, id: i64) -> PreparedAppend {
        let files = self.files(app);
        let new = Some(files.data_file(id, ROWS));
        let own = files.manifest((id, &format!("m-{id}")), new, &[], false).await;
        let manifest = own.manifest_path.clone();
        let list = self.write_list(&files, id, vec![own]).await;
        self.commit_of(self.snapshot(id, &list), manifest)
    }

    async fn write_list(&self, files: &Files<'_>, id: i64, manifests: Vec<ManifestFile>) -> String {
        let location = self.at(&format!("metadata/snap-{id}-client.avro"));
        let output = files.io.new_output(&location).expect("a location");
        let output = output.writer().await.expect("a writer");
        let (parent, number) = (self.head(), self.number("last-sequence-number") + 1);
        let mut writer = match self.number("format-version") {
            1 => ManifestListWriter::v1(output, id, parent),
            2 => ManifestListWriter::v2(output, id, parent, number),
            _ => {
                let first = u64::try_from(self.number("next-row-id")).ok();
                ManifestListWriter::v3(output, id, parent, number, first)
            }
        };
        writer.add_manifests(manifests.into_iter()).expect("they are added");
        writer.close().await.expect("it is written");
        files.upload(&location).await;
        location
    }

    /// Returns the live files of a snapshot, read by the crate `iceberg`.
    pub async fn live_files(&self, app: &TestApp, snapshot: &Value) -> LiveFiles {
        let files = self.files(app);
        let mut live = LiveFiles::new();
        for manifest in files.list(snapshot).await {
            for entry in files.entries(&manifest).await {
                if entry.is_alive() {
                    let number = entry.sequence_number().expect("a sequence number");
                    let value = (number, entry.snapshot_id().expect("a snapshot"));
                    let path = entry.file_path().to_owned();
                    assert_eq!(live.insert(path, value), None, "a file is there twice");
                }
            }
        }
        live
    }

    /// Returns the first row ids of the live files of a snapshot, by path.
    pub async fn row_ids(&self, app: &TestApp, snapshot: &Value) -> BTreeMap<String, i64> {
        let files = self.files(app);
        let mut ids = BTreeMap::new();
        let list = files.list(snapshot).await;
        for manifest in list.iter().filter(|it| it.content == ManifestContentType::Data) {
            let mut next = manifest.first_row_id.expect("a row id").cast_signed();
            for entry in files.entries(manifest).await {
                let file = entry.data_file();
                let first = file.first_row_id().unwrap_or_else(|| {
                    let first = next;
                    next += file.record_count().cast_signed();
                    first
                });
                ids.insert(entry.file_path().to_owned(), first);
            }
        }
        ids
    }
}
