//! Object stores with additional latency: the effect of a distant bucket, on any machine.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};

use slateberg_objects::location::Location;
use slateberg_objects::open::{OpenError, Opened, Opener};

/// Adds latency to each request.
pub fn slow(opened: Opened, latency: Duration) -> Opened {
    if latency.is_zero() {
        return opened;
    }
    let config = ThrottleConfig {
        wait_put_per_call: latency,
        wait_get_per_call: latency,
        wait_delete_per_call: latency,
        wait_list_per_call: latency,
        wait_list_with_delimiter_per_call: latency,
        ..ThrottleConfig::default()
    };
    let object_store = Arc::new(ThrottledStore::new(opened.object_store, config));
    // With a directory, the server would use a local journal, which bypasses the throttled store.
    Opened { object_store, directory: None, is_remote: true, ..opened }
}

/// Adds latency to everything that an opener opens.
pub fn slow_opener(inner: Opener, latency: Duration) -> Opener {
    Arc::new(move |url, options| Ok(slow(inner(url, options)?, latency)))
}

/// Opens every URL in one bucket in memory.
pub fn memory_opener() -> Opener {
    let bucket: Arc<InMemory> = Arc::new(InMemory::new());
    Arc::new(move |url, _| {
        let wrong = |reason: String| OpenError::new(url, reason);
        let location = Location::parse(url).map_err(|error| wrong(error.to_string()))?;
        let path = Path::parse(location.path()).map_err(|error| wrong(error.to_string()))?;
        let object_store: Arc<InMemory> = Arc::clone(&bucket);
        let (conditional_update, directory, is_remote) = (true, None, false);
        Ok(Opened { object_store, path, conditional_update, directory, is_remote })
    })
}
