//! HTTP requests to providers that have no client library.

use std::time::Duration;

use super::files::VendError;
use slateberg_base::error_chain::Cause;

/// Timeout of a request to a provider.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Creates the HTTP client for providers that have no client library.
pub(crate) fn client() -> Result<reqwest::Client, VendError> {
    let client = reqwest::Client::builder().timeout(ANSWER_MAX).build();
    client.map_err(|error| VendError(Cause::new(error)))
}

/// Returns the response body if the status is a success. Otherwise, the error contains only the
/// status, because the body may repeat parts of the request.
pub(super) async fn answer(request: reqwest::RequestBuilder) -> Result<String, VendError> {
    let answer =
        request.send().await.map_err(|error| VendError(Cause::new(error.without_url())))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(VendError(Cause::new(format!("the provider returned {status}"))));
    }
    answer.text().await.map_err(|error| VendError(Cause::new(error.without_url())))
}
