//! The model check: every order of actions within bounds.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::setup::{Faults, Invariant, Mistake, Setup};
use super::world::{Action, World};
use crate::election::Flaw;

/// Milliseconds of one step of time. All times of the model are multiples.
const TICK: u64 = 200;

struct Cluster {
    setup: Setup,
    start: Start,
    /// Steps of time that a run lasts.
    ticks: u64,
    /// Whether each state is checked for a way to a serving writer without further faults.
    checks_recovery: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// There is no register.
    Empty,
    /// The first process serves, and all others have read this.
    Serving,
    /// The first process has crashed as the writer.
    Crashed,
    /// The first process has the register and opens the store, and all others have read this.
    Opening,
    /// The first process has paused the cluster. The pause ends only after the last step of time.
    Paused,
}

impl Cluster {
    fn start(&self) -> World {
        let mut world = World::new(Setup { faults: Faults::default(), ..self.setup });
        match self.start {
            Start::Empty => {}
            Start::Serving | Start::Crashed | Start::Paused => world.run_until_idle(),
            Start::Opening => while world.apply_except_open() {},
        }
        if self.start == Start::Crashed {
            world.nodes[0].crash();
        }
        if self.start == Start::Paused {
            world.pause_first();
        }
        world.faults = self.setup.faults;
        world
    }

    /// The driver cannot read epochs, so that a late open fences a rightful writer.
    fn without_epochs(mut self) -> Self {
        self.setup.reads_epochs = false;
        self
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.actions());
        if world.now < self.ticks * TICK {
            actions.push(Action::Advance(TICK));
            // Otherwise most of the states would be those of the writer after the pause.
            if self.start == Start::Paused {
                actions.retain(|action| !matches!(action, Action::Resume));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        world.apply(action);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("fence", |_, it: &World| !it.violations.contains(&Invariant::Fence)),
            Property::always("terms", |_, it: &World| !it.violations.contains(&Invariant::Terms)),
            Property::always("reads", |_, it: &World| !it.violations.contains(&Invariant::Reads)),
            Property::always("confirmation", |_, it: &World| {
                !it.violations.contains(&Invariant::Confirmation)
            }),
            Property::always("pause", |_, it: &World| !it.violations.contains(&Invariant::Pause)),
            Property::always("recovery", |model: &Cluster, it: &World| {
                !model.checks_recovery || it.recovers()
            }),
            Property::always("patience", |_, it: &World| {
                !it.violations.contains(&Invariant::Patience)
            }),
        ]
    }
}

/// A lease of three steps of time and a margin of one.
fn cluster(nodes: usize, start: Start, ticks: u64, faults: Faults) -> Cluster {
    let (lease_ms, mistake) = (3 * TICK, Mistake::None);
    let setup = Setup { nodes, lease_ms, renew_ms: TICK, reads_epochs: true, mistake, faults };
    Cluster { setup, start, ticks, checks_recovery: false }
}

const NO_FAULTS: Faults = Faults {
    lost_responses: 0,
    stops: 0,
    transfers: 0,
    pauses: 0,
    notices: 0,
    crashes: 0,
    foreign_opens: 0,
    commits: 1,
};

