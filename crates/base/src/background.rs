//! Threads whose work must not delay requests.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Nice value of the threads: the lowest priority. A thread with the default value of 0 gets about 70
/// times the processor time.
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Time for which a thread without work is kept.
const IDLE: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce() + Send>;

/// Threads of low priority, and their work. They are created as needed. Linux does not let a thread
/// raise its priority again, so these threads do no other work. Only Linux has priorities of threads.
/// Cheap to clone.
#[derive(Clone, Default)]
pub struct BackgroundThreads(Arc<Threads>);

#[derive(Default)]
struct Threads {
    state: Mutex<State>,
    has_work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    /// Number of threads that wait for work, without those that are to take the work in the queue.
    idle: usize,
}

impl BackgroundThreads {
    /// Runs work on one of the threads, and waits for its result.
    ///
    /// # Errors
    /// Fails if there are too many threads, or if the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<T> {
        let (sender, result) = oneshot::channel();
        // The caller may have stopped waiting.
        let work = move || drop(sender.send(work()));
        self.add(Box::new(work))?;
        result.await.map_err(std::io::Error::other)
    }

    /// Gives work to a thread that waits for work, or to a new one.
    fn add(&self, work: Work) -> std::io::Result<()> {
        let mut state = self.0.lock();
        if state.idle > 0 {
            state.idle -= 1;
            state.queue.push_back(work);
            drop(state);
            self.0.has_work.notify_one();
            return Ok(());
        }
        drop(state);
        let threads = Arc::clone(&self.0);
        let run = move || {
            lower_priority();
            work();
            while let Some(work) = threads.next() {
                work();
            }
        };
        std::thread::Builder::new().name("background".to_owned()).spawn(run).map(drop)
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work. Returns `None` after some time without work.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        state.idle += 1;
        loop {
            if let Some(work) = state.queue.pop_front() {
                return Some(work);
            }
            let waited = self.has_work.wait_timeout(state, IDLE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() && state.queue.is_empty() {
                state.idle -= 1;
                return None;
            }
        }
    }
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
        let (thread, nice) = BackgroundThreads::default().run(work).await.expect("it runs");
        assert_ne!(thread, own);
        assert_eq!(nice, if cfg!(target_os = "linux") { 19 } else { 0 });
    }

    #[tokio::test]
    async fn panic_of_the_work_is_an_error() {
        let threads = BackgroundThreads::default();
        assert!(threads.run(|| panic!("on purpose")).await.is_err());
        assert_eq!(threads.run(|| 7).await.expect("it runs"), 7);
    }

    #[tokio::test]
    async fn thread_is_used_again_until_it_has_no_work_for_some_time() {
        let threads = BackgroundThreads::default();
        let mut ids = std::collections::HashSet::new();
        for _ in 0..3 {
            ids.insert(threads.run(|| std::thread::current().id()).await.expect("it runs"));
            while threads.0.lock().idle == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(ids.len(), 1);
        let ends = async {
            while threads.0.lock().idle > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(30 * IDLE, ends).await.expect("the thread ends");
        assert_eq!(threads.run(|| 7).await.expect("it runs"), 7);
    }

    #[tokio::test]
    async fn work_runs_on_several_threads_at_the_same_time() {
        let (threads, barrier) =
            (BackgroundThreads::default(), Arc::new(std::sync::Barrier::new(3)));
        for _ in 0..100 {
            let all = [(); 3].map(|()| {
                let barrier = Arc::clone(&barrier);
                threads.run(move || barrier.wait())
            });
            let [one, two, three] = all;
            let (one, two, three) = tokio::join!(one, two, three);
            assert!(one.is_ok() && two.is_ok() && three.is_ok());
        }
    }
}
