//! The model check: every order of actions within bounds.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{Action, Faults, Invariant, Mistake, Setup, World};
use crate::election::Flaw;

/// Milliseconds of one step of time. All times of the model are multiples.
const TICK: u64 = 200;

struct Cluster {
    setup: Setup,
    /// Whether the first process already serves, and all others know it.
    is_established: bool,
    /// Steps of time that a run lasts.
    ticks: u64,
}

impl Cluster {
    fn start(&self) -> World {
        let faults = self.setup.faults;
        let mut world = World::new(Setup { faults: Faults::default(), ..self.setup });
        if self.is_established {
            while let Some(action) = world.actions().first().copied() {
                world.apply(action);
            }
        }
        world.faults = faults;
        world
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
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        world.apply(action);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("fence", |_, it: &World| it.violation != Some(Invariant::Fence)),
            Property::always("terms", |_, it: &World| it.violation != Some(Invariant::Terms)),
            Property::always("reads", |_, it: &World| it.violation != Some(Invariant::Reads)),
            Property::always("confirmation", |_, it: &World| {
                it.violation != Some(Invariant::Confirmation)
            }),
            Property::always("patience", |_, it: &World| it.violation != Some(Invariant::Patience)),
        ]
    }
}

/// A lease of three steps of time and a margin of one.
fn setup(faults: Faults) -> Setup {
    let mistake = Mistake::None;
    Setup { nodes: 2, lease_ms: 3 * TICK, renew_ms: TICK, reads_epochs: true, mistake, faults }
}

const NO_FAULTS: Faults =
    Faults { lost_responses: 0, stops: 0, crashes: 0, foreign_opens: 0, commits: 1 };

fn check(cluster: Cluster) -> usize {
    let checker = cluster.checker().threads(2).spawn_bfs().join();
    println!("{} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
    checker.unique_state_count()
}

/// Asserts that the checker finds a run in which a mistake breaks an invariant.
fn finds(mistake: Mistake, faults: Faults, ticks: u64, property: &'static str) {
    let setup = Setup { mistake, ..setup(faults) };
    let cluster = Cluster { setup, is_established: true, ticks };
    let stop = HasDiscoveries::AnyFailures;
    let checker = cluster.checker().threads(2).finish_when(stop).spawn_bfs().join();
    println!(
        "{mistake:?}: {} states {:?}",
        checker.unique_state_count(),
        checker.discoveries().keys()
    );
    assert!(checker.discovery(property).is_some(), "{:?}", checker.discoveries().keys());
}

#[test]
fn two_processes_keep_the_invariants_while_one_serves() {
    let setup = setup(NO_FAULTS);
    check(Cluster { setup, is_established: true, ticks: 5 });
}

#[test]
fn lease_from_the_end_of_a_put_breaks_reads() {
    finds(Mistake::Protocol(Flaw::AuthorityFromEndOfPut), NO_FAULTS, 6, "reads");
}

#[test]
fn patience_from_the_start_of_a_read_breaks_patience() {
    finds(Mistake::Protocol(Flaw::PatienceFromStartOfRead), NO_FAULTS, 6, "patience");
}

#[test]
fn patience_that_a_change_does_not_restart_breaks_patience() {
    finds(Mistake::Protocol(Flaw::PatienceNotRestarted), NO_FAULTS, 6, "patience");
}

#[test]
fn serving_without_confirmation_breaks_confirmation() {
    let mistake = Mistake::Protocol(Flaw::ServeWithoutConfirmation);
    finds(mistake, NO_FAULTS, 6, "confirmation");
}

#[test]
fn put_without_a_condition_breaks_terms() {
    finds(Mistake::PutWithoutCondition, NO_FAULTS, 6, "terms");
}

#[test]
fn unknown_put_that_counts_as_written_breaks_confirmation() {
    let faults = Faults { lost_responses: 1, ..NO_FAULTS };
    finds(Mistake::Protocol(Flaw::UnknownPutIsWritten), faults, 6, "confirmation");
}

#[test]
fn release_before_the_authority_ends_breaks_reads() {
    let faults = Faults { stops: 1, ..NO_FAULTS };
    finds(Mistake::Protocol(Flaw::ReleaseBeforeAuthorityEnds), faults, 6, "reads");
}

#[test]
fn store_without_a_fence_breaks_the_log() {
    finds(Mistake::StoreWithoutFence, Faults { commits: 2, ..NO_FAULTS }, 6, "fence");
}
