//! [`Stalls`]: an object store in which some puts take much longer than the others, as in a bucket.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
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

/// Adds stalls to everything that an opener opens.
pub fn stalling_opener(inner: Opener, stalls: Stalls) -> Opener {
    if stalls.percent == 0 {
        return inner;
    }
    let puts = Arc::new(AtomicU64::new(0));
    Arc::new(move |url, options| {
        let opened = inner(url, options)?;
        let store = Stalling { inner: opened.object_store, stalls, puts: Arc::clone(&puts) };
        Ok(Opened { object_store: Arc::new(store), ..opened })
    })
}

/// An object store with stalls.
#[derive(Debug)]
struct Stalling {
    inner: Arc<dyn ObjectStore>,
    stalls: Stalls,
    /// Number of puts to all stores of the opener.
    puts: Arc<AtomicU64>,
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

impl fmt::Display for Stalling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Stalling {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let stall = self.stalls.of(self.puts.fetch_add(1, Ordering::Relaxed));
        if !self.stalls.of_response && !stall.is_zero() {
            sleep(stall).await;
        }
        let put = self.inner.put_opts(location, payload, options).await;
        if self.stalls.of_response && !stall.is_zero() {
            sleep(stall).await;
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
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
