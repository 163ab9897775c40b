//! Tests of hedged puts: slow requests, slow responses, failures and competing writers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult,
    Result,
};
use tokio::time::{Instant, sleep};

use super::{BYTES_MAX, hedged};
use crate::forward::forward_all_but_put;
use slateberg_telemetry::collection::Collection;
use slateberg_telemetry::prometheus::render;
use slateberg_telemetry::requests::HedgedPuts;

const USUAL: Duration = Duration::from_millis(20);
const STALL: Duration = Duration::from_millis(500);

/// The course of one put: the times before and after it is executed.
#[derive(Debug, Clone, Copy)]
struct Course {
    before: Duration,
    after: Duration,
    /// Whether the put fails instead of being executed.
    fails: bool,
}

const SMOOTH: Course = Course { before: USUAL, after: Duration::ZERO, fails: false };
const LATE_REQUEST: Course = Course { before: STALL, ..SMOOTH };
const LATE_RESPONSE: Course = Course { after: STALL, ..SMOOTH };
const FAILED: Course = Course { fails: true, ..SMOOTH };

/// An in-memory store whose next puts take the given courses.
#[derive(Default)]
struct Scripted {
    inner: InMemory,
    courses: Mutex<VecDeque<Course>>,
    puts: Mutex<usize>,
}

forward_all_but_put!(Scripted);

impl Scripted {
    async fn put_or_forward(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        *self.puts.lock().expect("no test panics with it") += 1;
        let next = self.courses.lock().expect("no test panics with it").pop_front();
        let course = next.unwrap_or(SMOOTH);
        sleep(course.before).await;
        if course.fails {
            return Err(Error::Generic { store: "scripted", source: "no response".into() });
        }
        let put = self.inner.put_opts(location, payload, options).await;
        sleep(course.after).await;
        put
    }
}

/// A hedged store, and the scripted store below it.
struct Stores {
    hedged: Arc<dyn ObjectStore>,
    bucket: Arc<Scripted>,
    metrics: Arc<HedgedPuts>,
}

impl Stores {
    /// Creates stores after 100 smooth puts, whose next puts take these courses.
    async fn with(courses: &[Course]) -> Self {
        let (bucket, metrics) = (Arc::new(Scripted::default()), Arc::default());
        let hedged = hedged(Arc::clone(&bucket) as _, &metrics, "state");
        let stores = Self { hedged, bucket, metrics };
        for number in 0..100 {
            stores.create(&format!("old/{number}"), "x").await.0.expect("there is room");
        }
        *stores.bucket.puts.lock().expect("no test panics with it") = 0;
        *stores.bucket.courses.lock().expect("no test panics with it") =
            courses.iter().copied().collect();
        stores
    }

    /// Creates an object, with an id in its metadata. Returns the result and the duration.
    async fn create(&self, path: &str, content: &str) -> (Result<PutResult>, Duration) {
        self.put(path, content, PutMode::Create).await
    }

    async fn put(&self, path: &str, content: &str, mode: PutMode) -> (Result<PutResult>, Duration) {
        let began = Instant::now();
        let mut options = PutOptions::from(mode);
        options.attributes.insert(Attribute::Metadata("id".into()), content.to_owned().into());
        let (path, payload) = (Path::from(path), content.to_owned().into());
        let put = self.hedged.put_opts(&path, payload, options).await;
        (put, began.elapsed())
    }

    /// Returns the content and the id of an object.
    async fn read(&self, path: &str) -> (String, String) {
        let found = self.bucket.get(&Path::from(path)).await.expect("it exists");
        let id = found.attributes.get(&Attribute::Metadata("id".into()));
        let id = id.map(|id| id.as_ref().to_owned());
        let bytes = found.bytes().await.expect("memory is read");
        (String::from_utf8_lossy(&bytes).into_owned(), id.unwrap_or_default())
    }

    fn puts(&self) -> usize {
        *self.bucket.puts.lock().expect("no test panics with it")
    }

