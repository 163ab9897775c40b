//! The rules of the protocol, one by one.

use std::time::Duration;

use super::*;
use crate::register::{Member, Peer, Successor, Tag};
use crate::shared_settings::SharedSettings;

const LEASE: u64 = 4000;
const MARGIN: u64 = 200;
const RENEWAL: u64 = 1000;

/// An election, and the driver that answers it.
struct Process {
    election: Election,
    nonces: u64,
}

impl Process {
    fn started() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ElectionConfig)) -> Self {
        let mut config = config(1);
        change(&mut config);
        let mut process = Self { election: Election::new(config), nonces: 0 };
        assert_eq!(process.at(0, Event::Started), [Step::ReadRegister]);
        process
    }

    /// A process that serves since the moment 0.
    fn serving() -> Self {
        let mut process = Self::started();
        process.at(0, read(None));
        process.at(0, Event::EpochRead { epoch: Some(7) });
        process.at(0, written(0, "a"));
        process.at(0, Event::Opened { epoch: 8 });
        assert_eq!(process.at(0, written(0, "b"))[0], Step::Serve);
        process
    }

    fn at(&mut self, millis: u64, event: Event) -> Vec<Step> {
        let nonces = &mut self.nonces;
        let nonce = || {
            *nonces += 1;
            Uuid::from_u128(u128::from(*nonces))
        };
        self.election.handle(Moment::from_millis(millis), event, nonce)
    }
}

fn config(node: u128) -> ElectionConfig {
    let node = Uuid::from_u128(node);
    ElectionConfig {
        lease_ms: LEASE,
        renew_ms: RENEWAL,
        eligible: true,
        member: Member {
            node,
            name: "lake-0".into(),
            version: "0.1.0".into(),
            store_format: None,
            settings: SharedSettings::default(),
        },
        peer: Peer { url: "https://10.0.0.1:9182".into(), certificate_sha256: "00".into() },
    }
}

/// The record of another process.
fn foreign(state: WriterState, renewal: u64) -> WriterRecord {
    let ElectionConfig { member, peer, .. } = config(2);
    WriterRecord {
        format: 1,
        catalog: None,
        term: 3,
        renewal,
        nonce: Uuid::from_u128(1000 + u128::from(renewal)),
        state,
        epoch: 5,
        sequence: 0,
        policy_hash: String::new(),
        lease_ms: LEASE,
        holder: member,
        peer,
    }
}

fn read(record: Option<WriterRecord>) -> Event {
    let found = record.map(|record| (record.clone(), Tag(record.nonce.to_string())));
    Event::RegisterRead { started: Moment::default(), found }
}

fn written(started: u64, tag: &str) -> Event {
    let outcome = PutOutcome::Written(Tag(tag.into()));
    Event::PutDone { started: Moment::from_millis(started), outcome }
}

fn unknown(started: u64) -> Event {
    Event::PutDone { started: Moment::from_millis(started), outcome: PutOutcome::Unknown }
}

fn put(steps: &[Step]) -> (WriterRecord, Option<Tag>) {
    let found = steps.iter().find_map(|step| match step {
        Step::PutRegister { record, replaces } => Some(((**record).clone(), replaces.clone())),
        _ => None,
    });
    found.expect("a put")
}

fn wait(millis: u64) -> Step {
    Step::WaitUntil(Moment::from_millis(millis))
}

#[test]
fn absent_register_is_created_with_the_first_term() {
    let mut process = Process::started();
    assert_eq!(process.at(10, read(None)), [Step::ReadEpoch]);
    assert_eq!(process.election.role(), Role::Candidate);
    let (record, replaces) = put(&process.at(20, Event::EpochRead { epoch: Some(7) }));
    assert_eq!((record.term, record.renewal, record.epoch), (1, 1, 8));
    assert_eq!((record.state, replaces), (WriterState::Opening, None));
}

