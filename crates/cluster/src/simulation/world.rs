//! [`World`]: the state of a simulated cluster, and the actions that change it.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::node::{Node, Put, Request};
use super::setup::{Faults, Invariant, Mistake, Setup};
use crate::election::{Event, PutOutcome, Role};
use crate::register::{Tag, WriterRecord, WriterState};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// Milliseconds of true time, which no process knows.
    pub(super) now: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) register: Option<(WriterRecord, Tag)>,
    /// The true time of the last put of the register.
    pub(super) changed: u64,
    /// The holder of each term, from the first.
    pub(super) holders: Vec<Uuid>,
    /// The processes and epochs of all puts of `serving`.
    pub(super) confirmed: Vec<(Uuid, u64)>,
    /// The writer epoch of the manifest.
    pub(super) epoch: u64,
    /// Acknowledged commits, all of which are in the log.
    pub(super) commits: u64,
    pub(super) epoch_of_last_commit: u64,
    /// Puts whose sender has given up, and that are still on their way.
    pub(super) late_puts: Vec<Put>,
    /// Aborted opens that may still claim an epoch.
    pub(super) late_opens: Vec<Option<u64>>,
    pub(super) faults: Faults,
    pub(super) reads_epochs: bool,
    pub(super) mistake: Mistake,
    pub(super) violations: BTreeSet<Invariant>,
}

/// The next event of a simulation. Numbers are positions of processes and of their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Advance(u64),
    TakeEffect(usize, usize),
    Respond(usize, usize),
    LoseResponse(usize, usize),
    ArriveLate(usize),
    ClaimLate(usize),
    Tick(usize),
    Commit(usize),
    Stop(usize),
    Transfer(usize, usize),
    Pause(usize),
    Resume,
    Notify(usize),
    Crash(usize),
    ForeignOpen,
}

impl World {
    pub(super) fn new(setup: Setup) -> Self {
        let nodes = (0..setup.nodes).map(|index| Node::new(index, setup)).collect();
        let mut world = Self {
            now: 0,
            nodes,
            register: None,
            changed: 0,
            holders: Vec::new(),
            confirmed: Vec::new(),
            epoch: 0,
            commits: 0,
            epoch_of_last_commit: 0,
            late_puts: Vec::new(),
            late_opens: Vec::new(),
            faults: setup.faults,
            reads_epochs: setup.reads_epochs,
            mistake: setup.mistake,
            violations: BTreeSet::new(),
        };
        for node in &mut world.nodes {
            node.handle(0, Event::Started);
        }
        world
    }

