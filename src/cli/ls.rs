//! `slateberg ls`: lists namespaces, tables, views and functions over the Iceberg REST API.

use std::collections::{BTreeMap, VecDeque};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::run_online;
use super::client::{ClientError, Connection, encoded, parse, query};
use super::exit::Outcome;
use super::output::{Output, json_text, table};
use slateberg_management::past::{PastContents, PastResource};

/// Number of names to request per page.
const PAGE: &str = "1000";
/// The separator of namespace levels in paths, unless the server configures another one.
const SEPARATOR: &str = "%1F";

/// List namespaces, tables, views and functions
#[derive(Debug, Args)]
pub struct Ls {
    /// Warehouse or namespace, as WAREHOUSE or WAREHOUSE/LEVEL... [default: the default warehouse]
    #[arg(value_name = "NAMESPACE")]
    path: Option<String>,
    /// List everything below the warehouse or namespace
    #[arg(long, short)]
    recursive: bool,
    /// List the state at this time, such as 2026-11-24T10:00:00Z, or at a position of the change
    /// feed
    #[arg(long, value_name = "TIME", requires = "path")]
    as_of: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// A warehouse of a server.
pub(super) struct Warehouse<'a> {
    connection: &'a Connection,
    name: String,
    separator: String,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    defaults: BTreeMap<String, String>,
    #[serde(default)]
    overrides: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Page {
    #[serde(default)]
    namespaces: Vec<Vec<String>>,
    #[serde(default)]
    identifiers: Vec<Identifier>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Identifier {
    /// A table or view.
    Tabular { namespace: Vec<String>, name: String },
    /// A function: the levels of the namespace, and the name.
    Function(Vec<String>),
}

impl Identifier {
    /// Returns the levels of the namespace, and the name.
    fn levels(self) -> Vec<String> {
        match self {
            Self::Tabular { mut namespace, name } => {
                namespace.push(name);
                namespace
            }
            Self::Function(levels) => levels,
        }
    }
}

/// A namespace, table, view or function.
#[derive(Serialize)]
struct Entry {
    kind: String,
    /// The path with the warehouse, in the form that other subcommands accept.
    name: String,
}

impl Ls {
    /// Prints the list.
    pub fn run(self) -> Outcome {
        run_online(async move {
            let levels = self.path.as_deref().map(split).unwrap_or_default();
            let (name, levels) = match levels.split_first() {
                Some((name, levels)) => (Some(name.as_str()), levels.to_vec()),
                None => (None, Vec::new()),
            };
            let entries = match (&self.as_of, name) {
                (Some(as_of), Some(name)) => {
                    let past = Past { connection: &self.connection, warehouse: name, as_of };
                    past.list(levels, self.recursive).await?
                }
                _ => {
                    let warehouse = Warehouse::open(&self.connection, name).await?;
                    warehouse.list(levels, self.recursive).await?
                }
            };
            if self.connection.output == Output::Json {
                return Ok(json_text(&json!({ "entries": entries })));
            }
            let rows: Vec<_> = entries.into_iter().map(|it| [it.kind, it.name]).collect();
            Ok(table(["KIND", "NAME"], &rows))
        })
    }
}

/// The state of a warehouse at an earlier time.
struct Past<'a> {
    connection: &'a Connection,
    warehouse: &'a str,
    as_of: &'a str,
}

impl Past<'_> {
    /// Lists the contents of a namespace, or of the warehouse if `levels` is empty.
    async fn list(&self, levels: Vec<String>, recursive: bool) -> Result<Vec<Entry>, ClientError> {
        let warehouse = self.warehouse.to_owned();
        let path = |levels: &[String]| joined(std::iter::once(&warehouse).chain(levels));
        let mut entries = Vec::new();
        let mut pending = VecDeque::from([levels]);
        while let Some(levels) = pending.pop_front() {
            let kind = if levels.is_empty() { "warehouse" } else { "namespace" };
            for mut found in self.contents(&format!("{kind}:{}", path(&levels))).await? {
                if recursive && found.name.is_none() {
                    pending.push_back(found.namespace.clone());
                }
                found.namespace.extend(found.name);
                entries.push(Entry { kind: found.kind, name: path(&found.namespace) });
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    async fn contents(&self, resource: &str) -> Result<Vec<PastResource>, ClientError> {
        let (mut contents, mut token) = (Vec::new(), None);
        loop {
            let query = query(&[
                ("resource", Some(resource.to_owned())),
                ("as-of", Some(self.as_of.to_owned())),
                ("pageToken", token),
            ]);
            let path = format!("/management/v1/past/contents{query}");
            let page: PastContents =
                parse(self.connection.send("GET", &path, &Value::Null).await?)?;
            contents.extend(page.contents);
            match page.next_page_token {
                None => return Ok(contents),
                next => token = next,
            }
        }
    }
}

/// Splits a path such as `default/sales/orders`. `%2F` and `%25` escape a slash and a percent sign.
pub(super) fn split(path: &str) -> Vec<String> {
    path.split('/').map(|name| name.replace("%2F", "/").replace("%25", "%")).collect()
}

/// The inverse of [`split`].
pub(super) fn joined<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let names = names.into_iter().map(|name| name.replace('%', "%25").replace('/', "%2F"));
    names.collect::<Vec<_>>().join("/")
}

impl<'a> Warehouse<'a> {
    /// Requests the client configuration of a warehouse, or of the default warehouse.
    pub(super) async fn open(
        connection: &'a Connection,
        name: Option<&str>,
    ) -> Result<Self, ClientError> {
        let path = format!("/v1/config{}", query(&[("warehouse", name.map(str::to_owned))]));
        let config: Config = parse(connection.send("GET", &path, &Value::Null).await?)?;
        let setting = |name: &str| config.overrides.get(name).or_else(|| config.defaults.get(name));
        let name = setting("prefix").cloned().or_else(|| name.map(str::to_owned));
        let separator = setting("namespace-separator").map_or(SEPARATOR, String::as_str);
        Ok(Self { connection, name: name.unwrap_or_default(), separator: separator.to_owned() })
    }

    /// Returns the path of a namespace.
    pub(super) fn namespace(&self, levels: &[String]) -> String {
        let levels: Vec<_> = levels.iter().map(|level| encoded(level)).collect();
        let namespace = levels.join(&self.separator);
        format!("/v1/{}/namespaces/{namespace}", encoded(&self.name))
    }

    /// Returns the path of the tables, views or functions of a namespace.
    pub(super) fn path(&self, levels: &[String], member: &str) -> String {
        format!("{}/{member}", self.namespace(levels))
    }

    /// Lists the contents of a namespace. If `levels` is empty, lists the namespaces of the
    /// warehouse.
    async fn list(&self, levels: Vec<String>, recursive: bool) -> Result<Vec<Entry>, ClientError> {
        let mut entries = Vec::new();
        let mut pending = VecDeque::from([levels]);
        while let Some(levels) = pending.pop_front() {
            for namespace in self.namespaces(&levels).await? {
                let name = self.full_name(&namespace);
                entries.push(Entry { kind: "namespace".to_owned(), name });
                if recursive {
                    pending.push_back(namespace);
                }
            }
            if levels.is_empty() {
                continue;
            }
            for kind in ["table", "view", "function"] {
                let names = self.names(&levels, &format!("{kind}s")).await?.into_iter();
                entries.extend(names.map(|name| Entry { kind: kind.to_owned(), name }));
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Returns the full names of the tables, views or functions of a namespace.
    pub(super) async fn names(
        &self,
        levels: &[String],
        member: &str,
    ) -> Result<Vec<String>, ClientError> {
        let pages = self.pages(&self.path(levels, member), None).await?.into_iter();
        let names = pages.flat_map(|page| page.identifiers);
        Ok(names.map(|identifier| self.full_name(&identifier.levels())).collect())
    }

    async fn namespaces(&self, parent: &[String]) -> Result<Vec<Vec<String>>, ClientError> {
        let path = format!("/v1/{}/namespaces", encoded(&self.name));
        let separator = url::form_urlencoded::parse(self.separator.as_bytes()).next();
        let separator = separator.map(|(text, _)| text.into_owned()).unwrap_or_default();
        let parent = (!parent.is_empty()).then(|| parent.join(&separator));
        let pages = self.pages(&path, parent).await?;
        Ok(pages.into_iter().flat_map(|page| page.namespaces).collect())
    }

    async fn pages(&self, path: &str, parent: Option<String>) -> Result<Vec<Page>, ClientError> {
        let mut pages: Vec<Page> = Vec::new();
        let mut token = Some(String::new());
        while let Some(next) = token {
            let query = query(&[
                ("parent", parent.clone()),
                ("pageToken", Some(next)),
                ("pageSize", Some(PAGE.to_owned())),
            ]);
            let path = format!("{path}{query}");
            let page: Page = parse(self.connection.send("GET", &path, &Value::Null).await?)?;
            token = page.next_page_token.clone().filter(|token| !token.is_empty());
            pages.push(page);
        }
        Ok(pages)
    }

    /// Returns a name with the warehouse, in the form that other subcommands accept.
    pub(super) fn full_name(&self, levels: &[String]) -> String {
        joined([&self.name].into_iter().chain(levels))
    }
}
