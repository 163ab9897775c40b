//! `slateberg search`: finds tables, views, namespaces and functions by parts of their names.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::client::run_online;
use super::client::{ClientError, Connection, parse, query};
use super::exit::Outcome;
use super::output::{Output, json_text, table};
use slateberg_management::search::{SearchHit, SearchResponse};

const PATH: &str = "/management/v1/search";

/// Find tables, views, namespaces and functions by parts of their names.
#[derive(Debug, Args)]
pub struct Search {
    /// Words to find, in any case. A hit contains each of them in its name or namespace
    #[arg(value_name = "QUERY", required = true)]
    words: Vec<String>,
    /// Search only this warehouse
    #[arg(long)]
    warehouse: Option<String>,
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
            let Self { words, warehouse, kind, limit, connection } = self;
            let mut parameters = vec![
                ("q", Some(words.join(" "))),
                ("warehouse", warehouse),
                ("pageSize", Some(limit.to_string())),
            ];
            let kinds = kind.into_iter().map(|kind| ("kind", Some(kind.as_str().to_owned())));
            parameters.extend(kinds);
            let path = format!("{PATH}{}", query(&parameters));
            let found = connection.send("GET", &path, &Value::Null).await?;
            Ok::<_, ClientError>(match connection.output {
                Output::Json => json_text(&found),
                Output::Table => text(&parse(found)?),
            })
        })
    }
}

fn text(found: &SearchResponse) -> String {
    let row = |hit: &SearchHit| [hit.resource.clone(), hit.quality.as_str().to_owned()];
    let rows: Vec<_> = found.hits.iter().map(row).collect();
    let more = match &found.next_page_token {
        Some(_) => "There are more hits. Add words, or raise --limit\n",
        None => "",
    };
    format!("{}{more}", table(["RESOURCE", "MATCH"], &rows))
}