    /// Returns everything that can happen now, except that time passes.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.has_ended) {
            for (position, request) in node.requests.iter().enumerate() {
                if request.needs_effect() {
                    actions.push(Action::TakeEffect(index, position));
                } else {
                    actions.push(Action::Respond(index, position));
                }
                if self.faults.lost_responses > 0 && request.failure().is_some() {
                    actions.push(Action::LoseResponse(index, position));
                }
            }
            if node.timer.is_some_and(|timer| timer <= node.clock(self.now)) {
                actions.push(Action::Tick(index));
            }
            let is_fenced = node.store.as_ref().is_some_and(|store| store.epoch < self.epoch);
            if node.is_serving && (is_fenced || self.faults.commits > 0) {
                actions.push(Action::Commit(index));
            }
            if self.faults.stops > 0 && !node.is_stopping {
                actions.push(Action::Stop(index));
            }
            if self.faults.transfers > 0 && node.election.holds_term() {
                let others = (0..self.nodes.len()).filter(|other| *other != index);
                actions.extend(others.map(|other| Action::Transfer(index, other)));
            }
            if self.faults.pauses > 0 && node.election.holds_term() {
                actions.push(Action::Pause(index));
            }
            if self.faults.notices > 0 && node.election.role() == Role::Standby {
                actions.push(Action::Notify(index));
            }
            if self.faults.crashes > 0 {
                actions.push(Action::Crash(index));
            }
        }
        actions.extend((0..self.late_puts.len()).map(Action::ArriveLate));
        actions.extend((0..self.late_opens.len()).map(Action::ClaimLate));
        if self.faults.foreign_opens > 0 {
            actions.push(Action::ForeignOpen);
        }
        if self.is_paused() {
            actions.push(Action::Resume);
        }
        actions
    }

    pub(super) fn apply(&mut self, action: Action) {
        match action {
            Action::Advance(millis) => self.now += millis,
            Action::TakeEffect(index, position) => self.take_effect(index, position),
            Action::Respond(index, position) => {
                let request = self.nodes[index].requests.remove(position);
                let event = self.respond(index, request);
                self.nodes[index].handle(self.now, event);
            }
            Action::LoseResponse(index, position) => {
                self.faults.lost_responses -= 1;
                let request = self.nodes[index].requests.remove(position);
                let event = request.failure().expect("the request can fail");
                if let Request::Put { put, outcome: None } = request {
                    self.late_puts.push(put);
                }
                self.nodes[index].handle(self.now, event);
            }
            Action::ArriveLate(position) => {
                let put = self.late_puts.remove(position);
                self.put(&put);
            }
            Action::ClaimLate(position) => {
                let expected = self.late_opens.remove(position);
                if expected.is_none_or(|it| it == self.epoch) {
                    self.epoch += 1;
                }
            }
            Action::Tick(index) => {
                self.nodes[index].timer = None;
                self.nodes[index].handle(self.now, Event::Tick);
            }
            Action::Commit(index) => self.commit(index),
            Action::Stop(index) => {
                self.faults.stops -= 1;
                self.nodes[index].is_stopping = true;
                self.nodes[index].handle(self.now, Event::Stop);
            }
            Action::Transfer(index, other) => {
                self.faults.transfers -= 1;
                let successor = self.nodes[other].as_successor();
                self.nodes[index].handle(self.now, Event::Transfer { successor });
            }
            Action::Pause(index) => {
                self.faults.pauses -= 1;
                self.nodes[index].handle(self.now, Event::Pause);
            }
            Action::Resume => self.resume(),
            Action::Notify(index) => {
                self.faults.notices -= 1;
                self.nodes[index].handle(self.now, Event::RegisterChanged);
            }
            Action::Crash(index) => {
                self.faults.crashes -= 1;
                self.nodes[index].crash();
            }
            Action::ForeignOpen => {
                self.faults.foreign_opens -= 1;
                self.epoch += 1;
            }
        }
        self.check();
    }

    pub(super) fn take_effect(&mut self, index: usize, position: usize) {
        match self.nodes[index].requests[position].clone() {
            Request::Read { started, .. } => {
                let found = Some(self.register.clone());
                self.nodes[index].requests[position] = Request::Read { started, found };
            }
            Request::Put { put, .. } => {
                let outcome = Some(self.put(&put));
                self.nodes[index].requests[position] = Request::Put { put, outcome };
            }
            _ => {}
        }
    }

    pub(super) fn respond(&mut self, index: usize, request: Request) -> Event {
        match request {
            Request::Read { started, found } => {
                Event::RegisterRead { started, found: found.expect("the read has taken effect") }
            }
            Request::Put { put, outcome } => {
                let outcome = outcome.expect("the put has taken effect");
                Event::PutDone { started: put.started, outcome }
            }
            Request::ReadEpoch => {
                Event::EpochRead { epoch: self.reads_epochs.then_some(self.epoch) }
            }
            Request::Open { expected } if expected.is_some_and(|it| it != self.epoch) => {
                Event::OpenFailed
            }
            Request::Open { .. } => {
                self.epoch += 1;
                self.nodes[index].open(self.epoch, self.commits);
                Event::Opened { epoch: self.epoch }
            }
            Request::AbortedOpen { expected } => {
                self.late_opens.push(expected);
                Event::OpenFailed
            }
            Request::Close => Event::StoreClosed,
            Request::Drain => Event::Drained,
        }
    }

    pub(super) fn put(&mut self, put: &Put) -> PutOutcome {
        let tag = self.register.as_ref().map(|(_, tag)| tag);
        if tag != put.replaces.as_ref() && self.mistake != Mistake::PutWithoutCondition {
            return PutOutcome::Conflict;
        }
        let tag = Tag(put.record.nonce.to_string());
        self.check_put(put);
        if put.record.state == WriterState::Serving {
            self.confirmed.push((put.record.holder.node, put.record.epoch));
        }
        self.register = Some((put.record.clone(), tag.clone()));
        self.changed = self.now;
        PutOutcome::Written(tag)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.register.as_ref().is_some_and(|(record, _)| record.state == WriterState::Paused)
    }

    /// An operator replaces the register on condition.
    fn resume(&mut self) {
        let Some((record, _)) = self.register.take() else { return };
        let nonce = Uuid::from_u64_pair(u64::MAX, record.renewal);
        self.register = Some((record.resumed(nonce), Tag(nonce.to_string())));
        self.changed = self.now;
    }

    pub(super) fn commit(&mut self, index: usize) {
        let Some(store) = &mut self.nodes[index].store else { return };
        if store.epoch < self.epoch && self.mistake != Mistake::StoreWithoutFence {
            self.nodes[index].handle(self.now, Event::Fenced);
            return;
        }
        store.commits += 1;
        let epoch = store.epoch;
        self.check_commit(epoch);
        self.commits += 1;
        self.faults.commits = self.faults.commits.saturating_sub(1);
    }

    /// Executes everything that can happen before time passes. There must be no faults left.
    pub(super) fn run_until_idle(&mut self) {
        while let Some(action) = self.actions().first().copied() {
            self.apply(action);
        }
    }

    /// Lets the first process, which serves, pause the cluster.
    pub(super) fn pause_first(&mut self) {
        self.nodes[0].handle(self.now, Event::Pause);
        while !self.is_paused() {
            let action = self.actions()[0];
            self.apply(action);
        }
    }

    /// Executes one action, but not the end of an open. Returns whether there was one.
    pub(super) fn apply_except_open(&mut self) -> bool {
        let is_open = |action: &Action| match action {
            Action::Respond(index, position) => {
                matches!(self.nodes[*index].requests[*position], Request::Open { .. })
            }
            _ => false,
        };
        let Some(action) = self.actions().into_iter().find(|it| !is_open(it)) else { return false };
        self.apply(action);
        true
    }

    /// Lets the cluster run without further faults, and returns whether a writer serves in time.
    pub(super) fn recovers(&self) -> bool {
        let mut world = self.clone();
        world.faults = Faults::default();
        if world.nodes.iter().all(|node| node.has_ended || node.is_stopping) {
            return true;
        }
        let lease = world.nodes[0].election.config().lease_ms;
        let end = world.now + 12 * lease;
        while world.now < end {
            world.run_until_idle();
            if world.nodes.iter().any(|node| node.may_read(world.now)) {
                return world.violations.is_empty();
            }
            world.apply(Action::Advance(50));
        }
        false
    }
}