#[test]
fn new_holder_opens_exactly_the_epoch_that_it_named() {
    let mut process = Process::started();
    process.at(0, read(None));
    process.at(0, Event::EpochRead { epoch: Some(7) });
    let steps = process.at(0, written(0, "a"));
    assert_eq!(steps[0], Step::OpenStore { expected_epoch: Some(7) });
}

#[test]
fn new_holder_without_epochs_opens_any_epoch() {
    let mut process = Process::started();
    process.at(0, read(None));
    process.at(0, Event::EpochRead { epoch: None });
    let steps = process.at(0, written(0, "a"));
    assert_eq!(steps[0], Step::OpenStore { expected_epoch: None });
}

#[test]
fn open_store_is_served_only_after_a_put_that_confirms_its_epoch() {
    let mut process = Process::started();
    process.at(0, read(None));
    process.at(0, Event::EpochRead { epoch: None });
    process.at(0, written(0, "a"));
    let (record, replaces) = put(&process.at(500, Event::Opened { epoch: 9 }));
    assert_eq!((record.state, record.epoch), (WriterState::Serving, 9));
    assert_eq!(replaces, Some(Tag("a".into())));
    assert_eq!(process.election.authority_until(), None);
    assert_eq!(process.at(600, written(500, "b"))[0], Step::Serve);
    assert_eq!(process.election.role(), Role::Writer);
    assert_eq!(process.election.known_writer(), Some(&record));
}

#[test]
fn holder_renews_its_lease_while_the_store_opens() {
    let mut process = Process::started();
    process.at(0, read(None));
    process.at(0, Event::EpochRead { epoch: Some(7) });
    assert_eq!(process.at(0, written(0, "a"))[1], wait(RENEWAL));
    let (record, _) = put(&process.at(RENEWAL, Event::Tick));
    assert_eq!((record.state, record.renewal), (WriterState::Opening, 2));
}

#[test]
fn authority_ends_a_margin_before_the_lease_of_the_last_put() {
    let mut process = Process::serving();
    let until = |process: &Process| process.election.authority_until().unwrap().since_start();
    assert_eq!(until(&process), Duration::from_millis(LEASE - MARGIN));
    put(&process.at(1000, Event::Tick));
    process.at(1900, written(1000, "c"));
    assert_eq!(until(&process), Duration::from_millis(1000 + LEASE - MARGIN));
}

#[test]
fn standby_takes_over_a_record_that_is_unchanged_for_the_lease_and_the_margin() {
    let mut process = Process::started();
    let record = foreign(WriterState::Serving, 1);
    assert_eq!(process.at(300, read(Some(record.clone()))), [wait(300 + RENEWAL)]);
    assert_eq!(process.election.known_writer(), Some(&record));
    process.at(4000, Event::Tick);
    assert_eq!(process.at(4100, read(Some(record.clone()))), [wait(300 + LEASE + MARGIN)]);
    assert_eq!(process.at(4500, Event::Tick), [Step::ReadEpoch]);
    let (claim, replaces) = put(&process.at(4510, Event::EpochRead { epoch: Some(5) }));
    assert_eq!((claim.term, claim.renewal), (4, 2));
    assert_eq!(replaces, Some(Tag(record.nonce.to_string())));
}

#[test]
fn standby_that_reads_a_renewal_waits_for_another_lease() {
    let mut process = Process::started();
    process.at(0, read(Some(foreign(WriterState::Serving, 1))));
    process.at(4000, Event::Tick);
    process.at(4100, read(Some(foreign(WriterState::Serving, 2))));
    process.at(4200, Event::Tick);
    assert_eq!(process.election.role(), Role::Standby);
    process.at(8299, Event::Tick);
    process.at(8299, read(Some(foreign(WriterState::Serving, 2))));
    assert_eq!(process.at(8300, Event::Tick), [Step::ReadEpoch]);
}

#[test]
fn released_record_is_taken_at_once() {
    let mut process = Process::started();
    let steps = process.at(0, read(Some(foreign(WriterState::Released, 1))));
    assert_eq!(steps, [Step::ReadEpoch]);
}

