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
pub struct Cast {
    /// The clients.
    pub callers: Callers,
    /// Additional figures for the report.
    pub extra: Value,
    /// Check after the round, whose result is reported as well.
    pub finish: Option<Finish>,
}

/// Checks a round with this number of failures.
pub type Finish =
    Box<dyn FnOnce(u64) -> BoxFuture<'static, Result<Value, TargetError>> + Send + 'static>;

impl From<Callers> for Cast {
    fn from(callers: Callers) -> Self {
        Self { callers, extra: json!({}), finish: None }
    }
}

/// Prepares a server for a round.
type Casting =
    Box<dyn Fn(Target, Round) -> BoxFuture<'static, Result<Cast, TargetError>> + Send + Sync>;

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
    /// Length of the warm-up. `None`: no warm-up.
    pub warm_up: Option<Length>,
    /// Path of a response that a bare handler can return as well.
    pub bare: Option<fn(&Step, &Target) -> String>,
    cast: Casting,
}

impl Step {
    /// Creates a step with one client.
    pub fn new<F, C>(
        scenario: &'static str,
        parameter: Value,
        (length, warm_up): (Length, Length),
        cast: C,
    ) -> Self
    where
        F: Future<Output = Result<Cast, TargetError>> + Send + 'static,
        C: Fn(Target, Round) -> F + Send + Sync + 'static,
    {
        let cast: Casting = Box::new(move |target, round| cast(target, round).boxed());
        let (clients, connections, warm_up, bare) = (1, 1, Some(warm_up), None);
        Self { scenario, parameter, clients, connections, length, warm_up, bare, cast }
    }

    /// Sets the number of clients, each with its own connection.
    pub fn by(self, clients: usize) -> Self {
        Self { clients, connections: clients, ..self }
    }

    /// Sets the number of connections.
    pub fn over(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// Omits the warm-up and repetitions, for a step that can only be done once.
    pub fn once(self) -> Self {
        Self { warm_up: None, ..self }
    }

    /// Adds a bare handler to the servers.
    pub fn with_bare(self, path: fn(&Step, &Target) -> String) -> Self {
        Self { bare: Some(path), ..self }
    }

    /// Prepares a server for a round.
    pub async fn cast(&self, target: &Target, round: Round) -> Result<Cast, TargetError> {
        (self.cast)(target.clone(), round).await
    }

    /// Title of the step.
    pub fn title(&self) -> String {
        let members = self.parameter.as_object().into_iter().flatten();
        let shown = members.map(|(name, value)| match value {
            Value::String(text) => text.clone(),
            Value::Bool(true) => name.clone(),
            value => format!("{name}={value}"),
        });
        let shown: Vec<String> = shown.collect();
        let clients = match (self.clients, self.connections) {
            (clients, connections) if clients == connections => format!("{clients}"),
            (clients, connections) => format!("{clients} over {connections} connections"),
        };
        format!("{} {}, clients: {clients}", self.scenario, shown.join(" "))
    }
}
