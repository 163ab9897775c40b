//! [`Driver`]: executes the steps of the election. It reads and writes the record of the writer,
//! and opens and closes the catalog.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::catalog_host::{CatalogHost, OpenCatalog};
use super::followed_writer::WriterReport;
use super::node::{Command, KnownWriter, Node};
use super::peers::Peers;
use super::upgrade_gate::UpgradeGate;
use slateberg_base::error_chain::chain;
use slateberg_base::uptime::uptime;
use slateberg_cluster::register::{Tag, WriterRecord};
use slateberg_cluster::{Election, Event, Moment, PutOutcome, Role, Step, WriterState};
use slateberg_runtime::cluster::{RegisterError, WriterRegister};
use slateberg_store as store;

/// Maximum time of the flush before a transfer. The flush only shortens the opening of the next
/// writer.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Executes the steps of the election of one process.
pub(super) struct Driver {
    election: Election,
    register: WriterRegister,
    host: CatalogHost,
    node: Arc<Node>,
    peers: Arc<Peers>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Requests and changes of the catalog in progress.
    tasks: FuturesUnordered<BoxFuture<'static, TaskResult>>,
    /// The moment at which the election wants to continue.
    alarm: Option<Moment>,
    /// The catalog, between its opening and its closing.
    catalog: Option<Arc<OpenCatalog>>,
    /// The newest changes that this process knows as durable, and the policies in force.
    report: WriterReport,
    /// Aborts the opening in progress.
    opening: Option<AbortHandle>,
    /// Leaves the term to older versions during an upgrade.
    gate: UpgradeGate,
    /// Whether the term ends because of a transfer or a pause, so that this process continues as a
    /// standby.
    is_handover: bool,
    /// The smallest offset of the clocks before a put, since the last put that succeeded.
    put_offset_ms: i64,
    /// The end of the lease that the ports know.
    lease_until: Option<Moment>,
    /// Drains the ports of the process.
    drain: watch::Sender<DrainState>,
}

/// The progress of the planned stop of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainState {
    /// The ports accept requests.
    Open,
    /// The ports must complete the requests in progress, and accept no further ones.
    Requested,
    /// The ports have completed all requests.
    Completed,
}

/// The result of a task.
#[expect(clippy::large_enum_variant, reason = "only a few results exist at the same time")]
enum TaskResult {
    Event(Event),
    /// Whether members of an older version may take over.
    OlderCandidates(bool),
    Opened(Box<OpenCatalog>),
    /// This process has closed its store, whose last state was this.
    Closed(WriterReport),
    /// The store with this epoch closed.
    StoreClosed(u64, store::Error),
}

impl Driver {
    /// Creates the driver of an election.
    pub(super) fn new(
        election: Election,
        register: WriterRegister,
        host: CatalogHost,
        (node, commands, peers): (Arc<Node>, mpsc::UnboundedReceiver<Command>, Arc<Peers>),
        drain: watch::Sender<DrainState>,
    ) -> Self {
        Self {
            election,
            register,
            host,
            node,
            peers,
            commands,
            tasks: FuturesUnordered::new(),
            alarm: None,
            catalog: None,
            report: WriterReport::default(),
            opening: None,
            gate: UpgradeGate::default(),
            is_handover: false,
            put_offset_ms: i64::MAX,
            lease_until: None,
            drain,
        }
    }