#[test]
fn removed_record_is_replaced_only_after_its_lease() {
    let mut process = Process::started();
    process.at(0, read(Some(foreign(WriterState::Serving, 1))));
    process.at(1000, Event::Tick);
    process.at(1000, read(None));
    assert_eq!(process.election.role(), Role::Standby);
    process.at(5199, Event::Tick);
    process.at(5199, read(None));
    assert_eq!(process.at(5200, Event::Tick), [Step::ReadEpoch]);
}

#[test]
fn process_that_is_not_eligible_never_becomes_a_candidate() {
    let mut process = Process::with(|config| config.eligible = false);
    assert_eq!(process.at(0, read(None)), [wait(RENEWAL)]);
    process.at(60_000, Event::Tick);
    process.at(60_000, read(Some(foreign(WriterState::Released, 1))));
    assert_eq!(process.election.role(), Role::Standby);
}

#[test]
fn renewal_without_a_response_counts_from_its_start_if_a_read_finds_it() {
    let mut process = Process::serving();
    let (record, _) = put(&process.at(1000, Event::Tick));
    assert_eq!(process.at(2000, unknown(1000)), [Step::ReadRegister]);
    assert_eq!(process.election.authority_until(), Some(Moment::from_millis(LEASE - MARGIN)));
    process.at(2100, read(Some(record)));
    let until = Moment::from_millis(1000 + LEASE - MARGIN);
    assert_eq!(process.election.authority_until(), Some(until));
    assert_eq!(process.election.role(), Role::Writer);
}

#[test]
fn writer_that_finds_another_holder_is_deposed_for_two_leases() {
    let mut process = Process::serving();
    put(&process.at(1000, Event::Tick));
    let conflict = PutOutcome::Conflict;
    process.at(1000, Event::PutDone { started: Moment::from_millis(1000), outcome: conflict });
    let steps = process.at(1100, read(Some(foreign(WriterState::Opening, 9))));
    assert_eq!(steps[0], Step::CloseStore);
    assert_eq!(process.election.role(), Role::Deposed);
    assert_eq!(process.election.authority_until(), None);
    process.at(1200, Event::StoreClosed);
    process.at(1100 + 2 * LEASE - 1, Event::Tick);
    process.at(1100 + 2 * LEASE - 1, read(Some(foreign(WriterState::Opening, 9))));
    assert_eq!(process.election.role(), Role::Deposed);
    process.at(1100 + 2 * LEASE, Event::Tick);
    assert_eq!(process.election.role(), Role::Candidate);
}

#[test]
fn fenced_writer_opens_again_if_the_register_still_names_it() {
    let mut process = Process::serving();
    let own = process.election.known_writer().unwrap().clone();
    let steps = process.at(100, Event::Fenced);
    assert_eq!(steps[..2], [Step::CloseStore, Step::ReadRegister]);
    assert_eq!(process.election.authority_until(), None);
    assert_eq!(process.election.known_writer(), None);
    process.at(100, Event::StoreClosed);
    assert_eq!(process.at(110, read(Some(own)))[0], Step::ReadEpoch);
    let (record, _) = put(&process.at(120, Event::EpochRead { epoch: Some(9) }));
    assert_eq!((record.term, record.epoch, record.state), (1, 10, WriterState::Opening));
    let steps = process.at(130, written(120, "c"));
    assert_eq!(steps[0], Step::OpenStore { expected_epoch: Some(9) });
}

#[test]
fn holder_releases_the_register_after_three_failed_opens() {
    let mut process = Process::started();
    process.at(0, read(None));
    process.at(0, Event::EpochRead { epoch: Some(7) });
    let mut named = process.election.attempts[0].record.clone();
    for _ in 0..2 {
        process.at(0, written(0, "a"));
        assert_eq!(process.at(0, Event::OpenFailed)[0], Step::ReadRegister);
        process.at(0, read(Some(named)));
        named = put(&process.at(0, Event::EpochRead { epoch: Some(7) })).0;
    }
    process.at(0, written(0, "a"));
    let (record, _) = put(&process.at(0, Event::OpenFailed));
    assert_eq!(record.state, WriterState::Released);
    process.at(0, written(0, "d"));
    assert_eq!(process.election.role(), Role::Deposed);
}

