//! Random runs of three processes with clocks of different speeds.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::setup::{Faults, Mistake, Setup};
use super::world::{Action, World};
use crate::election::Flaw;

const FAULTS: Faults = Faults {
    lost_responses: 12,
    stops: 1,
    transfers: 4,
    pauses: 2,
    notices: 4,
    crashes: 1,
    foreign_opens: 1,
    commits: u8::MAX,
};

fn setup(mistake: Mistake) -> Setup {
    Setup { nodes: 3, lease_ms: 4000, renew_ms: 1000, reads_epochs: true, mistake, faults: FAULTS }
}

/// Executes a run. Each choice is either an action or a time that passes.
fn run(world: &mut World, choices: &[(u8, u16)]) {
    for (kind, value) in choices {
        let actions = world.actions();
        let value = usize::from(*value);
        let is_fault = |it: &Action| {
            matches!(
                it,
                Action::LoseResponse(..)
                    | Action::Stop(_)
                    | Action::Transfer(..)
                    | Action::Pause(_)
                    | Action::Notify(_)
                    | Action::Crash(_)
                    | Action::ForeignOpen
            )
        };
        let (faults, ordinary): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_fault);
        let action = match kind {
            0..8 => faults.get(value % faults.len().max(1)),
            8..220 => ordinary.get(value % ordinary.len().max(1)),
            _ => None,
        };
        let pause = if *kind > 250 { value % 6000 } else { value % 400 };
        world.apply(action.copied().unwrap_or(Action::Advance(pause as u64)));
        if !world.violations.is_empty() {
            return;
        }
    }
}

fn choices() -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec(any::<(u8, u16)>(), 100..400)
}

fn speeds() -> impl Strategy<Value = [u64; 3]> {
    [955_u64..=1045, 955_u64..=1045, 955_u64..=1045]
}

fn world(mistake: Mistake, reads_epochs: bool, speeds: [u64; 3]) -> World {
    let mut world = World::new(Setup { reads_epochs, ..setup(mistake) });
    for (node, speed) in world.nodes.iter_mut().zip(speeds) {
        node.speed = speed;
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000, failure_persistence: None, ..<_>::default()
    })]

    #[test]
    fn random_runs_keep_the_invariants_and_recover(
        choices in choices(), speeds in speeds(), reads_epochs: bool,
    ) {
        let mut world = world(Mistake::None, reads_epochs, speeds);
        run(&mut world, &choices);
        prop_assert_eq!(&world.violations, &BTreeSet::new());
        prop_assert!(world.recovers());
    }
}

#[test]
fn random_runs_find_a_lease_that_begins_too_late() {
    let mistake = Mistake::Protocol(Flaw::AuthorityFromEndOfPut);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let inputs = (choices(), speeds());
    let found = (0..20_000).any(|_| {
        let (choices, speeds) = inputs.new_tree(&mut runner).unwrap().current();
        let mut world = world(mistake, true, speeds);
        run(&mut world, &choices);
        !world.violations.is_empty()
    });
    assert!(found);
}

#[test]
fn random_runs_contain_takeovers_and_commits() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let inputs = (choices(), speeds());
    let (mut takeovers, mut commits) = (0, 0);
    for _ in 0..500 {
        let (choices, speeds) = inputs.new_tree(&mut runner).unwrap().current();
        let mut world = world(Mistake::None, true, speeds);
        run(&mut world, &choices);
        takeovers += world.holders.len().saturating_sub(1);
        commits += world.commits;
    }
    assert!(takeovers > 250 && commits > 2500, "{takeovers} takeovers, {commits} commits");
}
