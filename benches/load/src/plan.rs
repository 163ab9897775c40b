//! Steps: what is measured, one thing after another, on every server in turn.

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
    /// The one that does not count.
    WarmUp,
    /// The first, the second, ...
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

/// Who drives in a round, and what is to be said of it besides.
pub struct Cast {
    /// The clients.
    pub callers: Callers,
    /// For the report.
    pub extra: Value,
    /// What is looked at when the round is over, for the report as well.
    pub finish: Option<Finish>,
}

/// Looks, after so many failures, at what came of a round.
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

/// Something that is measured on every server, so many rounds.
pub struct Step {
    /// The scenario that it belongs to.
    pub scenario: &'static str,
    /// What is done and how: `operation`, and whatever else tells this step from others.
    pub parameter: Value,
    /// Clients at once.
    pub clients: usize,
    /// Connections that they share.
    pub connections: usize,
    /// How long each round is.
    pub length: Length,
    /// How long the round before the first is; none if nothing can be warmed up.
    pub warm_up: Option<Length>,
    /// The path whose answer a bare handler can give as well.
    pub bare: Option<fn(&Step, &Target) -> String>,
    cast: Casting,
}

impl Step {
    /// A step of one client.
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

    /// The same with so many clients, each with a connection of its own.
    pub fn by(self, clients: usize) -> Self {
        Self { clients, connections: clients, ..self }
    }

    /// The same with so many connections.
    pub fn over(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// The same, as something that can be done once only.
    pub fn once(self) -> Self {
        Self { warm_up: None, ..self }
    }

    /// The same, as something that a bare handler can do as well.
    pub fn with_bare(self, path: fn(&Step, &Target) -> String) -> Self {
        Self { bare: Some(path), ..self }
    }

    /// Prepares a server for a round.
    pub async fn cast(&self, target: &Target, round: Round) -> Result<Cast, TargetError> {
        (self.cast)(target.clone(), round).await
    }

    /// What tells this step from others, for people.
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