    /// Runs until the process has stopped in order, which `stopping` requests.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut event = Event::Started;
        let mut is_stopping = false;
        while !self.handle(event) {
            event = self.next_event(&mut stopping, &mut is_stopping).await;
        }
    }

    async fn next_event(
        &mut self,
        stopping: &mut watch::Receiver<bool>,
        is_stopping: &mut bool,
    ) -> Event {
        loop {
            tokio::select! {
                // The order matters: a renewal that has completed must not wait.
                biased;
                Some(result) = self.tasks.next() => return self.event_of(result),
                _ = stopping.wait_for(|stop| *stop), if !*is_stopping => {
                    *is_stopping = true;
                    return Event::Stop;
                }
                Some(command) = self.commands.recv() => self.execute(command),
                () = self.node.record_changed.notified() => return Event::RegisterChanged,
                () = sleep_until(&self.node, self.alarm) => {
                    self.alarm = None;
                    return Event::Tick;
                }
            }
        }
    }

    /// Begins a transfer or a pause. The writer still processes requests while the memtable is
    /// flushed.
    fn execute(&mut self, command: Command) {
        let event = match command {
            Command::Transfer(successor) => {
                let to = &successor.member.name;
                tracing::info!(to, "the writer of the cluster is transferred");
                Event::Transfer { successor }
            }
            Command::Pause => Event::Pause,
        };
        let catalog = self.catalog.clone();
        self.tasks.push(Box::pin(async move {
            if let Some(catalog) = catalog {
                let _ = timeout(FLUSH_MAX, catalog.flush()).await;
            }
            TaskResult::Event(event)
        }));
    }

    /// Passes an event to the election, and starts the steps that follow. Returns `true` after the
    /// last step.
    fn handle(&mut self, event: Event) -> bool {
        let (now, before) = (self.node.lease.now(), self.election.role());
        let is_written = matches!(event, Event::PutDone { outcome: PutOutcome::Written(_), .. });
        if let Event::Transfer { .. } | Event::Pause = event {
            self.is_handover = self.election.holds_term();
        }
        let held_term = self.election.holds_term();
        let ids = &self.host.dependencies.ids;
        let steps = self.election.handle(now, event, || ids.random());
        let role = self.election.role();
        if role != before {
            tracing::info!(from = ?before, to = ?role, "the role of this member of the cluster changed");
        }
        let is_given = held_term && !self.election.holds_term();
        if is_given && std::mem::take(&mut self.is_handover) {
            self.notify();
        }
        let is_done = steps.contains(&Step::Done);
        for step in steps {
            self.start(step);
        }
        let until = self.election.authority_until();
        if is_written || until != self.lease_until {
            self.node.lease.renew(until, self.put_offset_ms);
            self.lease_until = until;
        }
        if is_written {
            self.put_offset_ms = i64::MAX;
        }
        if let Some(search) = self.gate.search(&self.election, &self.peers) {
            self.tasks.push(Box::pin(async move { TaskResult::OlderCandidates(search.await) }));
        }
        self.node.publish(role, self.known_writer());
        is_done
    }

    fn known_writer(&self) -> KnownWriter {
        if self.election.role() == Role::Writer && self.node.services().is_some() {
            return KnownWriter::Local(self.catalog_term());
        }
        let paused = |record: &&WriterRecord| record.state == WriterState::Paused;
        if let Some(record) = self.election.last_record().filter(paused) {
            return KnownWriter::Paused(Arc::new(record.clone()));
        }
        match self.election.known_writer() {
            Some(record) if record.holder.node != self.election.config().member.node => {
                KnownWriter::Remote(Arc::new(record.clone()))
            }
            _ => KnownWriter::Unknown,
        }
    }

    fn catalog_term(&self) -> u64 {
        self.election.known_writer().map_or(0, |record| record.term)
    }

    fn start(&mut self, step: Step) {
        match step {
            Step::ReadRegister => {
                self.tasks.push(Box::pin(read(self.register.clone(), Arc::clone(&self.node))))
            }
            Step::PutRegister { mut record, replaces } => {
                if let Some(catalog) = &self.catalog {
                    self.report = catalog.report();
                }
                record.sequence = self.report.sequence;
                // During a pause, standbys execute reads of the last state.
                if self.catalog.is_some() || record.state == WriterState::Paused {
                    record.policy_hash.clone_from(&self.report.policy_hash);
                }
                self.put_offset_ms = self.put_offset_ms.min(self.node.lease.clock_offset_ms());
                let (register, node) = (self.register.clone(), Arc::clone(&self.node));
                self.tasks.push(Box::pin(put(register, node, *record, replaces)));
            }
            Step::ReadEpoch => {
                let reading = self.host.writer_epoch();
                self.tasks.push(Box::pin(async move {
                    TaskResult::Event(match reading.await {
                        Ok(epoch) => Event::EpochRead { epoch: Some(epoch) },
                        Err(error) => {
                            let error = chain(&error);
                            tracing::warn!(error, "cannot read the epoch of the store's writer");
                            Event::EpochReadFailed
                        }
                    })
                }));
            }
            Step::OpenStore { expected_epoch } => {
                let (abort, opening) = self.host.open(expected_epoch);
                self.opening = Some(abort);
                self.tasks.push(Box::pin(async move {
                    match opening.await {
                        Ok(Some(catalog)) => TaskResult::Opened(Box::new(catalog)),
                        Ok(None) => TaskResult::Event(Event::OpenFailed),
                        Err(error) => {
                            let error = chain(&error);
                            tracing::error!(
                                error,
                                "this member of the cluster cannot open the catalog"
                            );
                            TaskResult::Event(Event::OpenFailed)
                        }
                    }
                }));
            }
            Step::AbortOpen => {
                if let Some(opening) = self.opening.take() {
                    opening.abort();
                }
            }
            Step::Serve => {
                if let Some(catalog) = &self.catalog {
                    self.node.serve(Some(catalog.services()));
                    catalog.print_banner();
                }
                self.notify();
            }
            Step::Drain => self.start_drain(),
            Step::CloseStore => self.close(),
            Step::WaitUntil(moment) => self.alarm = Some(moment),
            Step::Done => {}
        }
    }

    /// Notifies the other members that the record of the writer has changed.
    fn notify(&self) {
        let (peers, writer) = (Arc::clone(&self.peers), self.election.last_record().cloned());
        tokio::spawn(async move {
            // The next writer first: all others wait for it.
            if let Some(record) = writer {
                peers.notify_holder(&record).await;
            }
            peers.notify_all().await;
        });
    }

    fn start_drain(&self) {
        if let Some(catalog) = &self.catalog {
            catalog.begin_shutdown();
        }
        if self.is_handover {
            return self.hold_requests();
        }
        self.drain.send_if_modified(|state| {
            let is_open = *state == DrainState::Open;
            if is_open {
                *state = DrainState::Requested;
            }
            is_open
        });
        let mut drained = self.drain.subscribe();
        self.tasks.push(Box::pin(async move {
            let _ = drained.wait_for(|state| *state == DrainState::Completed).await;
            TaskResult::Event(Event::Drained)
        }));
    }

    /// From now on, requests wait for the next writer. Those in progress complete.
    fn hold_requests(&self) {
        let services = self.node.services();
        self.node.serve(None);
        let drain_max = Duration::from_secs(self.host.settings.server.drain_seconds_max);
        self.tasks.push(Box::pin(async move {
            if let Some(services) = services
                && timeout(drain_max, services.completed()).await.is_err()
            {
                let seconds = drain_max.as_secs();
                tracing::warn!(seconds, "some requests did not complete before the term ended");
            }
            TaskResult::Event(Event::Drained)
        }));
    }

    fn close(&mut self) {
        self.node.serve(None);
        let catalog = self.catalog.take();
        self.tasks.push(Box::pin(async move {
            let Some(catalog) = catalog else { return TaskResult::Event(Event::StoreClosed) };
            catalog.close().await;
            TaskResult::Closed(catalog.report())
        }));
    }

    /// Returns the event for the result of a task.
    fn event_of(&mut self, result: TaskResult) -> Event {
        match result {
            TaskResult::Event(event) => event,
            TaskResult::OlderCandidates(exist) => {
                self.gate.end();
                self.election.note_older_candidates(exist);
                Event::Tick
            }
            TaskResult::Opened(catalog) => {
                let catalog = Arc::new(*catalog);
                let epoch = catalog.epoch();
                self.election.set_catalog(catalog.id());
                let watched = Arc::clone(&catalog);
                self.tasks.push(Box::pin(async move {
                    TaskResult::StoreClosed(epoch, watched.store_closed().await)
                }));
                self.catalog = Some(catalog);
                Event::Opened { epoch }
            }
            TaskResult::Closed(report) => {
                self.report = report;
                Event::StoreClosed
            }
            TaskResult::StoreClosed(epoch, error) => {
                // The driver itself closes the store, too. Then the catalog is no longer here.
                if self.catalog.as_ref().is_none_or(|catalog| catalog.epoch() != epoch) {
                    return Event::Tick;
                }
                let text = chain(&error);
                tracing::warn!(error = text, "the store of the cluster's writer has closed");
                // After any reason, the catalog must still be closed. The election requests this.
                Event::Fenced
            }
        }
    }
}

