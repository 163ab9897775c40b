//! The Tokio runtime of subcommands.

use std::time::Duration;

/// Threads for calls that block, which are nearly all calls to local files. Each keeps a heap of
/// its own: with Tokio's limit of 512, a hundred writers to a local directory leave 190 threads
/// with 100 MiB behind.
const BLOCKING_THREADS_MAX: usize = 32;
/// Time for which an idle thread waits for its next call. Each that ends gives its heap back.
const BLOCKING_THREAD_IDLE_MAX: Duration = Duration::from_secs(2);

/// A runtime for a subcommand.
pub(super) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREAD_IDLE_MAX)
        .build()
}
