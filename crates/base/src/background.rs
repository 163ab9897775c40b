//! Threads whose work must not delay requests.

use tokio::sync::oneshot;

/// Nice value of the threads. A thread with the default value of 0 gets about ten times the
/// processor time.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Runs work on a new thread of low priority, and waits for its result. The thread costs some 20 us,
/// and Linux does not let a thread raise its priority again, so that threads cannot be shared with
/// other work. Only Linux has priorities of threads.
///
/// # Errors
/// Fails if there are too many threads, or if the work panics.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<T> {
    let (sender, result) = oneshot::channel();
    let work = move || {
        lower_priority();
        // The caller may have stopped waiting.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("background".to_owned()).spawn(work)?;
    result.await.map_err(std::io::Error::other)
}

/// Lowers the priority of this thread, if the system has priorities of threads.
pub fn lower_priority() {
    // For Linux, this is the priority of the calling thread. If it cannot be lowered, the work only
    // competes more with requests.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Lets threads that wait for a processor run first. Long work calls this at least every millisecond:
/// Linux lets even a thread of low priority run for some milliseconds before it switches to another
/// one.
pub fn give_way() {
    std::thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_on_a_thread_of_low_priority() {
        let own = std::thread::current().id();
        let work = || {
            let nice = rustix::process::getpriority_process(None);
            (std::thread::current().id(), nice.expect("a priority"))
        };
        let (thread, nice) = run(work).await.expect("it runs");
        assert_ne!(thread, own);
        assert_eq!(nice, if cfg!(target_os = "linux") { 10 } else { 0 });
    }

    #[tokio::test]
    async fn panic_of_the_work_is_an_error() {
        assert!(run(|| panic!("on purpose")).await.is_err());
    }
}
