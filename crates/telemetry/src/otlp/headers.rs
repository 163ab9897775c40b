//! Headers of requests to the collector.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::invalid::InvalidOtlp;
use crate::settings::OtlpSettings;

/// Returns the headers of every request.
pub(super) fn headers(settings: &OtlpSettings) -> Result<HeaderMap, InvalidOtlp> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        let wrong = || InvalidOtlp(format!("headers.{name}: not a valid header"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.reveal()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
