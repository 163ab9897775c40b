//! Tests of the writing thread: the order of writes and syncs, and failures of the disk.

use std::io::ErrorKind;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::error::Error;

const ENOSPC: i32 = 28;
/// Error number of an exceeded disk quota, on Linux or on macOS.
const EDQUOT: i32 = if cfg!(target_os = "linux") { 122 } else { 69 };
const EMFILE: i32 = 24;
const EROFS: i32 = 30;

/// Size of a frame in these tests, in bytes.
const FRAME: usize = 10;

/// A file whose writes fail while the test requires it.
struct FailingFile {
    file: File,
    disk: Arc<Disk>,
}

/// A disk with simulated failures.
#[derive(Default)]
struct Disk {
    /// The error that each write returns after it has written half of its bytes.
    writing: Mutex<Option<i32>>,
    cutting: AtomicBool,
    syncing: Mutex<Option<ErrorKind>>,
}

impl Disk {
    fn fail_writes(&self, code: impl Into<Option<i32>>) {
        *self.writing.lock().expect("no test panics here") = code.into();
    }
}

impl SegmentFile for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match *self.disk.writing.lock().expect("no test panics here") {
            None => self.file.write_all(bytes),
            Some(code) => {
                self.file.write_all(&bytes[..bytes.len() / 2])?;
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        if self.disk.cutting.load(Ordering::Relaxed) {
            Err(ErrorKind::Other.into())
        } else {
            self.file.set_len(bytes)
        }
    }

    fn sync(&self) -> io::Result<()> {
        match *self.disk.syncing.lock().expect("no test panics here") {
            None => self.file.sync_data(),
            Some(kind) => Err(kind.into()),
        }
    }
}

/// A WAL in a directory, on a disk with simulated failures.
struct Fixture {
    directory: tempfile::TempDir,
    disk: Arc<Disk>,
    state: JournalState,
    shared: Arc<Shared>,
    appends: mpsc::Sender<PendingFrame>,
    thread: JoinHandle<()>,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        let (disk, state) = (Arc::<Disk>::default(), JournalState::default());
        let shared = Arc::new(Shared::new(0));
        let failing = Arc::clone(&disk);
        let appender = Appender {
            directory: directory.path().to_owned(),
            create: Box::new(move |segment| {
                let (file, disk) = (segment.create()?, Arc::clone(&failing));
                Ok(Box::new(FailingFile { file, disk }))
            }),
            segment: None,
            mark: Mark::open(directory.path()).expect("there is room"),
            state: state.clone(),
            shared: Arc::clone(&shared),
            _lock: File::create(directory.path().join("lock")).expect("there is room"),
        };
        let (appends, queue) = mpsc::channel();
        let thread = thread::spawn(move || appender.run(&queue));
        Self { directory, disk, state, shared, appends, thread }
    }

    fn append(&self, number: u64) {
        let bytes = vec![u8::try_from(number).expect("few frames"); FRAME];
        let append =
            PendingFrame { number, bytes, rows: 1, buffered_bytes: 0, last_sequence: number };
        self.appends.send(append).expect("the thread runs");
    }

    /// Returns the content of the first segment.
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(Segment::new(self.directory.path(), 1).path).expect("it is there")
    }

    /// Waits until writes are rejected. Returns the reason.
    async fn wait_stalled(&self) -> Error {
        loop {
            if let Err(error) = self.state.check_writable() {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn frames(numbers: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|number| [*number; FRAME]).collect()
}

#[tokio::test]
async fn frame_rejected_by_a_full_disk_is_written_once_there_is_space() {
    for code in [ENOSPC, EDQUOT] {
        let journal = Fixture::new();
        journal.state.wait_for_space();
        journal.append(1);
        journal.shared.wait_flushed(1).await.expect("there is space");
        journal.disk.fail_writes(code);
        journal.append(2);
        journal.append(3);
        let rejection = journal.wait_stalled().await;
        assert!(matches!(rejection, Error::Stalled { is_full: true, .. }), "{rejection}");
        assert!(rejection.to_string().contains(&*journal.directory.path().to_string_lossy()));
        assert!(journal.shared.status().is_ok(), "the journal is open");
        journal.disk.fail_writes(None);
        journal.shared.wait_flushed(3).await.expect("there is space again");
        assert_eq!(journal.bytes(), frames(&[1, 2, 3]), "no part of a frame stays behind");
        journal.state.check_writable().expect("writes are accepted again");
    }
}

#[tokio::test]
async fn exhausted_file_descriptors_are_retried() {
    let journal = Fixture::new();
    journal.state.wait_for_space();
    journal.disk.fail_writes(EMFILE);
    journal.append(1);
    let rejection = journal.wait_stalled().await;
    assert!(matches!(rejection, Error::Stalled { is_full: false, .. }), "{rejection}");
    journal.disk.fail_writes(None);
    journal.shared.wait_flushed(1).await.expect("it is written");
}

#[tokio::test]
async fn close_on_a_full_disk_gives_up_the_frame() {
    let journal = Fixture::new();
    journal.state.wait_for_space();
    journal.disk.fail_writes(ENOSPC);
    journal.append(1);
    journal.wait_stalled().await;
    journal.state.give_up_on_space();
    assert!(journal.shared.wait_flushed(1).await.is_err(), "the frame was not written");
    journal.thread.join().expect("it has ended");
}

#[tokio::test]
async fn permanent_write_failure_closes_the_journal() {
    let in_start = Fixture::new();
    in_start.disk.fail_writes(ENOSPC);
    in_start.append(1);
    assert!(in_start.shared.wait_flushed(1).await.is_err(), "a start does not wait for space");

    let journal = || {
        let journal = Fixture::new();
        journal.state.wait_for_space();
        journal
    };
    let read_only = journal();
    read_only.disk.fail_writes(EROFS);
    read_only.append(1);
    assert!(read_only.shared.wait_flushed(1).await.is_err(), "no retry helps");

    let torn = journal();
    torn.disk.cutting.store(true, Ordering::Relaxed);
    torn.disk.fail_writes(ENOSPC);
    torn.append(1);
    assert!(torn.shared.wait_flushed(1).await.is_err(), "nothing may follow a torn frame");

    let unsynced = journal();
    *unsynced.disk.syncing.lock().expect("no test panics here") = Some(ErrorKind::StorageFull);
    unsynced.append(1);
    assert!(unsynced.shared.wait_flushed(1).await.is_err(), "the content of the disk is unknown");
}

#[test]
fn frame_is_written_only_after_the_previous_one_is_synced() {
    let journal = Fixture::new();
    let path = Segment::new(journal.directory.path(), 1).path;
    let events = Arc::<Mutex<Vec<_>>>::default();
    let recorded_events = Arc::clone(&events);
    let listener = move |event| {
        if let WalEvent::WalFlushed(status) = event {
            let written = std::fs::metadata(&path).expect("it is there").len();
            recorded_events
                .lock()
                .expect("no test panics here")
                .push((status.last_flushed_wal_id, written));
        }
    };
    journal.shared.listeners.lock().expect("no test panics here").push(Arc::new(listener));
    (1..=3).for_each(|number| journal.append(number));
    drop(journal.appends);
    journal.thread.join().expect("it has ended");
    let events = events.lock().expect("no test panics here");
    assert_eq!(*events, [(1, 10), (2, 20), (3, 30)], "frames, and written bytes");
}
