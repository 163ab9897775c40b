//! A run: for each step, every server is prepared and warmed up, and then they take turns, so that
//! other load on the machine affects all of them alike.

use serde_json::json;

use super::bare_read::BareProcess;
use super::load::{Measured, drive};
use super::plan::{Round, Step};
use super::report::{Figures, Outcome, Record, merge};
use super::target::{BARE_NAME, Target, TargetError};

/// Parameters of a run.
pub struct Run<'a> {
    /// The servers. The others are compared with the first.
    pub targets: Vec<Target>,
    /// Number of rounds of each step.
    pub rounds: usize,
    /// Whether to compare with a bare handler, if possible.
    pub with_bare: bool,
    /// Called with every record as it is measured.
    pub done: &'a mut (dyn FnMut(&Record) + Send),
}

impl Run<'_> {
    /// Runs all steps. Returns all records.
    pub async fn run_steps(mut self, steps: &[Step]) -> Vec<Record> {
        let mut records = Vec::new();
        for step in steps {
            self.step(step, &mut records).await;
        }
        records
    }

    async fn step(&mut self, step: &Step, records: &mut Vec<Record>) {
        let mut targets = Vec::new();
        for target in self.targets.clone() {
            match warm_up(step, &target).await {
                Ok(()) => targets.push(target),
                Err(error) => self.record(step, &target.name, 0, unsupported(error), records),
            }
        }
        // This variable keeps the bare handler alive until the end of the step.
        let mut _bare = None;
        if let Some(like) = self.targets.first().filter(|_| self.with_bare && step.bare.is_some()) {
            match with_bare(step, &like.clone()).await {
                Ok((target, process)) => {
                    targets.push(target);
                    _bare = Some(process);
                }
                Err(error) => self.record(step, BARE_NAME, 0, unsupported(error), records),
            }
        }
        let rounds = if step.warm_up.is_some() { self.rounds } else { 1 };
        for round in 0..rounds {
            for turn in 0..targets.len() {
                let target = &targets[(round + turn) % targets.len()];
                let outcome = measure(step, target, round).await;
                let outcome = outcome.unwrap_or_else(unsupported);
                self.record(step, &target.name, round, outcome, records);
            }
        }
    }

    fn record(
        &mut self,
        step: &Step,
        server: &str,
        round: usize,
        outcome: Outcome,
        records: &mut Vec<Record>,
    ) {
        let record = Record {
            server: server.to_owned(),
            scenario: step.scenario,
            parameter: step.parameter.clone(),
            title: step.title(),
            clients: step.clients,
            connections: step.connections,
            round,
            outcome,
        };
        (self.done)(&record);
        records.push(record);
    }
}

fn unsupported(error: TargetError) -> Outcome {
    Outcome::NotSupported(error.to_string())
}

/// Starts a bare handler with the responses of a server, and warms it up.
async fn with_bare(step: &Step, like: &Target) -> Result<(Target, BareProcess), TargetError> {
    let path = step.bare.map(|path| path(step, like)).unwrap_or_default();
    let process = BareProcess::start(like, &path)?;
    let target = Target::bare(like, process.address.clone(), process.pid());
    warm_up(step, &target).await?;
    Ok((target, process))
}

/// Prepares a server and warms it up. A server that fails every request does not support the step.
async fn warm_up(step: &Step, target: &Target) -> Result<(), TargetError> {
    let Some(length) = step.warm_up else { return Ok(()) };
    let workload = step.workload(target, Round::WarmUp).await?;
    let measured = drive(target, workload.callers, step.connections, length).await?;
    match (measured.done(), measured.failures.first_key_value()) {
        (0, Some((status, _))) => Err(TargetError::UnexpectedStatus {
            what: step.title(),
            status: *status,
            body: measured.first_failure.clone().unwrap_or_default(),
        }),
        _ => Ok(()),
    }
}

async fn measure(step: &Step, target: &Target, round: usize) -> Result<Outcome, TargetError> {
    let workload = step.workload(target, Round::Number(round)).await?;
    let measured = drive(target, workload.callers, step.connections, step.length).await?;
    let mut extra = workload.extra;
    merge(&mut extra, extra_figures(&measured));
    if let Some(finish) = workload.finish {
        merge(&mut extra, finish(measured.failed()).await?);
    }
    Ok(Outcome::Measured(Figures::of(&measured), extra))
}

/// Returns the additional figures of a measurement.
fn extra_figures(measured: &Measured) -> serde_json::Value {
    let requests = (measured.done() + measured.failed()) as f64;
    let mut extra = json!({
        "generator_cpu_us": measured.generator_cpu_seconds * 1e6 / requests.max(1.0),
    });
    if measured.failed() > 0 {
        let failures = measured.failures.iter();
        let by_status: serde_json::Map<_, _> =
            failures.map(|(status, count)| (status.to_string(), json!(count))).collect();
        merge(&mut extra, json!({ "failures_by_status": by_status }));
        merge(&mut extra, json!({ "first_failure": measured.first_failure }));
    }
    extra
}
