//! Stores of older binaries are upgraded when they are opened: missing index keys are added.

use std::sync::Arc;

use object_store::ObjectStore;
use serde_json::{Value, json};
use slateberg_store::records::FORMAT_VERSION;
use slatedb::Db;

use crate::support::app::TestApp;
use crate::support::fsck::{assert_sound, findings};
use crate::support::table_with_files::{ALL, TableWithFiles};

/// First byte of the keys in each of these key spaces.
const STORE: u8 = 0x01;
const TABULARS: u8 = 0x32;
const PLACES: u8 = 0x35;
const UUIDS: u8 = 0x36;

/// Returns a record without its leading format byte.
fn record(bytes: &[u8]) -> Value {
    serde_json::from_slice(&bytes[1..]).expect("small records are JSON")
}

fn bytes(record: &Value, as_before: &[u8]) -> Vec<u8> {
    [&as_before[..1], record.to_string().as_bytes()].concat()
}

/// Changes the store to this older format: removes the keys and members that a binary of this
/// format would not have written.
async fn set_back(bucket: Arc<dyn ObjectStore>, format: u32) {
    let db = Db::builder("state", bucket).build().await.expect("it opens");
    let mut later = vec![UUIDS];
    if format < 4 {
        later.push(PLACES);
        let mut tabulars = db.scan_prefix([TABULARS], ..).await.expect("it can be read");
        while let Some(entry) = tabulars.next().await.expect("it can be read") {
            let mut tabular = record(&entry.value);
            tabular.as_object_mut().expect("an object").remove("further_paths");
            let written = bytes(&tabular, &entry.value);
            db.put(&entry.key, written).await.expect("it can be written");
        }
    }
    for space in later {
        let mut keys = db.scan_prefix([space], ..).await.expect("it can be read");
        let mut some = false;
        while let Some(entry) = keys.next().await.expect("it can be read") {
            db.delete(&entry.key).await.expect("it can be written");
            some = true;
        }
        assert!(some, "there are keys of space {space:#x}");
    }
    let store = db.get([STORE]).await.expect("it can be read").expect("it is there");
    let mut found = record(&store);
    assert_eq!(found["format_version"], FORMAT_VERSION);
    found["format_version"] = json!(format);
    db.put([STORE], bytes(&found, &store)).await.expect("it can be written");
    db.close().await.expect("it closes");
}

#[tokio::test]
async fn upgrade_from_every_format_indexes_locations_and_uuids() {
    for format in [3, 4] {
        let table = TableWithFiles::new().await;
        table.set("write.data.path", "memory:///warehouse/elsewhere").await;
        let loaded = table.app.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
        let body = json!({ "name": "second", "metadata-location": loaded["metadata-location"] });
        table.app.post("/v1/namespaces/ns/register", body).await.expect(200);
        let TableWithFiles { app, location } = table;
        app.app.runtime.catalog.close().await.expect("it closes");
        let bucket = app.bucket;
        set_back(Arc::clone(&bucket), format).await;
        assert_eq!(findings(Arc::clone(&bucket)).await, Vec::<String>::new(), "an old store");
        let table = TableWithFiles { app: TestApp::on(Arc::clone(&bucket)).await, location };
        assert_sound(bucket).await;
        // The index shows that another registration needs the files.
        table.app.delete("/v1/namespaces/ns/tables/t?purgeRequested=true").await.expect(204);
        assert_eq!(table.run().await, 1);
        assert_eq!(table.remaining_files().await, ALL, "format {format}");
    }
}
