//! [`RouteIndex`] finds the route of a request, and whether the request may be executed again.

use axum::http::Method;
use matchit::Router;

/// Whether a request may be executed again if its response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeatability {
    /// The request changes nothing.
    ReadOnly,
    /// The catalog executes requests with the same `Idempotency-Key` at most once.
    Keyed,
    /// A second execution could have a second effect.
    Never,
}

/// Whether requests with these methods may be executed again.
pub type MethodRules = Vec<(Method, Repeatability)>;

/// Finds the route of a request. Matches paths in the same way as axum.
pub struct RouteIndex {
    numbers: Router<u16>,
    routes: Vec<IndexedRoute>,
}

/// A route without its handlers.
pub struct IndexedRoute {
    /// The template of the path.
    pub template: String,
    /// The methods.
    pub methods: MethodRules,
    /// Whether a standby of a cluster executes requests that change nothing itself.
    pub is_replicated: bool,
}

impl RouteIndex {
    /// Creates an index of these routes. Each route gets its position as its number.
    pub fn new(routes: Vec<IndexedRoute>) -> Self {
        let mut numbers = Router::new();
        for (number, IndexedRoute { template, .. }) in routes.iter().enumerate() {
            let number = u16::try_from(number).expect("there are fewer routes");
            numbers.insert(template, number).expect("axum has accepted the same template");
        }
        Self { numbers, routes }
    }

    /// The templates of all routes, in the order of their numbers.
    pub fn templates(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.template.as_str())
    }

    /// The method and template of each operation.
    pub fn operations(&self) -> impl Iterator<Item = (&Method, &str)> {
        let operations = self.routes.iter().map(|IndexedRoute { template, methods, .. }| {
            methods.iter().map(move |(method, _)| (method, template.as_str()))
        });
        operations.flatten()
    }

    /// Returns the number of the route of this path.
    pub fn number(&self, path: &str) -> Option<u16> {
        self.numbers.at(path).ok().map(|matched| *matched.value)
    }

    /// Whether a standby of a cluster executes a request itself, on its replica.
    pub fn is_replicated(&self, method: &Method, path: &str) -> bool {
        self.route(path).is_some_and(|route| route.is_replicated)
            && self.repeatability(method, path) == Repeatability::ReadOnly
    }

    fn route(&self, path: &str) -> Option<&IndexedRoute> {
        self.routes.get(usize::from(self.number(path)?))
    }

    /// Returns whether a request may be executed again. A mutation at an unknown path may not: a
    /// writer with a newer version may know this path.
    pub fn repeatability(&self, method: &Method, path: &str) -> Repeatability {
        if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Repeatability::ReadOnly;
        }
        let methods = self.route(path).into_iter().flat_map(|route| &route.methods);
        let found = methods.into_iter().find(|(candidate, _)| candidate == method);
        found.map_or(Repeatability::Never, |(_, repeatability)| *repeatability)
    }
}
