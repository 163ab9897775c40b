//! Log lines as JSON objects: `timestamp`, `level`, `target`, `fields` with the `message`, and the
//! request's `span`.
//!
//! The formatter of `tracing-subscriber` copies the metadata of the `log` crate (`log.target`,
//! `log.file` and others) into `fields`; this formatter omits it.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::traces::is_request;

/// Formats events as JSON lines.
pub(super) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let target = fields.log_target.take().unwrap_or_else(|| metadata.target().to_owned());
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), timestamp.into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        line.insert("target".to_owned(), target.into());
        line.insert("fields".to_owned(), Value::Object(fields.values));
        // Uses the request's span instead of the current span inside it: operators search log lines
        // by ids, and only the request's span has these ids.
        let current = context.lookup_current();
        let request =
            current.as_ref().and_then(|it| it.scope().find(|it| is_request(it.metadata())));
        if let Some(span) = request.or(current) {
            let recorded = span.extensions().get::<FormattedFields<JsonFields>>().map(|fields| {
                serde_json::from_str::<Map<String, Value>>(fields).unwrap_or_default()
            });
            let mut object = recorded.unwrap_or_default();
            object.insert("name".to_owned(), span.name().into());
            line.insert("span".to_owned(), Value::Object(object));
        }
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

/// The fields of an event, without the metadata of the `log` crate.
#[derive(Default)]
struct Fields {
    values: Map<String, Value>,
    /// The target of a record from the `log` crate.
    log_target: Option<String>,
}

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        match field.name() {
            "log.target" => self.log_target = value.as_str().map(str::to_owned),
            name if name.starts_with("log.") => {}
            name => {
                let name = name.strip_prefix("r#").unwrap_or(name);
                self.values.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics here").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn json_lines_have_fields_and_span_without_log_metadata() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .event_format(JsonLines)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", request_id = "r1");
            let _inside = span.enter();
            tracing::info!(log.file = "x.rs", log.target = "slatedb::db", n = 7, "opened \"a\"");
        });
        let text = lines.0.lock().expect("no test panics here").clone();
        let mut line: Value = serde_json::from_slice(&text).expect("one JSON object");
        let object = line.as_object_mut().expect("an object");
        assert!(object.remove("timestamp").is_some());
        let expected = serde_json::json!({
            "level": "INFO", "target": "slatedb::db",
            "fields": {"message": "opened \"a\"", "n": 7},
            "span": {"request_id": "r1", "name": "request"},
        });
        assert_eq!(line, expected);
    }
}
