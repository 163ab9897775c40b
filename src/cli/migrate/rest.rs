//! Client of an Iceberg REST catalog: the source, or the target server.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use tokio::sync::Mutex;
use url::form_urlencoded;

use super::error::MigrateError;
use super::responses::{
    CatalogConfig, ErrorResponse, LoadedTabular, Namespace, Page, TokenResponse,
};
use super::source_objects::{LocatedMetadata, SourceTabular};
use crate::cli::client::{ClientError, Connection, child_path, encoded, query};
use slateberg_base::retry::Backoff;
use slateberg_base::secret::Secret;
use slateberg_model::ident::TabularKind;

/// Number of names to request per page.
const PAGE: &str = "1000";
/// Maximum number of attempts for one request.
const ATTEMPTS_MAX: u32 = 6;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Timeout of one request.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Encoded separator of namespace levels in paths, unless the catalog configures another one.
const SEPARATOR: &str = "%1F";
/// The endpoint that a catalog with views lists in its configuration.
const VIEWS: &str = "GET /v1/{prefix}/namespaces/{namespace}/views";

/// A catalog with its connection.
pub(super) struct Rest {
    client: Client,
    /// The URL of the catalog, without `/v1`.
    base: String,
    /// The part of a path before `/namespaces`, beginning with `/v1`.
    pub(super) prefix: String,
    /// The encoded separator of namespace levels in paths. Some servers reject the default, which
    /// is a control character. They require `%2E` instead, and split the path at it before they
    /// decode the names. A plain `.` would be ambiguous, because names in a path can contain it
    /// unencoded.
    separator: String,
    token: Mutex<Option<Secret>>,
    exchange: Option<TokenExchange>,
    /// Whether the endpoints in the configuration of the catalog include views. `None` if the
    /// configuration lists no endpoints.
    pub(super) has_views: Option<bool>,
}

/// The exchange of a credential for a token.
struct TokenExchange {
    url: String,
    credential: Secret,
    scope: String,
}

/// The connection options of a source.
pub(super) struct SourceOptions<'a> {
    pub(super) url: &'a str,
    pub(super) warehouse: Option<&'a str>,
    pub(super) token: Option<Secret>,
    pub(super) credential: Option<Secret>,
    pub(super) oauth2_server_uri: Option<&'a str>,
    pub(super) scope: &'a str,
}

/// An error response.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) status: u16,
    pub(super) message: String,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Response<T> {
    Success(T),
    Rejected(Rejection),
}

impl<T> Response<T> {
    /// Returns the content, or an error about `what`.
    fn content(self, what: &str) -> Result<T, MigrateError> {
        match self {
            Self::Success(content) => Ok(content),
            Self::Rejected(rejection) => Err(rejection.error(what)),
        }
    }
}

impl Rejection {
    pub(super) fn error(self, what: &str) -> MigrateError {
        MigrateError::new(format!("{what}: {} ({})", self.message, self.status))
    }

    /// Whether the object does not exist, or the server does not support the request.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.status, 400 | 404 | 405 | 406 | 501)
    }
}

impl Rest {
    /// Connects to the source.
    pub(super) async fn source(options: SourceOptions<'_>) -> Result<Self, MigrateError> {
        let base = options.url.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        let url = options.oauth2_server_uri.map(str::to_owned);
        let exchange = options.credential.map(|credential| TokenExchange {
            url: url.unwrap_or_else(|| format!("{base}/v1/oauth/tokens")),
            credential,
            scope: options.scope.to_owned(),
        });
        let client = Client::builder().timeout(REQUEST_MAX).build().map_err(MigrateError::new)?;
        Self::open(client, base, options.token, exchange, options.warehouse).await
    }

    /// Connects to the target server.
    pub(super) async fn target(
        connection: &Connection,
        warehouse: Option<&str>,
    ) -> Result<Self, MigrateError> {
        let client = connection.client()?;
        Self::open(client, connection.base()?, connection.key(), None, warehouse).await
    }