async fn read(register: WriterRegister, node: Arc<Node>) -> TaskResult {
    let (started, sent) = (node.lease.now(), uptime());
    TaskResult::Event(match register.read().await {
        Ok(found) => {
            node.bucket.note(sent);
            Event::RegisterRead { started, found }
        }
        Err(error) => {
            let text = chain(&error);
            match error {
                RegisterError::Unavailable(_) => {
                    tracing::warn!(error = text, "cannot read the record of the cluster's writer");
                }
                RegisterError::Record(_) => {
                    tracing::error!(error = text, "the record of the cluster's writer is invalid");
                }
                RegisterError::Foreign(_) => tracing::error!(
                    error = text,
                    "the bucket contains a writer record that no member of the cluster has written"
                ),
            }
            Event::ReadFailed
        }
    })
}

async fn put(
    register: WriterRegister,
    node: Arc<Node>,
    record: WriterRecord,
    replaces: Option<Tag>,
) -> TaskResult {
    let (started, sent) = (node.lease.now(), uptime());
    let outcome = register.put(&record, replaces).await;
    if let PutOutcome::Written(_) = outcome {
        node.bucket.note(sent);
    }
    TaskResult::Event(Event::PutDone { started, outcome })
}

/// Waits until this moment. Never returns without a moment.
async fn sleep_until(node: &Node, moment: Option<Moment>) {
    match moment {
        Some(moment) => tokio::time::sleep(moment.since(node.lease.now())).await,
        None => std::future::pending::<()>().await,
    }
}