    /// Returns the number of hedged puts whose response was used in this way.
    fn used(&self, used: &str) -> String {
        let mut collection = Collection::default();
        self.metrics.collect(&mut collection);
        let name = "slateberg_object_store_hedged_puts_total";
        let series = format!("{name}{{store=\"state\",used=\"{used}\"}} ");
        let text = render(&collection);
        text.lines().find_map(|line| line.strip_prefix(&series)).unwrap_or("0").to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn late_request_is_sent_again() {
    let stores = Stores::with(&[LATE_REQUEST]).await;
    let (created, took) = stores.create("a", "mine").await;
    created.expect("nothing is there");
    assert!(took < 3 * USUAL, "{took:?}");
    assert_eq!(stores.read("a").await, ("mine".to_owned(), "mine".to_owned()));
    assert_eq!((stores.puts(), stores.used("second")), (2, "1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn late_response_is_reported_as_an_existing_object_with_the_own_id() {
    let stores = Stores::with(&[LATE_RESPONSE]).await;
    let (created, took) = stores.create("a", "mine").await;
    assert!(matches!(created, Err(Error::AlreadyExists { .. })), "{created:?}");
    assert!(took < 3 * USUAL, "{took:?}");
    assert_eq!(stores.read("a").await, ("mine".to_owned(), "mine".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn object_of_another_writer_is_never_replaced_or_reported_as_created() {
    for course in [LATE_REQUEST, LATE_RESPONSE, FAILED] {
        let stores = Stores::with(&[course]).await;
        stores.bucket.inner.put(&Path::from("a"), "another's".into()).await.expect("it is empty");
        let (created, _) = stores.create("a", "mine").await;
        let is_taken = matches!(created, Err(Error::AlreadyExists { .. }));
        assert!(is_taken || (course.fails && created.is_err()), "{created:?}");
        sleep(2 * STALL).await;
        assert_eq!(stores.read("a").await.0, "another's");
    }
}

#[tokio::test(start_paused = true)]
async fn put_is_not_executed_after_the_other_has_succeeded() {
    let stores = Stores::with(&[LATE_REQUEST]).await;
    stores.create("a", "mine").await.0.expect("nothing is there");
    stores.bucket.delete(&Path::from("a")).await.expect("it exists");
    sleep(2 * STALL).await;
    let found = stores.bucket.head(&Path::from("a")).await;
    assert!(matches!(found, Err(Error::NotFound { .. })), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn failure_of_one_put_waits_for_the_other() {
    let stores = Stores::with(&[LATE_REQUEST, FAILED]).await;
    let (created, took) = stores.create("a", "mine").await;
    created.expect("nothing is there");
    assert_eq!((took, stores.used("first")), (STALL, "1".to_owned()));

    let late_failure = Course { before: 3 * USUAL / 2, ..FAILED };
    let stores = Stores::with(&[late_failure]).await;
    stores.create("a", "mine").await.0.expect("nothing is there");
    assert_eq!(stores.used("second"), "1");

    let stores = Stores::with(&[late_failure, FAILED]).await;
    let (failed, _) = stores.create("a", "mine").await;
    assert!(matches!(failed, Err(Error::Generic { store: "scripted", .. })), "{failed:?}");
    assert_eq!(stores.used("none"), "1");
}

#[tokio::test(start_paused = true)]
async fn fast_failure_is_returned_at_once() {
    let stores = Stores::with(&[FAILED]).await;
    let (failed, took) = stores.create("a", "mine").await;
    assert!(matches!(failed, Err(Error::Generic { .. })), "{failed:?}");
    assert_eq!((took, stores.puts()), (USUAL, 1));
}

#[tokio::test(start_paused = true)]
async fn large_and_replacing_puts_are_sent_once() {
    let stores = Stores::with(&[LATE_REQUEST; 3]).await;
    let large = "x".repeat(BYTES_MAX + 1);
    for (content, mode) in [(large.as_str(), PutMode::Create), ("x", PutMode::Overwrite)] {
        let (put, took) = stores.put("a", content, mode).await;
        put.expect("nothing is there, or it is replaced");
        assert_eq!(took, STALL);
    }
    assert_eq!(stores.puts(), 2);
    let (created, took) = stores.create("b", &large[..BYTES_MAX]).await;
    created.expect("nothing is there");
    assert_eq!((took < STALL, stores.puts()), (true, 4));
}

#[tokio::test(start_paused = true)]
async fn slow_store_gets_few_second_puts() {
    let stores = Stores::with(&[LATE_REQUEST; 2_000]).await;
    for number in 0..200 {
        stores.create(&number.to_string(), "x").await.0.expect("nothing is there");
    }
    // Seven stalls make the 95th percentile so long that no put is slow. The budget is exhausted
    // earlier.
    assert_eq!(stores.puts() - 200, 5);
}

#[tokio::test(start_paused = true)]
async fn stalls_of_one_percent_at_most_double_the_99th_percentile() {
    let stalls = |every: usize| -> Vec<_> {
        (1..3_000).map(|put| if put % every == 0 { LATE_REQUEST } else { SMOOTH }).collect()
    };
    // A commit waits for a put to each of two stores. So 2 % of the commits contain a stall.
    let (log, warehouse) = (Stores::with(&stalls(97)).await, Stores::with(&stalls(101)).await);
    let mut durations = Vec::new();
    for number in 0..1_000 {
        let path = number.to_string();
        let puts = futures::join!(log.create(&path, "x"), warehouse.create(&path, "x"));
        puts.0.0.and(puts.1.0).expect("nothing is there");
        durations.push(puts.0.1.max(puts.1.1));
    }
    durations.sort_unstable();
    assert_eq!((durations[500], durations[990]), (USUAL, 2 * USUAL));
    assert!(log.puts() + warehouse.puts() <= 2_000 + 25, "few puts are sent twice");
}
