//! The limit of commits: puts of the same size to the same object store without a catalog, one
//! after the other.

use std::time::Instant;

use futures::TryStreamExt;
use object_store::{ObjectStoreExt, PutMode, PutPayload};

use super::load::{Measured, Stopwatch};
use slateberg_objects::open::Opened;

/// Number of puts before the measurement.
const WARM_UP: u64 = 10;

/// Creates `iterations` objects with a conditional put each, and then deletes them.
pub async fn bare_put(
    opened: &Opened,
    run: &str,
    bytes: usize,
    iterations: u64,
) -> Result<Measured, object_store::Error> {
    // Bytes that no file system or link can compress.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    })
    .take(bytes)
    .collect();
    let payload = PutPayload::from(content);
    let folder = opened.path.clone().join(format!("bench-put-{run}"));
    let put = async |n: u64| {
        let path = folder.clone().join(n.to_string());
        opened.object_store.put_opts(&path, payload.clone(), PutMode::Create.into()).await
    };
    for n in 0..WARM_UP {
        put(iterations + n).await?;
    }
    let mut stopwatch = Stopwatch::start(&[]);
    for n in 0..iterations {
        let since = Instant::now();
        put(n).await?;
        stopwatch.done(since.elapsed());
    }
    let measured = stopwatch.stop();
    let objects = opened.object_store.list(Some(&folder)).map_ok(|object| object.location);
    for path in objects.try_collect::<Vec<_>>().await? {
        opened.object_store.delete(&path).await?;
    }
    Ok(measured)
}
