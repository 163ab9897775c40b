//! HTTP requests to providers that have no client library.

use std::time::Duration;

use super::files::VendError;

/// Timeout of a request to a provider.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Creates the HTTP client for providers that have no client library.
pub(crate) fn client() -> Result<reqwest::Client, VendError> {
    let client = reqwest::Client::builder().timeout(ANSWER_MAX).build();
    client.map_err(|error| VendError(error.to_string()))
}

/// Returns the response body if the status is a success. The error otherwise contains only the
/// status, because the body of a failure may repeat the request.
pub(super) async fn answer(request: reqwest::RequestBuilder) -> Result<String, VendError> {
    let answer =
        request.send().await.map_err(|error| VendError(error.without_url().to_string()))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(VendError(format!("the provider has answered {status}")));
    }
    answer.text().await.map_err(|error| VendError(error.without_url().to_string()))
}
