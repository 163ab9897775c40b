//! `slateberg search`: finds tables, views, namespaces and functions by parts of their names, or by
//! their columns and comments.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::client::run_online;
use super::client::{Connection, query};
use super::exit::Outcome;
use super::output::table;
use slateberg_management::search::{SearchHit, SearchResponse, SearchSource};

const PATH: &str = "/management/v1/search";
/// Number of characters of a comment that the table contains.
const COMMENT_CHARS_MAX: usize = 60;

/// Find tables, views, namespaces and functions by their names, columns and comments.
#[derive(Debug, Args)]
pub struct Search {
    /// Words to find, in any case. A hit contains each of them in its name or namespace, or in the
    /// column or comment that matches
    #[arg(value_name = "QUERY", required = true)]
    words: Vec<String>,
    /// Search only this warehouse
    #[arg(long)]
    warehouse: Option<String>,
    /// Parts of resources that are searched. The first search for columns or comments reads the
    /// metadata of all tables
    #[arg(long = "in", value_enum, value_delimiter = ',', value_name = "SOURCES")]
    #[arg(default_values = ["names"])]
    sources: Vec<Source>,
    /// Find only this kind. Repeat the option for several kinds
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Maximum number of hits
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Source {
    Names,
    Columns,
    Comments,
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Columns => "columns",
            Self::Comments => "comments",
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Namespace,
    Table,
    View,
    Function,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Table => "table",
            Self::View => "view",
            Self::Function => "function",
        }
    }
}

impl Search {
    /// Prints the hits.
    pub fn run(self) -> Outcome {
        run_online(async {
            let Self { words, warehouse, sources, kind, limit, connection } = self;
            let sources: Vec<_> = sources.into_iter().map(Source::as_str).collect();
            let mut parameters = vec![
                ("q", Some(words.join(" "))),
                ("in", Some(sources.join(","))),
                ("warehouse", warehouse),
                ("pageSize", Some(limit.to_string())),
            ];
            let kinds = kind.into_iter().map(|kind| ("kind", Some(kind.as_str().to_owned())));
            parameters.extend(kinds);
            let path = format!("{PATH}{}", query(&parameters));
            let found = connection.send("GET", &path, &Value::Null).await?;
            connection.render(found, |found| text(&found))
        })
    }
}

fn text(found: &SearchResponse) -> String {
    let names_only = found.hits.iter().all(|hit| hit.matched_in == SearchSource::Names);
    let rows = match names_only {
        true => {
            let row = |hit: &SearchHit| [hit.resource.clone(), hit.quality.as_str().to_owned()];
            table(["RESOURCE", "MATCH"], &found.hits.iter().map(row).collect::<Vec<_>>())
        }
        false => {
            let row = |hit: &SearchHit| {
                [hit.resource.clone(), hit.quality.as_str().to_owned(), matched(hit)]
            };
            let rows: Vec<_> = found.hits.iter().map(row).collect();
            table(["RESOURCE", "MATCH", "MATCHED"], &rows)
        }
    };
    let more = match &found.next_page_token {
        Some(_) => "There are more hits. Add words, or raise --limit\n",
        None => "",
    };
    let stale = match found.includes_latest_changes {
        true => "",
        false => "The hits may lack the latest changes, because these are not durable yet\n",
    };
    let incomplete: Vec<_> = found.incomplete.iter().map(SearchSource::as_str).collect();
    let incomplete = match &*incomplete {
        [] => String::new(),
        sources => format!(
            "The index lacks some {}, so the hits may be incomplete: the server has logged the \
             reason\n",
            sources.join(" and ")
        ),
    };
    format!("{rows}{more}{stale}{incomplete}")
}

/// Returns what matches the query.
fn matched(hit: &SearchHit) -> String {
    let comment = hit.comment.as_deref().map(first_line);
    match (&hit.column, comment) {
        (None, None) => "name".to_owned(),
        (Some(column), None) => format!("column: {column}"),
        (Some(column), Some(comment)) => format!("comment of {column}: {comment}"),
        (None, Some(comment)) => format!("comment: {comment}"),
    }
}

/// Returns the first line of a comment, without its end if it is long. Terminals interpret control
/// characters, so this function replaces them.
fn first_line(comment: &str) -> String {
    let line = comment.lines().next().unwrap_or_default();
    let line = line.replace(char::is_control, " ");
    match line.char_indices().nth(COMMENT_CHARS_MAX) {
        None => line,
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}
