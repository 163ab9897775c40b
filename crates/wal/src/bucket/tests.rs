//! Tests of the log in a bucket: the order of acknowledgements, fencing, and replays.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use rand::RngExt;
use slatedb::config::{CloseOptions, Settings};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use slatedb::wal::WalError;
use slatedb::{Db, ErrorKind};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::LogFlusher;

const STORE: &str = "state";

/// A bucket that delays the files of the log. A put takes effect even if its caller does not wait for
/// it any longer, as in a real bucket.
#[derive(Debug)]
struct SlowLog {
    bucket: Arc<InMemory>,
    /// The file whose puts hang.
    held: Mutex<Option<u64>>,
    /// Maximum delay of each put.
    delay_max: Duration,
    /// Whether some puts return an error after they have taken effect.
    loses_responses: bool,
}

impl SlowLog {
    fn new(bucket: &Arc<InMemory>) -> Arc<Self> {
        let (held, delay_max, loses_responses) = (Mutex::default(), Duration::ZERO, false);
        Arc::new(Self { bucket: Arc::clone(bucket), held, delay_max, loses_responses })
    }

    fn unreliable(bucket: &Arc<InMemory>) -> Arc<Self> {
        let (held, delay_max, loses_responses) = (Mutex::default(), Duration::from_millis(6), true);
        Arc::new(Self { bucket: Arc::clone(bucket), held, delay_max, loses_responses })
    }

    fn hold(&self, file: Option<u64>) {
        *self.held.lock().expect("no test panics here") = file;
    }

    fn is_held(&self, location: &Path) -> bool {
        number(location)
            .is_some_and(|number| *self.held.lock().expect("no test panics here") == Some(number))
    }
}

impl fmt::Display for SlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("slow log")
    }
}

#[async_trait]
impl ObjectStore for SlowLog {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        while self.is_held(location) {
            sleep(Duration::from_millis(1)).await;
        }
        let (bucket, to, delay) =
            (Arc::clone(&self.bucket), location.clone(), random_part(self.delay_max));
        let put = tokio::spawn(async move {
            sleep(delay).await;
            bucket.put_opts(&to, payload, options).await
        });
        let put = put.await.expect("it does not panic");
        if self.loses_responses && rand::rng().random_bool(0.1) {
            return Err(Error::Generic { store: "slow", source: "no response".into() });
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.bucket.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.bucket.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.bucket.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // The files of a busy writer appear after a listing.
        let (listed, delay) = (self.bucket.list(prefix), random_part(self.delay_max));
        sleep(delay).map(|()| stream::iter([])).flatten_stream().chain(listed).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.bucket.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.bucket.copy_opts(from, to, options).await
    }
}

fn random_part(max: Duration) -> Duration {
    max.mul_f64(rand::rng().random_range(0.0..=1.0))
}

fn log(object_store: Arc<dyn ObjectStore>) -> BucketLog {
    BucketLog::new(object_store, &Path::from(STORE), None)
}

fn settings() -> Settings {
    Settings {
        flush_interval: None,
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    }
}

/// Opens a database whose log is written through `through`.
async fn open(bucket: &Arc<InMemory>, through: Arc<SlowLog>) -> Db {
    try_open(bucket, through).await.expect("it opens")
}

async fn try_open(bucket: &Arc<InMemory>, through: Arc<SlowLog>) -> Result<Db, slatedb::Error> {
    open_with_flusher(bucket, through).await.map(|(db, _)| db)
}

async fn open_with_flusher(
    bucket: &Arc<InMemory>,
    through: Arc<SlowLog>,
) -> Result<(Db, LogFlusher), slatedb::Error> {
    let (writer, flusher) = log(through).into_writer();
    let builder = Db::builder(STORE, Arc::clone(bucket) as Arc<dyn ObjectStore>);
    let db = builder.with_settings(settings()).with_wal_writer(writer).build().await?;
    Ok((db, flusher))
}

/// Writes a row without waiting until it is durable.
async fn write(db: &Db, key: &str) {
    try_write(db, key).await.expect("it is accepted");
}

