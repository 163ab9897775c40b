//! Tests of the writing thread: the order of writes and syncs, and failures of the disk.

use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use slatedb::wal::WalEvent;

use super::*;
use crate::error::Error;
use crate::open_segment::{ZEROED_FRAME_BYTES_MAX, ZEROS};

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
    /// Whether only writes of zeros return this error.
    failing_zeros_only: AtomicBool,
    cutting: AtomicBool,
    syncing: Mutex<Option<ErrorKind>>,
}

impl Disk {
    fn fail_writes(&self, code: impl Into<Option<i32>>) {
        *self.writing.lock().expect("no test panics here") = code.into();
    }
}

impl SegmentFile for FailingFile {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let is_spared = self.disk.failing_zeros_only.load(Ordering::Relaxed) && bytes[0] != 0;
        match *self.disk.writing.lock().expect("no test panics here") {
            Some(code) if !is_spared => {
                SegmentFile::write(&mut self.file, &bytes[..bytes.len() / 2], at)?;
                Err(io::Error::from_raw_os_error(code))
            }
            _ => SegmentFile::write(&mut self.file, bytes, at),
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
        self.append_long(number, FRAME);
    }

    fn append_long(&self, number: u64, length: usize) {
        let bytes = vec![u8::try_from(number).expect("few frames"); length];
        let append =
            PendingFrame { number, bytes, rows: 1, buffered_bytes: 0, last_sequence: number };
        self.appends.send(append).expect("the thread runs");
    }

    /// Returns the content of the first segment without the zeros at its end.
    fn bytes(&self) -> Vec<u8> {
        without_zeros(&Segment::new(self.directory.path(), 1).path)
    }

    /// Appends a frame, and returns the length of a segment after that.
    async fn length_after(&self, number: u64, length: usize, segment: u64) -> u64 {
        self.append_long(number, length);
        self.shared.wait_flushed(number).await.expect("there is space");
        let path = Segment::new(self.directory.path(), segment).path;
        path.metadata().expect("it is there").len()
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

/// Returns the content of a segment without the zeros at its end.
fn without_zeros(path: &std::path::Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    bytes
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
            let written = without_zeros(&path).len();
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

#[tokio::test]
async fn frames_are_written_over_zeros_and_the_file_grows_in_steps() {
    let journal = Fixture::new();
    let (frame, long) = (FRAME as u64, ZEROED_FRAME_BYTES_MAX + 1);
    assert_eq!(journal.length_after(1, FRAME, 1).await, frame + ZEROS);
    assert_eq!(journal.length_after(2, FRAME, 1).await, frame + ZEROS, "it fits into the zeros");
    let left = usize::try_from(ZEROS).expect("few zeros") - FRAME;
    assert_eq!(journal.length_after(3, left, 1).await, frame + ZEROS, "it fits exactly");
    let end = frame + ZEROS + frame;
    assert_eq!(journal.length_after(4, FRAME, 1).await, end + ZEROS, "the next step");
    let fitting = usize::try_from(ZEROS).expect("few zeros") - 1;
    assert_eq!(journal.length_after(5, fitting, 1).await, end + ZEROS, "one zero is left");
    let end = end + ZEROS - 1 + long as u64;
    assert_eq!(journal.length_after(6, long, 1).await, end, "no zeros follow a long frame");
    assert_eq!(journal.length_after(7, FRAME, 1).await, end + frame + ZEROS);
    let expected: Vec<u8> = [(1, FRAME), (2, FRAME), (3, left), (4, FRAME), (5, fitting)]
        .into_iter()
        .chain([(6, long), (7, FRAME)])
        .flat_map(|(number, length)| vec![number; length])
        .collect();
    assert!(journal.bytes() == expected, "the frames follow each other");
}

#[tokio::test]
async fn full_disk_during_a_write_of_zeros_does_not_affect_the_frame() {
    for cannot_cut in [false, true] {
        let journal = Fixture::new();
        journal.disk.failing_zeros_only.store(true, Ordering::Relaxed);
        journal.disk.cutting.store(cannot_cut, Ordering::Relaxed);
        journal.disk.fail_writes(ENOSPC);
        let zeros = if cannot_cut { ZEROS / 2 } else { 0 };
        assert_eq!(journal.length_after(1, FRAME, 1).await, FRAME as u64 + zeros);
        assert_eq!(journal.length_after(2, FRAME, 1).await, 2 * FRAME as u64 + zeros);
        journal.state.check_writable().expect("the journal does not wait for space");
        journal.disk.fail_writes(None);
        assert_eq!(journal.length_after(3, FRAME, 1).await, 3 * FRAME as u64 + ZEROS);
        assert_eq!(journal.bytes(), frames(&[1, 2, 3]));
    }
}

#[tokio::test]
async fn partial_frame_over_zeros_is_cut_off() {
    let journal = Fixture::new();
    journal.state.wait_for_space();
    journal.length_after(1, FRAME, 1).await;
    journal.disk.fail_writes(ENOSPC);
    journal.append(2);
    journal.wait_stalled().await;
    let segment = Segment::new(journal.directory.path(), 1).path;
    assert_eq!(std::fs::read(segment).expect("it is there"), frames(&[1]));
    journal.disk.fail_writes(None);
    journal.shared.wait_flushed(2).await.expect("there is space again");
    assert_eq!(journal.length_after(3, FRAME, 1).await, 2 * FRAME as u64 + ZEROS);
}

#[tokio::test]
async fn full_segment_ends_without_zeros() {
    let journal = Fixture::new();
    let long = usize::try_from(SEGMENT_BYTES_MAX).expect("it fits into memory") - 1;
    assert_eq!(journal.length_after(1, long, 1).await, long as u64);
    let end = (long + FRAME) as u64;
    assert_eq!(journal.length_after(2, FRAME, 1).await, end + ZEROS);
    assert_eq!(journal.length_after(3, FRAME, 1).await, end, "the first segment");
    assert_eq!(journal.length_after(4, FRAME, 3).await, FRAME as u64 + ZEROS, "the next segment");
}
