//! The whole content of a catalog for comparisons: the state visible to clients, and the written
//! objects.

use axum::http::Method;
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use serde_json::{Map, Value, json};

use super::app::{TestApp, TestResponse};
use super::path;

/// The bucket of a warehouse whose files are in memory, but have URLs of S3.
pub const LAKE: &str = "s3://lake/";

/// The content of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// Namespaces, tables and views, with their loaded state.
    pub visible: Value,
    /// The objects of the write-ahead log and the files of the warehouse. A log without a new
    /// object proves that nothing was written, not even invisible records.
    pub objects: Vec<String>,
}

impl TestApp {
    /// Returns the content of the default warehouse. First removes the markers of complete
    /// publications. Otherwise, the next write would not only write its own changes, but also
    /// remove the markers.
    pub async fn dump(&self) -> Dump {
        self.app
            .runtime
            .catalog
            .maintenance()
            .remove_completed_markers()
            .await
            .expect("the catalog is open");
        Dump { visible: self.visible_state("/v1").await, objects: self.objects().await }
    }

    /// Sends a request that must not change anything.
    pub async fn request_without_effect(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> TestResponse {
        let before = self.dump().await;
        let response = self.request(method.clone(), path, headers, body).await;
        let after = self.dump().await;
        let text: String = body.to_string().chars().take(500).collect();
        assert_eq!(before, after, "{method} {path} {text} wrote something: {}", response.body);
        response
    }

    /// Sends a `POST` that must be rejected and not change anything.
    pub async fn post_rejected(&self, path: &str, body: Value) -> TestResponse {
        let response = self.request_without_effect(Method::POST, path, &[], &body).await;
        assert!(response.status.is_client_error(), "POST {path} {body}: {}", response.status);
        assert!(response.is_error_model(), "POST {path} {body}: {}", response.body);
        response
    }

    /// Returns the state visible to clients below `base`, which is `/v1` or `/v1/{prefix}`.
    pub async fn visible_state(&self, base: &str) -> Value {
        let mut namespaces = Map::new();
        let mut parents = vec![None];
        while let Some(parent) = parents.pop() {
            let query = parent.map(|parent: Value| {
                format!("?parent={}", path::of_namespace(&parent).replace("namespaces/", ""))
            });
            let query = query.unwrap_or_default();
            let listed = self.get(&format!("{base}/namespaces{query}")).await.expect(200);
            for levels in listed.body["namespaces"].as_array().expect("a list") {
                let visible = self.visible_namespace(base, levels).await;
                namespaces.insert(levels.to_string(), visible);
                parents.push(Some(levels.clone()));
            }
        }
        Value::Object(namespaces)
    }

    async fn visible_namespace(&self, base: &str, levels: &Value) -> Value {
        let namespace = format!("{base}/{}", path::of_namespace(levels));
        let mut visible = json!({ "itself": self.get(&namespace).await.expect(200).body });
        for kind in ["tables", "views"] {
            let listed = self.get(&format!("{namespace}/{kind}")).await.expect(200);
            for identifier in listed.body["identifiers"].as_array().expect("a list") {
                let path = format!("{base}/{}", path::of_tabular(kind, identifier));
                let loaded = self.get(&path).await.expect(200).body;
                visible[kind][identifier["name"].as_str().expect("a name")] = loaded;
            }
        }
        visible
    }

    /// Returns the paths of all objects that mutations write: those of the log and of the
    /// warehouse.
    pub async fn objects(&self) -> Vec<String> {
        let objects: Vec<_> =
            self.bucket.list(None).try_collect().await.expect("memory can be listed");
        let paths = objects.into_iter().map(|object| object.location.to_string());
        let mut paths: Vec<_> = paths
            .filter(|path| !path.starts_with("state/") || path.starts_with("state/wal/"))
            .collect();
        paths.sort();
        paths
    }

    /// Returns the warehouse's files below a location.
    pub async fn files(&self, location: &str) -> Vec<String> {
        let path = path_of(location);
        let objects: Vec<_> =
            self.bucket.list(Some(&path)).try_collect().await.expect("memory can be listed");
        let mut files: Vec<_> =
            objects.into_iter().map(|object| format!("memory:///{}", object.location)).collect();
        files.sort();
        files
    }

    /// Returns the content of a file. `None` if the file does not exist.
    pub async fn file(&self, location: &str) -> Option<Vec<u8>> {
        use object_store::ObjectStoreExt;
        let path = path_of(location);
        match self.bucket.get(&path).await {
            Ok(found) => Some(found.bytes().await.expect("it is in memory").to_vec()),
            Err(object_store::Error::NotFound { .. }) => None,
            Err(error) => panic!("{location}: {error}"),
        }
    }

    /// Puts a file into the warehouse, like a client.
    pub async fn put_file(&self, location: &str, content: impl Into<Vec<u8>>) {
        use object_store::ObjectStoreExt;
        let path = path_of(location);
        self.bucket.put(&path, content.into().into()).await.expect("memory accepts all writes");
    }

    /// Deletes a file of a test warehouse.
    pub async fn delete_file(&self, location: &str) {
        use object_store::ObjectStoreExt;
        let path = path_of(location);
        self.bucket.delete(&path).await.expect("memory accepts all deletions");
    }
}

/// Returns the path of a file in the bucket of a test.
pub fn path_of(location: &str) -> Path {
    let path = ["memory:///", LAKE].iter().find_map(|prefix| location.strip_prefix(prefix));
    Path::parse(path.expect("test warehouses are in memory")).expect("a location is a path")
}