#[test]
fn stopped_writer_drains_and_closes_its_store_before_it_releases_the_register() {
    let mut process = Process::serving();
    let steps = process.at(100, Event::Stop);
    assert_eq!(steps[0], Step::Drain);
    assert_eq!(put(&steps).0.state, WriterState::Leaving);
    process.at(110, written(100, "c"));
    assert_ne!(process.election.authority_until(), None);
    assert_eq!(process.at(200, Event::Drained)[0], Step::CloseStore);
    assert_eq!(process.election.authority_until(), None);
    let (record, _) = put(&process.at(300, Event::StoreClosed));
    assert_eq!(record.state, WriterState::Released);
    assert_eq!(process.at(310, written(300, "d")), [Step::Done]);
    assert_eq!(process.election.role(), Role::Stopped);
}

#[test]
fn stopped_writer_that_cannot_release_ends_when_its_lease_is_over() {
    let mut process = Process::serving();
    process.at(0, Event::Stop);
    process.at(0, unknown(0));
    process.at(0, Event::ReadFailed);
    process.at(0, Event::Drained);
    process.at(0, Event::StoreClosed);
    process.at(LEASE, Event::Tick);
    let steps = process.at(LEASE + MARGIN, Event::ReadFailed);
    assert_eq!(steps, [Step::Done]);
}

#[test]
fn stopped_candidate_resolves_its_put_and_releases_the_register() {
    let mut process = Process::started();
    process.at(0, read(None));
    let (claim, _) = put(&process.at(0, Event::EpochRead { epoch: Some(7) }));
    assert_eq!(process.at(0, Event::Stop), []);
    assert_eq!(process.at(0, unknown(0)), [Step::ReadRegister]);
    let (record, _) = put(&process.at(0, read(Some(claim))));
    assert_eq!(record.state, WriterState::Released);
}

#[test]
fn catalog_of_the_previous_writer_is_preserved() {
    let catalog = Some(Uuid::from_u128(77));
    let mut process = Process::started();
    let released = WriterRecord { catalog, ..foreign(WriterState::Released, 1) };
    process.at(0, read(Some(released)));
    let (record, _) = put(&process.at(0, Event::EpochRead { epoch: Some(5) }));
    assert_eq!(record.catalog, catalog);
}

/// The other process of [`foreign`].
fn successor() -> Successor {
    let ElectionConfig { member, peer, .. } = config(2);
    Successor { member, peer }
}

#[test]
fn writer_gives_the_next_term_to_its_successor_after_its_store_has_closed() {
    let mut process = Process::serving();
    let steps = process.at(100, Event::Transfer { successor: successor() });
    assert_eq!(steps[0], Step::Drain);
    assert_eq!(put(&steps).0.state, WriterState::Leaving);
    process.at(110, written(100, "c"));
    assert_eq!(process.at(200, Event::Drained)[0], Step::CloseStore);
    let (record, replaces) = put(&process.at(300, Event::StoreClosed));
    assert_eq!((record.term, record.epoch, record.state), (2, 9, WriterState::Opening));
    assert_eq!((record.holder.clone(), replaces), (successor().member, Some(Tag("c".into()))));
    process.at(310, written(300, "d"));
    assert_eq!(process.election.role(), Role::Standby);
    // Another member may give the term back at once.
    let (own, peer) = (config(1).member, config(1).peer);
    let back = WriterRecord { term: 3, epoch: 10, holder: own, peer, ..record };
    process.at(1000, Event::Tick);
    let steps = process.at(1000, read(Some(back)));
    assert_eq!(steps[0], Step::OpenStore { expected_epoch: Some(9) });
    assert_eq!(process.election.role(), Role::Opening);
}

