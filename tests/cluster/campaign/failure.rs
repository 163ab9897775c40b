//! [`Failure`]: a failure of a member, of its connections or of the bucket, chosen at random.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::clients::MEMBERS;
use super::process::{Process, takeover};
use crate::support::faults::{EVERYTHING, Fault, LOG, METADATA_FILES, Verb};

/// Path of the record of the writer.
const RECORD: &str = "cluster/writer";
/// Maximum difference between a clock that jumps and the clock of the system, in milliseconds.
const JUMP_MS_MAX: i64 = 60_000;
/// Maximum number of lost or delayed responses of one kind.
const LOST_MAX: usize = 5;

/// A failure.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The process ends at once.
    Kill(usize),
    /// The process stops in order.
    Stop(usize),
    /// The process does nothing for this time, and then continues.
    Pause(usize, Duration),
    /// Other members do not reach the member.
    CutConnections(usize, Cut),
    /// Requests to the bucket have a fault: those of one member, or of all.
    Bucket(Option<usize>, BucketFault),
    /// The clock differs from the clock of the system by this number of milliseconds.
    ClockJump(usize, i64),
    /// A client requests a transfer of the writer through this member.
    Transfer(usize),
}

/// A cut of the connections to a member. Its connections to others continue.
#[derive(Debug, Clone, Copy)]
pub enum Cut {
    /// They are closed.
    Closed,
    /// They pass on nothing.
    Silent,
    /// They pass on requests, but no responses.
    WithoutResponses,
}

/// A fault of requests to the bucket.
#[derive(Debug, Clone)]
pub struct BucketFault {
    verb: Verb,
    part: &'static str,
    fault: Fault,
    /// Maximum number of affected requests.
    times: usize,
}

impl BucketFault {
    /// Chooses a fault of all requests.
    fn outage(rng: &mut impl Rng) -> Self {
        let faults = [Fault::Fail, Fault::Hang, Fault::LoseResponse, Fault::HoldResponse];
        let fault = faults.choose(rng).expect("there are some").clone();
        Self { verb: Verb::Any, part: EVERYTHING, fault, times: usize::MAX }
    }

    /// Chooses a fault of some requests.
    fn of_some(rng: &mut impl Rng) -> Self {
        let part = *[EVERYTHING, LOG, RECORD, METADATA_FILES].choose(rng).expect("there are some");
        let verb = *[Verb::Any, Verb::Put].choose(rng).expect("there are some");
        let faults = [Fault::LoseResponse, Fault::HoldResponse, Fault::Delay(0..500), Fault::Hang];
        let fault = faults.choose(rng).expect("there are some").clone();
        Self { verb, part, fault, times: rng.random_range(1..=LOST_MAX) }
    }

    fn inject(&self, process: &Process) {
        let Self { verb, part, fault, times } = self;
        process.faults.inject_times(*verb, part, fault.clone(), *times);
    }
}

impl Failure {
    /// Chooses a failure. Most of them affect the writer, if it is known.
    pub fn choose(rng: &mut StdRng, writer: Option<usize>) -> Self {
        let member = match writer {
            Some(writer) if rng.random_bool(0.6) => writer,
            _ => rng.random_range(0..MEMBERS),
        };
        match rng.random_range(0..12) {
            0 | 1 => Self::Kill(member),
            2 => Self::Stop(member),
            3 | 4 => {
                let longest = 2 * takeover().as_millis() as u64;
                Self::Pause(member, Duration::from_millis(rng.random_range(50..longest)))
            }
            5 | 6 => {
                let cuts = [Cut::Closed, Cut::Silent, Cut::WithoutResponses];
                Self::CutConnections(member, *cuts.choose(rng).expect("there are some"))
            }
            7 => Self::Bucket(Some(member), BucketFault::outage(rng)),
            8 => Self::Bucket(None, BucketFault::outage(rng)),
            9 => Self::Bucket(Some(member), BucketFault::of_some(rng)),
            10 => {
                let offset = rng.random_range(-JUMP_MS_MAX..=JUMP_MS_MAX);
                // Small jumps are close to the limit that a writer accepts.
                let divisor = *[1, 100].choose(rng).expect("there are some");
                Self::ClockJump(member, offset / divisor)
            }
            _ => Self::Transfer(member),
        }
    }

    /// The time for which the failure has to last.
    pub fn duration(&self) -> Duration {
        match self {
            Self::Pause(_, duration) => *duration,
            _ => Duration::ZERO,
        }
    }

    /// Begins a failure of running processes or of the bucket.
    pub fn begin(&self, processes: &mut [Option<Process>]) {
        match self {
            Self::Pause(member, _) => {
                if let Some(process) = &mut processes[*member] {
                    process.pause();
                }
            }
            Self::CutConnections(member, cut) => {
                if let Some(process) = &processes[*member] {
                    match cut {
                        Cut::Closed => process.relay.cut(),
                        Cut::Silent => process.relay.freeze(),
                        Cut::WithoutResponses => process.relay.lose_responses(),
                    }
                }
            }
            Self::Bucket(Some(member), fault) => {
                if let Some(process) = &processes[*member] {
                    fault.inject(process);
                }
            }
            Self::Bucket(None, fault) => {
                processes.iter().flatten().for_each(|process| fault.inject(process));
            }
            Self::ClockJump(member, offset_ms) => {
                if let Some(process) = &processes[*member] {
                    process.clock.jump_to(*offset_ms);
                }
            }
            // The caller ends processes, and sends requests.
            Self::Kill(_) | Self::Stop(_) | Self::Transfer(_) => {}
        }
    }
}
