//! Returns freed memory to the system while the server is idle.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

/// Interval between the starts of two threads. To start and end a thread takes about 50 us.
const EVERY: Duration = Duration::from_secs(5);

/// Periodically starts a thread that ends at once.
///
/// mimalloc retains a freed page for a second. It looks for expired pages only when a thread frees
/// another page or ends. An idle server does neither, so the memory of its last requests would stay
/// resident.
pub(super) async fn return_memory(mut stopping: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        // The thread allocates memory, because mimalloc has a heap to clean up only for such
        // threads.
        let allocate = || drop(black_box(vec![0_u8; 64]));
        if let Err(error) = thread::Builder::new().name("purge".to_owned()).spawn(allocate) {
            tracing::debug!(%error, "cannot start the thread that returns memory");
        }
    }
}