    async fn open(
        client: Client,
        base: String,
        token: Option<Secret>,
        exchange: Option<TokenExchange>,
        warehouse: Option<&str>,
    ) -> Result<Self, MigrateError> {
        let mut rest = Self {
            client,
            base,
            prefix: String::new(),
            separator: SEPARATOR.to_owned(),
            token: Mutex::new(token),
            exchange,
            has_views: None,
        };
        if rest.exchange.is_some() {
            rest.renew(None).await?;
        }
        let path = format!("/v1/config{}", query(&[("warehouse", warehouse.map(str::to_owned))]));
        let config: CatalogConfig = rest.get(&path).await?.content(&rest.base)?;
        let separator = config.setting("namespace-separator");
        if let Some(separator) = separator.filter(|separator| !separator.is_empty()) {
            rest.separator = separator.to_owned();
        }
        rest.prefix = match config.setting("prefix").unwrap_or_default().trim_matches('/') {
            "" => "/v1".to_owned(),
            prefix => {
                prefix.split('/').fold("/v1".to_owned(), |path, part| child_path(&path, part))
            }
        };
        rest.has_views =
            config.endpoints.map(|endpoints| endpoints.iter().any(|endpoint| endpoint == VIEWS));
        Ok(rest)
    }

    /// Requests a new token, unless another task has already replaced `stale`. Returns `false` if
    /// there is no credential with which to request a token.
    async fn renew(&self, stale: Option<&str>) -> Result<bool, MigrateError> {
        let Some(TokenExchange { url, credential, scope }) = &self.exchange else {
            return Ok(false);
        };
        let mut token = self.token.lock().await;
        if token.as_ref().map(Secret::reveal) != stale {
            return Ok(true);
        }
        let text = credential.reveal();
        let (id, secret) = text.split_once(':').unwrap_or(("", text));
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", id),
            ("client_secret", secret),
            ("scope", scope),
        ];
        let form = query(&form.map(|(name, value)| (name, Some(value.to_owned()))));
        let request = self
            .client
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form.trim_start_matches('?').to_owned());
        let failed = |error: &dyn std::fmt::Display| MigrateError::new(format!("{url}: {error}"));
        let response = request.send().await.map_err(|error| failed(&error.without_url()))?;
        let status = response.status();
        // The error of the parser is omitted, because it may contain parts of a token.
        let response = response.json::<TokenResponse>().await.ok();
        let Some(response) = response.filter(|_| status.is_success()) else {
            return Err(failed(&format!("the response contains no token ({status})")));
        };
        *token = Some(Secret::new(response.access_token));
        Ok(true)
    }

    /// Sends a GET request.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Response<T>, MigrateError> {
        self.send(Method::GET, path, None::<&()>).await
    }

    /// Sends a POST request whose response is not needed.
    async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Response<IgnoredAny>, MigrateError> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a request and retries transient errors. The server may therefore receive the request
    /// more than once.
    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response<T>, MigrateError> {
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        for attempt in 1.. {
            let token = self.token.lock().await.clone();
            let result = self.send_once(method.clone(), path, body, token.as_ref()).await;
            let last = attempt >= ATTEMPTS_MAX;
            match result {
                Ok(Response::Rejected(rejection)) if rejection.status == 401 && !last => {
                    let stale = token.as_ref().map(Secret::reveal);
                    if !self.renew(stale).await? {
                        return Ok(Response::Rejected(rejection));
                    }
                }
                Ok(Response::Rejected(rejection))
                    if matches!(rejection.status, 429 | 500..=599) && !last => {}
                Err(_) if !last => {}
                Ok(response) => return Ok(response),
                Err(error) => return Err(ClientError::transport(&self.base, error).into()),
            }
            backoff.wait().await;
        }
        Err(MigrateError::new("no request was made"))
    }

    async fn send_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        token: Option<&Secret>,
    ) -> reqwest::Result<Response<T>> {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = token {
            request = request.bearer_auth(token.reveal());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status: StatusCode = response.status();
        let text = response.text().await?;
        let message = if status.is_success() {
            match serde_json::from_str(&text) {
                Ok(content) => return Ok(Response::Success(content)),
                Err(error) => format!("the response is not valid: {error}"),
            }
        } else {
            match serde_json::from_str::<ErrorResponse>(&text) {
                Ok(response) => response.error.message,
                Err(_) => text.chars().take(200).collect(),
            }
        };
        Ok(Response::Rejected(Rejection { status: status.as_u16(), message }))
    }

    /// Returns the path of a namespace. The paths of its tables and views begin with this path.
    pub(super) fn in_namespace(&self, levels: &[String]) -> String {
        let levels: Vec<_> = levels.iter().map(|level| encoded(level)).collect();
        format!("{}/namespaces/{}", self.prefix, levels.join(&self.separator))
    }

    /// Returns a namespace as an unencoded query value.
    pub(super) fn joined(&self, levels: &[String]) -> String {
        let pair = format!("separator={}", self.separator);
        let separator = form_urlencoded::parse(pair.as_bytes()).next();
        levels.join(&separator.map(|(_, text)| text.into_owned()).unwrap_or_default())
    }

    /// Returns the path of a table or view.
    fn tabular_path(&self, kind: TabularKind, namespace: &[String], name: &str) -> String {
        child_path(&format!("{}/{}", self.in_namespace(namespace), plural(kind)), name)
    }

    /// Requests all pages of a listing.
    pub(super) async fn list_all<T: DeserializeOwned>(
        &self,
        path: &str,
        parent: Option<String>,
    ) -> Result<Response<Vec<T>>, MigrateError> {
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let parameters = query(&[
                ("parent", parent.clone()),
                ("pageToken", Some(token.clone())),
                ("pageSize", Some(PAGE.to_owned())),
            ]);
            let page: Page<T> = match self.get(&format!("{path}{parameters}")).await? {
                Response::Success(page) => page,
                Response::Rejected(rejection) => return Ok(Response::Rejected(rejection)),
            };
            all.extend(page.items);
            match page.next_page_token {
                Some(next) if !next.is_empty() && next != token => token = next,
                _ => return Ok(Response::Success(all)),
            }
        }
    }

    /// Loads a table or view to get the location of its metadata file.
    pub(super) async fn locate(
        &self,
        tabular: &SourceTabular,
    ) -> Result<LocatedMetadata, MigrateError> {
        let loaded = self.load(tabular.kind, &tabular.namespace, &tabular.name).await?;
        loaded.content("it cannot be loaded")?.located(tabular.kind)
    }

    /// Loads a table or view.
    pub(super) async fn load(
        &self,
        kind: TabularKind,
        namespace: &[String],
        name: &str,
    ) -> Result<Response<LoadedTabular>, MigrateError> {
        let refs = match kind {
            TabularKind::Table => "?snapshots=refs",
            TabularKind::View => "",
        };
        let path = format!("{}{refs}", self.tabular_path(kind, namespace, name));
        self.get(&path).await
    }

    /// Registers a metadata file.
    pub(super) async fn register(
        &self,
        kind: TabularKind,
        namespace: &[String],
        name: &str,
        metadata_location: &str,
    ) -> Result<Response<IgnoredAny>, MigrateError> {
        let register = match kind {
            TabularKind::Table => "register",
            TabularKind::View => "register-view",
        };
        let path = format!("{}/{register}", self.in_namespace(namespace));
        let body = json!({ "name": name, "metadata-location": metadata_location });
        self.post(&path, &body).await
    }

    /// Creates a namespace.
    pub(super) async fn create_namespace(
        &self,
        levels: &[String],
        properties: &BTreeMap<String, String>,
    ) -> Result<Response<IgnoredAny>, MigrateError> {
        let path = format!("{}/namespaces", self.prefix);
        let body = json!({ "namespace": levels, "properties": properties });
        self.post(&path, &body).await
    }

    /// Loads a namespace's properties.
    pub(super) async fn load_namespace(
        &self,
        levels: &[String],
    ) -> Result<Response<Namespace>, MigrateError> {
        self.get(&self.in_namespace(levels)).await
    }
}

pub(super) fn plural(kind: TabularKind) -> &'static str {
    match kind {
        TabularKind::Table => "tables",
        TabularKind::View => "views",
    }
}
