//! Measures how the block size and the filters affect reads, with keys and values like those of the
//! store. It reports the requests and bytes of a cold read, the time of a warm read, and the
//! requests and bytes of a lookup of a missing name.
//!
//! `cargo bench -p slateberg-store --bench store_layout`

#![expect(clippy::print_stdout, reason = "the benchmark prints its results")]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use futures::stream::BoxStream;
use slatedb::config::{CloseOptions, FlushType, SstBlockSize};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use slatedb::{BloomFilterPolicy, Db, DbBuilder};

/// Number of tables in the catalog. `READS` is the number of reads of each kind.
const TABLES: u32 = 20_000;
const READS: u32 = 2_000;

/// Counts reads of sorted runs.
#[derive(Debug)]
struct Counting {
    bucket: InMemory,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, at: &Path, body: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.bucket.put_opts(at, body, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.bucket.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        let found = self.bucket.get_opts(at, how).await?;
        if at.as_ref().contains("compacted") {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let Range { start, end } = found.range;
            self.bytes.fetch_add(end - start, Ordering::Relaxed);
        }
        Ok(found)
    }

    fn delete_stream(
        &self,
        all: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.bucket.delete_stream(all)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.bucket.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.bucket.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.bucket.copy_opts(from, to, how).await
    }
}

/// Returns a number that looks random, like an id.
fn mixed(number: u32) -> u128 {
    let mut state = u64::from(number).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut half = || {
        state ^= state >> 29;
        state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state ^= state >> 32;
        u128::from(state)
    };
    (half() << 64) | half()
}

fn by_id(space: u8, number: u32) -> Vec<u8> {
    [&[space], mixed(number).to_be_bytes().as_slice()].concat()
}

fn by_name(number: u32) -> Vec<u8> {
    let name = format!("table_{number:06}");
    [&[0x30], mixed(number % 50).to_be_bytes().as_slice(), name.as_bytes()].concat()
}

/// Returns a value of this size. It can hardly be compressed, like data that is already compressed.
fn value(number: u32, bytes: u32) -> Vec<u8> {
    (0..bytes.div_ceil(16)).flat_map(|part| mixed(number ^ (part << 20)).to_be_bytes()).collect()
}

struct Layout {
    block: SstBlockSize,
    bits: u32,
    filtered_keys_min: u32,
}

impl Layout {
    fn builder(&self, bucket: &Arc<Counting>) -> DbBuilder<String> {
        let settings = slatedb::Settings {
            min_filter_keys: self.filtered_keys_min,
            compactor_options: None,
            garbage_collector_options: None,
            l0_max_ssts: 1000,
            ..Default::default()
        };
        Db::builder("layout".to_owned(), Arc::clone(bucket) as Arc<dyn ObjectStore>)
            .with_settings(settings)
            .with_sst_block_size(self.block)
            .with_filter_policies(vec![Arc::new(BloomFilterPolicy::new(self.bits))])
    }

    /// Creates a catalog with this many tables in this many sorted runs.
    async fn filled(&self, tables: u32, runs: u32) -> Arc<Counting> {
        let (requests, bytes) = Default::default();
        let bucket = Arc::new(Counting { bucket: InMemory::new(), requests, bytes });
        let db = self.builder(&bucket).build().await.expect("the store opens");
        for run in 0..runs {
            for number in (run..tables).step_by(runs as usize) {
                db.put(by_name(number), value(number, 32)).await.expect("it is put");
                db.put(by_id(0x32, number), value(number, 400)).await.expect("it is put");
                db.put(by_id(0x33, number), value(number, 1600)).await.expect("it is put");
            }
            let flush_type = FlushType::MemTable;
            let options = slatedb::config::FlushOptions { flush_type };
            db.flush_with_options(options).await.expect("it flushes");
        }
        let in_order = CloseOptions { flush_type: Some(FlushType::MemTable) };
        db.close_with_options(in_order).await.expect("the store closes");
        bucket
    }

    /// Opens the catalog with empty caches and reads all keys twice. Returns the requests and bytes
    /// per read in the first pass, and the microseconds per read in the second pass.
    async fn read(&self, bucket: &Arc<Counting>, keys: &[Vec<u8>]) -> (f64, f64, f64) {
        let db = self.builder(bucket).build().await.expect("the store opens");
        bucket.requests.store(0, Ordering::Relaxed);
        bucket.bytes.store(0, Ordering::Relaxed);
        for key in keys {
            db.get(key).await.expect("it reads");
        }
        let each = |sum: u64| sum as f64 / keys.len() as f64;
        let requests = each(bucket.requests.load(Ordering::Relaxed));
        let bytes = each(bucket.bytes.load(Ordering::Relaxed));
        let began = Instant::now();
        for key in keys {
            db.get(key).await.expect("it reads");
        }
        let us = began.elapsed().as_secs_f64() * 1e6 / keys.len() as f64;
        db.close().await.expect("the store closes");
        (requests, bytes, us)
    }
}

#[tokio::main]
async fn main() {
    let some = |space: u8| -> Vec<_> {
        (0..READS).map(|read| by_id(space, read * (TABLES / READS))).collect()
    };
    println!("{TABLES} tables in one run; requests and bytes of a cold read, us of a warm read");
    let blocks = [
        SstBlockSize::Block1Kib,
        SstBlockSize::Block2Kib,
        SstBlockSize::Block4Kib,
        SstBlockSize::Block8Kib,
        SstBlockSize::Block16Kib,
    ];
    for block in blocks {
        let layout = Layout { block, bits: 10, filtered_keys_min: 1 };
        let bucket = layout.filled(TABLES, 1).await;
        let (record, metadata) =
            (layout.read(&bucket, &some(0x32)).await, layout.read(&bucket, &some(0x33)).await);
        println!(
            "{block:?}: record {:.2} {:.0} B {:.1} us; metadata {:.2} {:.0} B {:.1} us",
            record.0, record.1, record.2, metadata.0, metadata.1, metadata.2
        );
    }
    println!("lookups of missing names, {TABLES} tables in 8 runs");
    let free: Vec<_> = (0..READS).map(|read| by_name(TABLES + read)).collect();
    for bits in [8, 10, 12, 14, 16, 20] {
        let layout = Layout { block: SstBlockSize::Block4Kib, bits, filtered_keys_min: 1 };
        let bucket = layout.filled(TABLES, 8).await;
        let (requests, bytes, us) = layout.read(&bucket, &free).await;
        println!("{bits} bits: {requests:.3} requests, {bytes:.0} B, warm {us:.1} us");
    }
    println!("lookups of missing names, 8 runs of a few keys");
    for tables in [80, 800, 2400] {
        for filtered_keys_min in [1, 100_000] {
            let block = SstBlockSize::Block4Kib;
            let layout = Layout { block, bits: 14, filtered_keys_min };
            let bucket = layout.filled(tables, 8).await;
            let (_, _, us) = layout.read(&bucket, &free).await;
            let keys = tables * 3 / 8;
            println!("{keys} keys each, filtered {}: warm {us:.1} us", filtered_keys_min == 1);
        }
    }
}
