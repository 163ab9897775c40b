//! Steps: measurements, each on every server in turn.

use std::fmt;
use std::future::Future;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::load::{Callers, Length};
use super::target::{Target, TargetError};

/// A turn of a server in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// The warm-up, which is not measured.
    WarmUp,
    /// A measured round, by its index.
    Number(usize),
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp => write!(f, "w"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Callers of a round, and additional results.
pub struct Workload {
    /// The clients.
    pub callers: Callers,
    /// Additional figures for the report.
    pub extra: Value,
    /// Check to run after the round. Its result is a part of the report.
    pub finish: Option<Finish>,
}

/// Checks a round with this number of failures.
pub type Finish =
    Box<dyn FnOnce(u64) -> BoxFuture<'static, Result<Value, TargetError>> + Send + 'static>;

impl From<Callers> for Workload {
    fn from(callers: Callers) -> Self {
        Self { callers, extra: json!({}), finish: None }
    }
}

/// Prepares a server for a round.
type WorkloadFactory =
    Box<dyn Fn(Target, Round) -> BoxFuture<'static, Result<Workload, TargetError>> + Send + Sync>;

/// A measurement, with several rounds on every server.
pub struct Step {
    /// Scenario of the step.
    pub scenario: &'static str,
    /// Parameters: `operation`, and everything else that distinguishes steps.
    pub parameter: Value,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of connections.
    pub connections: usize,
    /// Length of each round.
    pub length: Length,
    /// Length of the warm-up. `None` for a step without warm-up.
    pub warm_up: Option<Length>,
    /// Path of a response that a bare handler can return as well.
    pub bare: Option<fn(&Step, &Target) -> String>,
    workload: WorkloadFactory,
}

impl Step {
    /// Creates a step with one client.
    pub fn new<F, C>(
        scenario: &'static str,
        parameter: Value,
        (length, warm_up): (Length, Length),
        workload: C,
    ) -> Self
    where
        F: Future<Output = Result<Workload, TargetError>> + Send + 'static,
        C: Fn(Target, Round) -> F + Send + Sync + 'static,
    {
        let workload: WorkloadFactory =
            Box::new(move |target, round| workload(target, round).boxed());
        let (clients, connections, warm_up, bare) = (1, 1, Some(warm_up), None);
        Self { scenario, parameter, clients, connections, length, warm_up, bare, workload }
    }

    /// Sets the number of clients, each with its own connection.
    pub fn with_clients(self, clients: usize) -> Self {
        Self { clients, connections: clients, ..self }
    }

    /// Sets the number of connections.
    pub fn with_connections(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// Omits the warm-up and repetitions, for a step that can only be done once.
    pub fn without_warm_up(self) -> Self {
        Self { warm_up: None, ..self }
    }

    /// Adds a bare handler to the servers.
    pub fn with_bare(self, path: fn(&Step, &Target) -> String) -> Self {
        Self { bare: Some(path), ..self }
    }

    /// Prepares a server for a round.
    pub async fn workload(&self, target: &Target, round: Round) -> Result<Workload, TargetError> {
        (self.workload)(target.clone(), round).await
    }

    /// Title of the step.
    pub fn title(&self) -> String {
        let members = self.parameter.as_object().into_iter().flatten();
        let texts = members.map(|(name, value)| match value {
            Value::String(text) => text.clone(),
            Value::Bool(true) => name.clone(),
            value => format!("{name}={value}"),
        });
        let texts: Vec<String> = texts.collect();
        let clients = match (self.clients, self.connections) {
            (clients, connections) if clients == connections => format!("{clients}"),
            (clients, connections) => format!("{clients} over {connections} connections"),
        };
        format!("{} {}, clients: {clients}", self.scenario, texts.join(" "))
    }
}
