//! The invariants of the protocol, checked after each action.

use super::node::{Node, Put};
use super::setup::Invariant;
use super::world::World;
use crate::register::WriterState;

impl World {
    pub(super) fn check(&mut self) {
        let readers = self.nodes.iter().filter(|node| node.may_read(self.now));
        let readers: Vec<_> = readers.map(|node| node.store.as_ref()).collect();
        let is_current = |commits| commits == self.commits;
        if readers.len() > 1
            || readers.iter().any(|store| !store.is_some_and(|it| is_current(it.commits)))
        {
            self.report(Invariant::Reads);
        }
        if self.is_paused() && self.nodes.iter().any(|node| node.may_read(self.now)) {
            self.report(Invariant::Pause);
        }
        let is_confirmed = |node: &Node| {
            let store = node.store.as_ref().map(|store| (node.id(), store.epoch));
            store.is_some_and(|store| self.confirmed.contains(&store))
        };
        if self.nodes.iter().any(|node| node.is_serving && !is_confirmed(node)) {
            self.report(Invariant::Confirmation);
        }
    }

    /// Checks a put before it replaces the register.
    pub(super) fn check_put(&mut self, put: &Put) {
        let Put { record, sender, .. } = put;
        let holder = record.holder.node;
        match usize::try_from(record.term).unwrap_or(usize::MAX) {
            term if term == self.holders.len() + 1 => self.holders.push(holder),
            term if term == self.holders.len() && self.holders.last() == Some(&holder) => {}
            _ => self.report(Invariant::Terms),
        }
        if self.is_paused() {
            self.report(Invariant::Pause);
        }
        let Some((old, _)) = &self.register else { return };
        let is_free = old.state == WriterState::Released || old.holder.node == *sender;
        // Clocks of the simulation are at most 4.5 % slow, for which the margin makes up.
        let is_over = self.now >= self.changed + old.lease_ms;
        if old.holder.node != holder && !is_free && !is_over {
            self.report(Invariant::Patience);
        }
    }

    pub(super) fn check_commit(&mut self, epoch: u64) {
        if epoch < self.epoch || epoch < self.epoch_of_last_commit {
            self.report(Invariant::Fence);
        }
        self.epoch_of_last_commit = epoch;
    }

    fn report(&mut self, invariant: Invariant) {
        self.violations.insert(invariant);
    }
}
