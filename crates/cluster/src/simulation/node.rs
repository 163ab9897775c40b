//! One simulated process, and the driver of its election.

use uuid::Uuid;

use super::setup::{Mistake, Setup};
use crate::election::{Election, ElectionConfig, Event, PutOutcome, Step};
use crate::register::{Member, Peer, Successor, Tag, WriterRecord};
use crate::shared_settings::SharedSettings;
use crate::time::Moment;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) election: Election,
    pub(super) requests: Vec<Request>,
    pub(super) timer: Option<Moment>,
    pub(super) store: Option<Store>,
    /// Whether the last step about the store was to process requests by it.
    pub(super) is_serving: bool,
    pub(super) is_stopping: bool,
    pub(super) has_ended: bool,
    /// Speed of the clock in thousandths of true time.
    pub(super) speed: u64,
    puts: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) epoch: u64,
    /// The commits that reads of this store show.
    pub(super) commits: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Put {
    pub(super) started: Moment,
    pub(super) record: WriterRecord,
    pub(super) replaces: Option<Tag>,
    pub(super) sender: Uuid,
}

/// A request that is under way. Reads and puts take effect some time before their response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Read {
        started: Moment,
        found: Option<Option<(WriterRecord, Tag)>>,
    },
    Put {
        put: Put,
        outcome: Option<PutOutcome>,
    },
    ReadEpoch,
    Open {
        expected: Option<u64>,
    },
    /// An open that was aborted. It may still claim its epoch.
    AbortedOpen {
        expected: Option<u64>,
    },
    Close,
    Drain,
}

impl Request {
    pub(super) fn needs_effect(&self) -> bool {
        match self {
            Self::Read { found, .. } => found.is_none(),
            Self::Put { outcome, .. } => outcome.is_none(),
            _ => false,
        }
    }

    /// Returns what the driver reports if the response is lost.
    pub(super) fn failure(&self) -> Option<Event> {
        match self {
            Self::Read { .. } => Some(Event::ReadFailed),
            Self::Put { put, .. } => {
                Some(Event::PutDone { started: put.started, outcome: PutOutcome::Unknown })
            }
            Self::ReadEpoch => Some(Event::EpochReadFailed),
            Self::Open { .. } => Some(Event::OpenFailed),
            Self::AbortedOpen { .. } | Self::Close | Self::Drain => None,
        }
    }
}

impl Node {
    pub(super) fn new(index: usize, setup: Setup) -> Self {
        let node = Uuid::from_u64_pair(index as u64 + 1, 0);
        let config = ElectionConfig {
            lease_ms: setup.lease_ms,
            renew_ms: setup.renew_ms,
            eligible: true,
            member: Member {
                node,
                name: String::new(),
                version: String::new(),
                store_format: None,
                settings: SharedSettings::default(),
            },
            peer: Peer { url: String::new(), certificate_sha256: String::new() },
        };
        let flaw = match setup.mistake {
            Mistake::Protocol(flaw) => Some(flaw),
            _ => None,
        };
        Self {
            election: Election::with_flaw(config, flaw),
            requests: Vec::new(),
            timer: None,
            store: None,
            is_serving: false,
            is_stopping: false,
            has_ended: false,
            speed: 1000,
            puts: 0,
        }
    }

    pub(super) fn id(&self) -> Uuid {
        self.election.config().member.node
    }

    /// This process as the successor of another one.
    pub(super) fn as_successor(&self) -> Successor {
        let ElectionConfig { member, peer, .. } = self.election.config().clone();
        Successor { member, peer }
    }

    pub(super) fn clock(&self, now: u64) -> Moment {
        Moment::from_millis(now * self.speed / 1000)
    }

    /// Whether a read that arrives now is answered.
    pub(super) fn may_read(&self, now: u64) -> bool {
        let until = self.election.authority_until();
        !self.has_ended && until.is_some_and(|until| self.clock(now) < until)
    }

    pub(super) fn open(&mut self, epoch: u64, commits: u64) {
        self.store = Some(Store { epoch, commits });
    }

    pub(super) fn crash(&mut self) {
        self.has_ended = true;
        self.is_serving = false;
        self.store = None;
        self.requests.clear();
        self.timer = None;
    }

    pub(super) fn handle(&mut self, now: u64, event: Event) {
        let started = self.clock(now);
        let sender = self.id();
        let index = sender.as_u64_pair().0;
        let puts = &mut self.puts;
        let nonce = || {
            *puts += 1;
            Uuid::from_u64_pair(index, *puts)
        };
        for step in self.election.handle(started, event, nonce) {
            match step {
                Step::ReadRegister => self.requests.push(Request::Read { started, found: None }),
                Step::PutRegister { record, replaces } => {
                    let put = Put { started, record: *record, replaces, sender };
                    self.requests.push(Request::Put { put, outcome: None });
                }
                Step::ReadEpoch => self.requests.push(Request::ReadEpoch),
                Step::OpenStore { expected_epoch: expected } => {
                    self.requests.push(Request::Open { expected });
                }
                Step::AbortOpen => {
                    for request in &mut self.requests {
                        if let Request::Open { expected } = *request {
                            *request = Request::AbortedOpen { expected };
                        }
                    }
                }
                Step::Serve => self.is_serving = true,
                Step::Drain => self.requests.push(Request::Drain),
                Step::CloseStore => {
                    self.is_serving = false;
                    self.store = None;
                    self.requests.push(Request::Close);
                }
                Step::WaitUntil(moment) => self.timer = Some(moment),
                Step::Done => self.crash(),
            }
        }
    }
}