/// Asserts that no run within the bounds breaks an invariant.
#[expect(clippy::print_stdout, reason = "reports the size of the model")]
fn check(cluster: Cluster) {
    let checker = cluster.checker().threads(2).spawn_bfs().join();
    println!("{} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Asserts that the checker finds a run in which a mistake breaks an invariant.
fn check_finds(mistake: Mistake, faults: Faults, property: &'static str) {
    check_finds_in(cluster(2, Start::Serving, 5, faults), mistake, property);
}

#[expect(clippy::print_stdout, reason = "reports the size of the model")]
fn check_finds_in(mut cluster: Cluster, mistake: Mistake, property: &'static str) {
    cluster.setup.mistake = mistake;
    let stop = HasDiscoveries::AnyOf([property].into());
    let checker = cluster.checker().threads(2).finish_when(stop).spawn_bfs().join();
    println!("{mistake:?}: {} states", checker.unique_state_count());
    assert!(checker.discovery(property).is_some(), "{mistake:?} keeps {property}");
}

#[test]
fn takeover_of_a_slow_writer_keeps_the_invariants() {
    check(cluster(2, Start::Serving, 5, NO_FAULTS));
}

#[test]
#[ignore = "takes 20 seconds"]
fn takeover_of_a_slow_writer_keeps_the_invariants_for_longer() {
    check(cluster(2, Start::Serving, 6, NO_FAULTS));
}

#[test]
fn takeover_of_a_crashed_writer_by_two_candidates_keeps_the_invariants() {
    check(cluster(3, Start::Crashed, 5, NO_FAULTS));
}

#[test]
fn first_elections_keep_the_invariants() {
    check(cluster(3, Start::Empty, 0, NO_FAULTS));
    check(cluster(2, Start::Empty, 1, Faults { lost_responses: 1, ..NO_FAULTS }));
}

#[test]
fn lost_response_of_a_writer_or_a_candidate_keeps_the_invariants() {
    check(cluster(2, Start::Serving, 4, Faults { lost_responses: 1, ..NO_FAULTS }));
}

#[test]
fn planned_stop_keeps_the_invariants() {
    check(cluster(2, Start::Serving, 2, Faults { stops: 1, ..NO_FAULTS }));
}

#[test]
fn stop_while_the_store_opens_keeps_the_invariants() {
    check(cluster(2, Start::Opening, 2, Faults { stops: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Opening, 1, Faults { stops: 1, lost_responses: 1, ..NO_FAULTS }));
}

#[test]
fn transfer_keeps_the_invariants() {
    check(cluster(2, Start::Serving, 2, Faults { transfers: 1, commits: 2, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 1, Faults { transfers: 2, ..NO_FAULTS }));
    check(cluster(2, Start::Opening, 2, Faults { transfers: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 1, Faults { transfers: 1, lost_responses: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 1, Faults { transfers: 1, stops: 1, ..NO_FAULTS }));
}

#[test]
fn transfer_to_a_process_that_does_not_continue_keeps_the_invariants() {
    check(cluster(3, Start::Serving, 0, Faults { transfers: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 3, Faults { transfers: 1, commits: 0, ..NO_FAULTS }));
}

#[test]
fn every_state_of_a_transfer_has_a_way_to_a_serving_writer() {
    for (lost_responses, crashes) in [(1, 0), (0, 1)] {
        let faults = Faults { transfers: 1, lost_responses, crashes, commits: 0, ..NO_FAULTS };
        let cluster = cluster(2, Start::Serving, 1, faults);
        check(Cluster { checks_recovery: true, ..cluster });
    }
}

#[test]
fn pause_keeps_the_invariants() {
    check(cluster(2, Start::Serving, 2, Faults { pauses: 1, commits: 2, ..NO_FAULTS }));
    check(cluster(2, Start::Opening, 2, Faults { pauses: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 1, Faults { pauses: 1, lost_responses: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 1, Faults { pauses: 1, transfers: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Serving, 1, Faults { pauses: 1, stops: 1, ..NO_FAULTS }));
}

#[test]
fn pause_that_outlasts_the_lease_keeps_the_invariants() {
    check(cluster(2, Start::Paused, 5, Faults { commits: 0, ..NO_FAULTS }));
}

#[test]
fn every_state_of_a_pause_has_a_way_to_a_serving_writer() {
    for (lost_responses, crashes) in [(1, 0), (0, 1)] {
        let faults = Faults { pauses: 1, lost_responses, crashes, commits: 0, ..NO_FAULTS };
        let cluster = cluster(2, Start::Serving, 1, faults);
        check(Cluster { checks_recovery: true, ..cluster });
    }
}

#[test]
fn notices_keep_the_invariants() {
    check(cluster(2, Start::Serving, 3, Faults { notices: 1, ..NO_FAULTS }));
}

#[test]
fn open_by_a_process_outside_the_cluster_keeps_the_invariants() {
    check(cluster(2, Start::Serving, 2, Faults { foreign_opens: 1, ..NO_FAULTS }));
    check(cluster(2, Start::Opening, 2, Faults { foreign_opens: 1, ..NO_FAULTS }));
}

#[test]
fn open_that_outlasts_the_lease_keeps_the_invariants() {
    check(cluster(2, Start::Opening, 4, NO_FAULTS));
}

#[test]
fn open_that_outlasts_the_lease_and_claims_any_epoch_keeps_the_invariants() {
    check(cluster(2, Start::Opening, 4, NO_FAULTS).without_epochs());
}

#[test]
fn every_state_has_a_way_to_a_serving_writer() {
    let faults =
        Faults { lost_responses: 1, crashes: 1, foreign_opens: 1, commits: 0, ..NO_FAULTS };
    let cluster = cluster(2, Start::Serving, 1, faults);
    check(Cluster { checks_recovery: true, ..cluster });
}

#[test]
fn lease_from_the_end_of_a_put_breaks_reads() {
    check_finds(Mistake::Protocol(Flaw::AuthorityFromEndOfPut), NO_FAULTS, "reads");
}

#[test]
fn patience_from_the_start_of_a_read_breaks_patience() {
    check_finds(Mistake::Protocol(Flaw::PatienceFromStartOfRead), NO_FAULTS, "patience");
}

#[test]
fn patience_that_a_change_does_not_restart_breaks_patience() {
    check_finds(Mistake::Protocol(Flaw::PatienceNotRestarted), NO_FAULTS, "patience");
}

#[test]
fn serving_without_confirmation_breaks_confirmation() {
    check_finds(Mistake::Protocol(Flaw::ServeWithoutConfirmation), NO_FAULTS, "confirmation");
}

#[test]
fn serving_without_confirmation_breaks_reads_if_opens_claim_any_epoch() {
    let cluster = cluster(2, Start::Opening, 4, NO_FAULTS).without_epochs();
    check_finds_in(cluster, Mistake::Protocol(Flaw::ServeWithoutConfirmation), "reads");
}

#[test]
fn put_without_a_condition_breaks_terms() {
    check_finds(Mistake::PutWithoutCondition, NO_FAULTS, "terms");
}

#[test]
fn unknown_put_that_counts_as_written_breaks_confirmation() {
    let faults = Faults { lost_responses: 1, ..NO_FAULTS };
    check_finds(Mistake::Protocol(Flaw::UnknownPutIsWritten), faults, "confirmation");
}

#[test]
fn release_before_the_authority_ends_breaks_reads() {
    let faults = Faults { stops: 1, ..NO_FAULTS };
    let cluster = cluster(2, Start::Serving, 1, faults);
    check_finds_in(cluster, Mistake::Protocol(Flaw::ReleaseBeforeAuthorityEnds), "reads");
}

#[test]
fn term_that_is_given_before_the_store_closes_breaks_reads() {
    let faults = Faults { transfers: 1, ..NO_FAULTS };
    let cluster = cluster(2, Start::Serving, 1, faults);
    check_finds_in(cluster, Mistake::Protocol(Flaw::GiveBeforeStoreCloses), "reads");
}

#[test]
fn takeover_of_a_paused_cluster_breaks_the_pause() {
    let faults = Faults { pauses: 1, commits: 0, ..NO_FAULTS };
    check_finds(Mistake::Protocol(Flaw::TakeOverPaused), faults, "pause");
}

#[test]
fn pause_before_the_store_closes_breaks_the_pause() {
    let faults = Faults { pauses: 1, ..NO_FAULTS };
    let cluster = cluster(2, Start::Serving, 1, faults);
    check_finds_in(cluster, Mistake::Protocol(Flaw::PauseBeforeStoreCloses), "pause");
}

#[test]
fn notice_that_counts_as_a_release_breaks_patience() {
    let faults = Faults { notices: 1, ..NO_FAULTS };
    check_finds(Mistake::Protocol(Flaw::NoticeReleases), faults, "patience");
}

#[test]
fn store_without_a_fence_breaks_the_log() {
    let faults = Faults { commits: 2, ..NO_FAULTS };
    check_finds(Mistake::StoreWithoutFence, faults, "fence");
}
