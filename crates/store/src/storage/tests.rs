//! Tests of failing object stores: some failures end a request at once, the others are recorded and
//! retried.

use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error, ObjectStore, ObjectStoreExt};

use super::*;

fn final_error(error: &Error) -> &StorageError {
    StorageError::find(error).unwrap_or_else(|| panic!("{error:?} is retried"))
}

/// Creates a directory with `x`, a file of 10 bytes.
fn directory() -> (tempfile::TempDir, Arc<dyn ObjectStore>) {
    let directory = tempfile::tempdir().expect("there is room");
    std::fs::write(directory.path().join("x"), b"0123456789").expect("there is room");
    let files = LocalFileSystem::new_with_prefix(directory.path()).expect("it is there");
    (directory, Storage::default().watch(Arc::new(files), true))
}

#[tokio::test]
async fn range_beyond_the_end_of_a_file_is_a_final_error_with_its_name() {
    let (_directory, files) = directory();
    let error = files.get_range(&Path::from("x"), 10..20).await.expect_err("there are 10 bytes");
    let message = final_error(&error).to_string();
    assert!(message.starts_with("cannot read /x: it ends after 10 bytes"), "{message}");
    let read = files.get_range(&Path::from("x"), 8..20).await.expect("the rest of it");
    assert_eq!(&read[..], b"89");
}

#[tokio::test]
async fn range_beyond_the_end_of_an_object_is_a_final_error() {
    let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let bucket = Storage::default().watch(bucket, false);
    bucket.put(&Path::from("x"), "0123456789".into()).await.expect("there is room");
    let error = bucket.get_range(&Path::from("x"), 10..20).await.expect_err("there are 10 bytes");
    assert!(final_error(&error).to_string().contains("truncated"), "{error}");
}

#[tokio::test]
async fn directory_as_file_and_long_name_are_final_errors() {
    let (directory, files) = directory();
    std::fs::create_dir(directory.path().join("d")).expect("there is room");
    let error = files.get(&Path::from("d")).await.expect_err("it is a directory");
    if !matches!(error, Error::NotFound { .. }) {
        final_error(&error);
    }
    let path = Path::from("x".repeat(300));
    let error = files.put(&path, "x".into()).await.expect_err("255 bytes are the most");
    assert!(final_error(&error).to_string().contains(path.as_ref()), "{error}");
}

#[tokio::test]
async fn missing_object_is_not_a_storage_failure() {
    let (_directory, files) = directory();
    let error = files.get(&Path::from("y")).await.expect_err("it is not there");
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn failure_lasts_until_the_next_success() {
    let storage = Storage::default();
    let request = || Request { operation: Operation::Read, file: "x".to_owned() };
    assert_eq!(storage.failing_for(Duration::ZERO), None);
    storage.failed(request(), "first".to_owned(), false);
    storage.failed(request(), "second".to_owned(), false);
    assert_eq!(storage.failing_for(Duration::ZERO).as_deref(), Some("cannot read x: second"));
    assert_eq!(storage.failing_for(Duration::from_secs(60)), None);
    storage.succeeded(request);
    assert_eq!(storage.failing_for(Duration::ZERO), None);
    let delete = Request { operation: Operation::Delete, ..request() };
    storage.failed(delete, "x".to_owned(), false);
    assert_eq!(storage.failing_for(Duration::ZERO), None, "garbage may stay undeleted");
}
