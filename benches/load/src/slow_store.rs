//! [`SlowStore`]: an object store with the latency of a distant bucket, in which some puts take much
//! longer than the others.
//!
//! `ThrottledStore` of the crate `object_store` cannot serve files of a directory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::time::sleep;

use slateberg_objects::open::{Opened, Opener};

/// Share and duration of the puts that stall.
#[derive(Debug, Clone, Copy)]
pub struct Stalls {
    /// Percentage of the puts that stall.
    pub percent: u8,
    /// Duration of a stall.
    pub duration: Duration,
    /// Whether puts stall after they are executed, instead of before.
    pub of_response: bool,
}

impl Stalls {
    /// No put stalls.
    pub const NONE: Self = Self { percent: 0, duration: Duration::ZERO, of_response: false };
}

/// Adds latency to each request, and stalls to some puts.
pub fn slow(opened: Opened, latency: Duration, stalls: Stalls) -> Opened {
    if latency.is_zero() && stalls.percent == 0 {
        return opened;
    }
    let (inner, puts) = (opened.object_store, AtomicU64::new(0));
    let object_store = Arc::new(SlowStore { inner, latency, stalls, puts });
    // With a directory, the server would use a local journal, which bypasses the slow store.
    Opened { object_store, directory: None, is_remote: true, ..opened }
}

/// Makes everything slow that an opener opens.
pub fn slow_opener(inner: Opener, latency: Duration, stalls: Stalls) -> Opener {
    Arc::new(move |url, options| Ok(slow(inner(url, options)?, latency, stalls)))
}

/// A slow object store.
#[derive(Debug)]
struct SlowStore {
    inner: Arc<dyn ObjectStore>,
    latency: Duration,
    stalls: Stalls,
    /// Number of puts.
    puts: AtomicU64,
}

impl SlowStore {
    async fn wait(&self) {
        wait(self.latency).await;
    }

    /// Returns the stream of a slow response.
    fn wait_before<T: Send + 'static>(
        &self,
        stream: BoxStream<'static, T>,
    ) -> BoxStream<'static, T> {
        let latency = self.latency;
        wait(latency).map(move |()| stream).flatten_stream().boxed()
    }
}

async fn wait(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}

impl Stalls {
    /// Returns the time for which a put stalls. The stalls are the same in each run, and have no
    /// period.
    fn of(self, put: u64) -> Duration {
        // The finalizer of the hash function MurmurHash3.
        let mut hash = put;
        for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
            hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
        }
        let stalls = (hash ^ (hash >> 33)) % 100 < u64::from(self.percent);
        if stalls { self.duration } else { Duration::ZERO }
    }
}

impl fmt::Display for SlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for SlowStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let stall = self.stalls.of(self.puts.fetch_add(1, Ordering::Relaxed));
        let (before, after) =
            if self.stalls.of_response { (Duration::ZERO, stall) } else { (stall, Duration::ZERO) };
        wait(self.latency + before).await;
        let put = self.inner.put_opts(location, payload, options).await;
        wait(after).await;
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.wait().await;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.wait().await;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.wait().await;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.wait_before(self.inner.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.wait_before(self.inner.list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.wait().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.wait().await;
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_puts_stall() {
        let stalls =
            Stalls { percent: 1, duration: Duration::from_millis(500), of_response: false };
        let count = |stalls: Stalls| (0..10_000).filter(|put| !stalls.of(*put).is_zero()).count();
        let one_percent = count(stalls);
        assert!((80..=120).contains(&one_percent), "{one_percent}");
        assert_eq!(count(Stalls { percent: 100, ..stalls }), 10_000);
    }
}
