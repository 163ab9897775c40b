//! [`Route`]: a path of the API and its handlers.

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter};

use super::route_index::{MethodRules, Repeatability};
use super::state::ApiState;

/// A path and its handlers.
pub struct Route {
    /// The template of the path.
    pub path: String,
    /// The handlers of the methods.
    pub handlers: MethodRouter<ApiState>,
    /// The methods, and whether their requests may be executed again.
    pub methods: MethodRules,
    /// Whether a standby of a cluster executes `GET` and `HEAD` itself.
    pub is_replicated: bool,
}

impl Route {
    /// Creates a route without handlers.
    pub fn at(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            handlers: MethodRouter::new(),
            methods: Vec::new(),
            is_replicated: false,
        }
    }

    /// Adds `GET`. Without a handler for `HEAD`, this handler also responds to `HEAD`.
    pub fn get<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.read_only(Method::GET, handler)
    }

    /// Adds `HEAD`.
    pub fn head<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.read_only(Method::HEAD, handler)
    }

    /// Adds a method that changes nothing.
    pub fn read_only<T: 'static>(self, method: Method, handler: impl Handler<T, ApiState>) -> Self {
        self.with(method, Repeatability::ReadOnly, handler)
    }

    /// Adds a mutation that accepts an `Idempotency-Key`.
    pub fn keyed<T: 'static>(self, method: Method, handler: impl Handler<T, ApiState>) -> Self {
        self.with(method, Repeatability::Keyed, handler)
    }

    /// Adds a mutation that accepts no `Idempotency-Key`.
    pub fn unkeyed<T: 'static>(self, method: Method, handler: impl Handler<T, ApiState>) -> Self {
        self.with(method, Repeatability::Never, handler)
    }

    /// A standby of a cluster executes requests that change nothing itself, on its replica.
    #[must_use]
    pub fn replicated(self) -> Self {
        Self { is_replicated: true, ..self }
    }

    /// Puts a prefix in front of the path.
    #[must_use]
    pub fn below(self, prefix: &str) -> Self {
        Self { path: format!("{prefix}{}", self.path), ..self }
    }

    fn with<T: 'static>(
        mut self,
        method: Method,
        repeatability: Repeatability,
        handler: impl Handler<T, ApiState>,
    ) -> Self {
        let filter = MethodFilter::try_from(method.clone()).expect("routes use standard methods");
        self.methods.push((method, repeatability));
        Self { handlers: self.handlers.on(filter, handler), ..self }
    }
}
