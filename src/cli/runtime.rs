//! The Tokio runtime of subcommands.

use std::time::Duration;

/// Maximum number of threads for blocking calls. Nearly all such calls access local files. Each
/// thread keeps its own heap: with Tokio's limit of 512, a hundred writers to a local directory
/// leave 190 threads, which hold 100 MiB.
const BLOCKING_THREADS_MAX: usize = 32;
/// Time for which an idle thread waits for its next call. A thread that ends frees its heap.
const BLOCKING_THREAD_IDLE_MAX: Duration = Duration::from_secs(2);

/// Creates the runtime of a subcommand.
pub(super) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREAD_IDLE_MAX)
        .build()
}
