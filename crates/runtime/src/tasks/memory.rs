//! Returns freed memory to the system while the server is idle.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

/// How often. A thread that ends at once takes some 50 us.
const EVERY: Duration = Duration::from_secs(5);

/// Starts a thread that ends at once, again and again.
///
/// mimalloc keeps a freed page for a second, and looks for pages whose time is over when a thread
/// frees another page or ends. An idle server does neither, so that the memory of its last requests
/// would stay resident.
pub(super) async fn return_memory(mut stopping: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        // Only a thread that has allocated has a heap whose end counts.
        let allocate = || drop(black_box(vec![0_u8; 64]));
        if let Err(error) = thread::Builder::new().name("purge".to_owned()).spawn(allocate) {
            tracing::debug!(%error, "cannot start the thread that returns memory");
        }
    }
}
