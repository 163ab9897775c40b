//! The reports of the driver to the election, and the requests of the election to the driver.

use crate::register::{Successor, Tag, WriterRecord};
use crate::time::Moment;

/// A report of the driver. It reports the result of each step that has one exactly once, a timeout
/// as a failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The process has started. The first event.
    Started,
    /// The register was read.
    RegisterRead {
        /// The moment directly before the request was sent.
        started: Moment,
        /// The content, or `None` if the register does not exist.
        found: Option<(WriterRecord, Tag)>,
    },
    /// The register could not be read, or its content is invalid.
    ReadFailed,
    /// A put of the register has ended.
    PutDone {
        /// The moment directly before the request was sent.
        started: Moment,
        /// The outcome.
        outcome: PutOutcome,
    },
    /// The writer epoch of the store's newest manifest was read.
    EpochRead {
        /// The epoch, 0 if the store does not exist, and `None` if the driver cannot read epochs.
        epoch: Option<u64>,
    },
    /// The epoch could not be read at the moment.
    EpochReadFailed,
    /// The store is open.
    Opened {
        /// The writer epoch of this store.
        epoch: u64,
    },
    /// The store could not be opened, for example because another process has claimed the epoch.
    OpenFailed,
    /// Another process has fenced the open store.
    Fenced,
    /// The store is closed. Also reported if it closed by itself.
    StoreClosed,
    /// The operator transfers the term to another process. Ignored unless this process holds the
    /// register, and during a pause.
    Transfer {
        /// The process that continues.
        successor: Successor,
    },
    /// The operator pauses the cluster. Ignored unless this process holds the register. Replaces a
    /// transfer that has not ended.
    Pause,
    /// The operator stops the process.
    Stop,
    /// Another process may have replaced the register.
    RegisterChanged,
    /// The writer has finished all requests.
    Drained,
    /// The moment of the last [`Step::WaitUntil`] has come. Harmless at any other moment.
    Tick,
}

/// The outcome of a conditional put.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PutOutcome {
    /// The object was written, and has this version.
    Written(Tag),
    /// The condition was not met.
    Conflict,
    /// The response was lost, or the request failed in another way. The object may be written,
    /// even later.
    Unknown,
}

/// A step that the driver executes. Steps of one call are started in their order. The driver does
/// not wait for the result of a step before it starts the next one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the register, and report [`Event::RegisterRead`] or [`Event::ReadFailed`].
    ReadRegister,
    /// Write the register once, without retries, and report [`Event::PutDone`].
    PutRegister {
        /// The content.
        record: Box<WriterRecord>,
        /// The version to replace (`If-Match`). `None` creates the object (`If-None-Match: *`).
        replaces: Option<Tag>,
    },
    /// Read the newest writer epoch, and report [`Event::EpochRead`] or
    /// [`Event::EpochReadFailed`].
    ReadEpoch,
    /// Open the store, and report [`Event::Opened`] or [`Event::OpenFailed`].
    OpenStore {
        /// The open claims exactly the next epoch, and fails if another epoch is found. `None`
        /// claims any epoch.
        expected_epoch: Option<u64>,
    },
    /// End the open that is in progress, and report [`Event::OpenFailed`], or [`Event::Opened`] if
    /// it has succeeded in the meantime.
    AbortOpen,
    /// Process requests by the open store from now on.
    Serve,
    /// Accept no further changes, finish those under way, and report [`Event::Drained`].
    Drain,
    /// Process no further requests, close the store, and report [`Event::StoreClosed`].
    CloseStore,
    /// Report [`Event::Tick`] at this moment. Replaces an earlier request.
    WaitUntil(Moment),
    /// The election has ended, and the process may exit.
    Done,
}