async fn try_write(db: &Db, key: &str) -> Result<(), slatedb::Error> {
    db.put(key, "").await.map(|_| ())
}

async fn has(db: &Db, key: &str) -> bool {
    db.get(key).await.expect("it is read").is_some()
}

/// Stops a database as a crash does: its memtables are lost.
async fn crash(db: Db) {
    db.close_with_options(CloseOptions { flush_type: None }).await.expect("it closes");
}

/// Returns the number of the file that the next flush writes.
async fn next_file(bucket: &Arc<InMemory>) -> u64 {
    log(Arc::clone(bucket) as _).last_after(0).await.expect("it is listed") + 1
}

async fn wait_for_file(bucket: &Arc<InMemory>, file: u64) {
    let log = log(Arc::clone(bucket) as _);
    while !log.has(file).await.expect("the bucket responds") {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn log_ends_at_the_first_gap() {
    assert_eq!(last_consecutive(&[], 7), 7);
    assert_eq!(last_consecutive(&[8, 9, 10], 7), 10);
    assert_eq!(last_consecutive(&[8, 9, 11], 7), 9);
    assert_eq!(last_consecutive(&[9, 10], 7), 7);
}

#[tokio::test]
async fn flushed_rows_are_durable_in_the_database_and_in_the_log() {
    let bucket = Arc::new(InMemory::new());
    let slow = SlowLog::new(&bucket);
    let (db, flusher) = open_with_flusher(&bucket, Arc::clone(&slow)).await.expect("it opens");
    slow.hold(Some(next_file(&bucket).await));
    let sequence = db.put("row", "").await.expect("it is accepted").seqnum();
    // The second flush has no rows of its own, and waits for the first.
    let mut flushes = JoinSet::new();
    for _ in 0..2 {
        let flusher = flusher.clone();
        flushes.spawn(async move { flusher.flush().await });
    }
    sleep(Duration::from_millis(50)).await;
    assert!(flushes.try_join_next().is_none() && db.status().durable_seq < sequence);
    slow.hold(None);
    while let Some(flushed) = flushes.join_next().await {
        flushed.expect("no panic").expect("it is durable");
        assert!(db.status().durable_seq >= sequence, "SlateDB knows it before the flush returns");
    }
    crash(db).await;
    assert!(matches!(flusher.flush().await, Err(WalError::Closed)));
    assert!(has(&open(&bucket, slow).await, "row").await);
}

#[tokio::test]
async fn files_are_put_at_the_same_time_and_acknowledged_in_order() {
    let bucket = Arc::new(InMemory::new());
    let slow = SlowLog::new(&bucket);
    let db = Arc::new(open(&bucket, Arc::clone(&slow)).await);
    let first = next_file(&bucket).await;
    slow.hold(Some(first));
    let mut flushes = JoinSet::new();
    for index in 0..=PUTS_MAX {
        write(&db, &format!("row-{index}")).await;
        let db = Arc::clone(&db);
        flushes.spawn(async move { db.flush().await });
        sleep(Duration::from_millis(5)).await;
    }
    wait_for_file(&bucket, first + PUTS_MAX - 1).await;
    sleep(Duration::from_millis(20)).await;
    let log = log(Arc::clone(&bucket) as _);
    assert!(!log.has(first + PUTS_MAX).await.expect("it responds"), "too many puts");
    assert!(flushes.try_join_next().is_none(), "nothing is acknowledged before the first file");
    slow.hold(None);
    while let Some(flushed) = flushes.join_next().await {
        flushed.expect("no panic").expect("it is flushed");
    }
    assert!(log.has(first + PUTS_MAX).await.expect("it responds"));
}

#[tokio::test]
async fn files_after_a_missing_one_are_dead_for_every_later_writer() {
    let bucket = Arc::new(InMemory::new());
    let slow = SlowLog::new(&bucket);
    let old = Arc::new(open(&bucket, Arc::clone(&slow)).await);
    write(&old, "acknowledged").await;
    old.flush().await.expect("it is flushed");
    let missing = next_file(&bucket).await;
    slow.hold(Some(missing));
    let mut flushes = JoinSet::new();
    for name in ["missing", "dead-1", "dead-2"] {
        write(&old, name).await;
        let old = Arc::clone(&old);
        flushes.spawn(async move { old.flush().await });
        sleep(Duration::from_millis(5)).await;
    }
    wait_for_file(&bucket, missing + 2).await;
    for name in ["second", "third"] {
        let new = open(&bucket, SlowLog::new(&bucket)).await;
        assert!(has(&new, "acknowledged").await);
        for dead in ["missing", "dead-1", "dead-2"] {
            assert!(!has(&new, dead).await, "{dead} was not acknowledged");
        }
        write(&new, name).await;
        new.flush().await.expect("it is flushed");
        crash(new).await;
    }
    slow.hold(None);
    while let Some(flushed) = flushes.join_next().await {
        let error = flushed.expect("no panic").expect_err("the writer is fenced");
        assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
    }
    let last = open(&bucket, SlowLog::new(&bucket)).await;
    for name in ["acknowledged", "second", "third"] {
        assert!(has(&last, name).await, "{name} is lost");
    }
    assert!(!has(&last, "dead-1").await);
    let log = log(Arc::clone(&bucket) as _);
    let fence = log.read(missing).await.expect("it is read");
    assert!(matches!(fence.content, FileContent::Fence));
    let mut fences = log.fences_before(missing + 2, 0).await.expect("it is listed");
    let dead = log.read(missing + 2).await.expect("it is read");
    assert!(matches!(&dead.content, FileContent::Frame(rows) if !rows.is_empty()));
    assert!(fences.live_rows(dead).is_empty(), "a reader may begin between dead files");
}

#[tokio::test]
async fn put_without_a_response_is_acknowledged_after_a_retry() {
    let bucket = Arc::new(InMemory::new());
    let db = open(&bucket, SlowLog::unreliable(&bucket)).await;
    for index in 0..50 {
        write(&db, &format!("row-{index}")).await;
        db.flush().await.expect("the retry finds the file");
    }
}

#[tokio::test]
async fn log_by_slatedb_is_read() {
    let bucket = Arc::new(InMemory::new());
    let builder = Db::builder(STORE, Arc::clone(&bucket) as Arc<dyn ObjectStore>);
    let db = builder.with_settings(settings()).build().await.expect("it opens");
    for name in ["a", "b"] {
        write(&db, name).await;
        db.flush().await.expect("it is flushed");
    }
    crash(db).await;
    for name in ["c", "d"] {
        let db = open(&bucket, SlowLog::new(&bucket)).await;
        assert!(has(&db, "a").await && has(&db, "b").await);
        write(&db, name).await;
        db.flush().await.expect("it is flushed");
        crash(db).await;
    }
    let db = open(&bucket, SlowLog::new(&bucket)).await;
    assert!(has(&db, "b").await && has(&db, "c").await && has(&db, "d").await);
}

#[tokio::test]
async fn damaged_file_is_an_error() {
    let bucket = Arc::new(InMemory::new());
    let db = open(&bucket, SlowLog::new(&bucket)).await;
    let file = next_file(&bucket).await;
    write(&db, "a").await;
    db.flush().await.expect("it is flushed");
    crash(db).await;
    let log = log(Arc::clone(&bucket) as _);
    let path = log.file(file);
    let whole = bucket.get(&path).await.expect("it exists").bytes().await.expect("it is read");
    let mut changed = whole.to_vec();
    *changed.last_mut().expect("it is not empty") ^= 1;
    for damaged in [Bytes::from(changed), whole.slice(..whole.len() - 1), whole.slice(..10)] {
        bucket.put_opts(&path, damaged.into(), PutMode::Overwrite.into()).await.expect("it is put");
        assert!(matches!(log.read(file).await, Err(ReadError::Damaged(_))));
        assert!(try_open(&bucket, SlowLog::new(&bucket)).await.is_err());
    }
}

#[test]
fn files_after_a_missing_one_are_damage_if_they_are_too_many() {
    let numbers = |end: u64| [8, 9].into_iter().chain(11..=end).collect::<Vec<_>>();
    assert_eq!(missing_file(&numbers(9 + PUTS_MAX), 7), None, "they may have been put together");
    assert_eq!(missing_file(&numbers(10 + PUTS_MAX), 7), Some(10));
    assert_eq!(missing_file(&numbers(9 + PUTS_MAX), 6), Some(7));
    assert_eq!(missing_file(&[], 7), None);
}

#[tokio::test]
async fn log_without_an_acknowledged_file_is_rejected_at_each_start() {
    let bucket = Arc::new(InMemory::new());
    let db = open(&bucket, SlowLog::new(&bucket)).await;
    let first = next_file(&bucket).await;
    for index in 0..2 * PUTS_MAX {
        write(&db, &format!("row-{index}")).await;
        db.flush().await.expect("it is flushed");
    }
    crash(db).await;
    bucket.delete(&log(Arc::clone(&bucket) as _).file(first + 3)).await.expect("it exists");
    for _ in 0..2 {
        assert!(try_open(&bucket, SlowLog::new(&bucket)).await.is_err());
    }
}

/// Another process that starts at the same time can put its fence among the numbers that the new
/// writer fills.
#[tokio::test]
async fn rows_after_the_fence_of_another_start_are_not_dead() {
    for distance in 1..PUTS_MAX {
        let bucket = Arc::new(InMemory::new());
        let other = log(Arc::clone(&bucket) as _).file(1 + distance);
        bucket.put(&other, Bytes::new().into()).await.expect("it is put");
        let db = open(&bucket, SlowLog::new(&bucket)).await;
        for name in ["a", "b"] {
            write(&db, name).await;
            db.flush().await.expect("it is flushed");
        }
        crash(db).await;
        let db = open(&bucket, SlowLog::new(&bucket)).await;
        assert!(has(&db, "a").await && has(&db, "b").await, "distance {distance}");
        crash(db).await;
    }
}

/// Writes rows until the database is closed. Returns the acknowledged rows.
async fn write_until_closed(db: Arc<Db>, name: String) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for index in 0.. {
        let key = format!("{name}-{index}");
        if try_write(&db, &key).await.is_err() || db.flush().await.is_err() {
            break;
        }
        acknowledged.push(key);
        sleep(random_part(Duration::from_millis(2))).await;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeovers_lose_no_acknowledged_row_and_leave_one_writer() {
    const TAKEOVERS: usize = 40;
    const WRITERS: usize = 6;
    let bucket = Arc::new(InMemory::new());
    let mut acknowledged = Vec::new();
    let mut writers: JoinSet<Vec<String>> = JoinSet::new();
    for epoch in 0..TAKEOVERS {
        // Now and then, two processes open the store at the same time.
        let opening = [(); 2].map(|()| try_open(&bucket, SlowLog::unreliable(&bucket)));
        let [one, other] = opening;
        let opened = if epoch % 3 == 0 {
            let (one, other) = futures::join!(one, other);
            vec![one, other]
        } else {
            vec![one.await]
        };
        // The writers of older epochs still run, until they notice that they are fenced.
        for (index, db) in opened.into_iter().enumerate() {
            let Ok(db) = db else { continue };
            let db = Arc::new(db);
            for writer in 0..WRITERS {
                let name = format!("{epoch}-{index}-{writer}");
                writers.spawn(write_until_closed(Arc::clone(&db), name));
            }
        }
        sleep(random_part(Duration::from_millis(60))).await;
    }
    let last = open(&bucket, SlowLog::unreliable(&bucket)).await;
    while let Some(rows) = writers.join_next().await {
        acknowledged.extend(rows.expect("no panic"));
    }
    assert!(acknowledged.len() > TAKEOVERS, "{} rows", acknowledged.len());
    for key in &acknowledged {
        assert!(has(&last, key).await, "{key} was acknowledged, but is lost");
    }
    timeout(Duration::from_secs(10), last.close()).await.expect("in time").expect("it closes");
}