#[test]
fn successor_serves_only_after_its_own_put() {
    let mut process = Process::started();
    let (own, peer) = (config(1).member, config(1).peer);
    let given = WriterRecord { holder: own, peer, ..foreign(WriterState::Opening, 7) };
    let steps = process.at(0, read(Some(given)));
    assert_eq!(steps[0], Step::OpenStore { expected_epoch: Some(4) });
    let (record, _) = put(&process.at(10, Event::Opened { epoch: 5 }));
    assert_eq!((record.term, record.state), (3, WriterState::Serving));
    assert_eq!(process.election.authority_until(), None);
    assert_eq!(process.at(20, written(10, "a"))[0], Step::Serve);
}

#[test]
fn successor_that_is_not_eligible_does_not_continue_the_term() {
    let mut process = Process::with(|config| config.eligible = false);
    let (own, peer) = (config(1).member, config(1).peer);
    let given = WriterRecord { holder: own, peer, ..foreign(WriterState::Opening, 7) };
    process.at(0, read(Some(given)));
    assert_eq!(process.election.role(), Role::Standby);
}

#[test]
fn standby_reads_the_register_at_once_after_a_notice() {
    let mut process = Process::started();
    process.at(0, read(Some(foreign(WriterState::Serving, 1))));
    assert_eq!(process.at(50, Event::RegisterChanged)[0], Step::ReadRegister);
    let steps = process.at(60, Event::RegisterChanged);
    assert!(!steps.contains(&Step::ReadRegister), "a read is in progress: {steps:?}");
}

#[test]
fn standby_reads_the_register_more_often_while_the_writer_changes() {
    let mut process = Process::started();
    let steps = process.at(0, read(Some(foreign(WriterState::Leaving, 1))));
    assert_eq!(steps, [wait(RENEWAL / 4)]);
}

#[test]
fn transfer_by_a_process_without_the_term_is_ignored() {
    let mut process = Process::started();
    process.at(0, read(Some(foreign(WriterState::Serving, 1))));
    process.at(10, Event::Transfer { successor: successor() });
    assert_eq!(process.election.role(), Role::Standby);
    process.at(20, Event::Stop);
    assert_eq!(process.election.role(), Role::Stopped);
}

#[test]
fn stopped_process_aborts_its_open_and_releases_the_register() {
    let mut process = Process::started();
    process.at(0, read(None));
    process.at(0, Event::EpochRead { epoch: Some(7) });
    process.at(0, written(0, "a"));
    let steps = process.at(10, Event::Stop);
    assert_eq!(steps[0], Step::AbortOpen);
    assert_eq!(process.election.role(), Role::Leaving);
    let (record, _) = put(&process.at(20, Event::OpenFailed));
    assert_eq!(record.state, WriterState::Released);
    assert_eq!(process.at(30, written(20, "b")), [Step::Done]);
}

#[test]
fn process_that_raises_the_store_format_waits_for_older_ones() {
    let mut process = Process::with(|config| config.member.store_format = Some(2));
    process.at(0, read(Some(foreign(WriterState::Released, 1))));
    assert_eq!(process.election.role(), Role::Standby);
    process.election.note_older_candidates(false);
    assert_eq!(process.at(1, Event::Tick)[0], Step::ReadEpoch);
}

#[test]
fn process_that_raises_the_store_format_waits_for_older_ones_for_ten_leases() {
    let mut process = Process::with(|config| config.member.store_format = Some(2));
    let record = foreign(WriterState::Released, 1);
    process.at(0, read(Some(record.clone())));
    process.at(10 * LEASE - 1, Event::Tick);
    let early = process.at(10 * LEASE - 1, read(Some(record.clone())));
    assert!(!early.contains(&Step::ReadEpoch), "{early:?}");
    let steps = process.at(10 * LEASE, Event::Tick);
    assert!(steps.contains(&Step::ReadEpoch), "{steps:?}");
}
