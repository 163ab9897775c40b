//! `GET /`: describes the server to a person who opens its address.

use std::fmt::Write;

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Serialize;
use slateberg_base::version::VERSION;

/// The description of a port and its routes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RootDocument {
    name: &'static str,
    version: &'static str,
    description: &'static str,
    usage: &'static str,
    links: &'static [Link],
}

/// A path and its purpose.
#[derive(Debug, Clone, Copy, Serialize)]
struct Link {
    path: &'static str,
    title: &'static str,
}

const CLIENT_LINKS: [Link; 3] = [
    Link { path: "/v1/config", title: "the configuration of Iceberg clients" },
    Link { path: "/health", title: "whether the server runs" },
    Link { path: "/ready", title: "whether the catalog accepts requests" },
];

const OPERATOR_LINKS: [Link; 4] = [
    Link { path: "/management/v1/openapi.json", title: "the management API" },
    Link { path: "/metrics", title: "metrics for Prometheus" },
    Link { path: "/health", title: "whether the server runs" },
    Link { path: "/ready", title: "whether the catalog accepts requests" },
];

const ALL_LINKS: [Link; 5] =
    [CLIENT_LINKS[0], OPERATOR_LINKS[0], OPERATOR_LINKS[1], OPERATOR_LINKS[2], OPERATOR_LINKS[3]];

impl RootDocument {
    /// Describes a port that serves clients, operators, or both.
    pub fn for_port(clients: bool, operators: bool) -> Self {
        let (links, usage): (&[Link], _) = match (clients, operators) {
            (false, _) => (
                &OPERATOR_LINKS,
                "This is the management port: set SLATEBERG_URL to this address for the subcommands of slateberg.",
            ),
            (true, false) => {
                (&CLIENT_LINKS, "Set the uri of an Iceberg REST client to this address.")
            }
            (true, true) => (&ALL_LINKS, "Set the uri of an Iceberg REST client to this address."),
        };
        Self {
            name: env!("CARGO_PKG_NAME"),
            version: VERSION,
            description: env!("CARGO_PKG_DESCRIPTION"),
            usage,
            links,
        }
    }

    /// Responds with HTML to browsers and with JSON to other clients.
    pub fn respond(self, headers: &HeaderMap) -> Response {
        let mut accepted = headers.get_all(header::ACCEPT).iter();
        let wants_page =
            accepted.any(|value| value.to_str().is_ok_and(|it| it.contains("text/html")));
        let body =
            if wants_page { Html(self.page()).into_response() } else { Json(self).into_response() };
        ([(header::VARY, "accept")], body).into_response()
    }

    fn page(self) -> String {
        let Self { name, version, description, usage, links } = self;
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title>\n\
             <h1>{name} {version}</h1>\n<p>{description}</p>\n<p>{usage}</p>\n<ul>\n"
        );
        for Link { path, title } in links {
            writeln!(page, "<li><a href=\"{path}\">{path}</a>: {title}</li>")
                .expect("writing into memory cannot fail");
        }
        page.push_str("</ul></html>\n");
        page
    }
}
