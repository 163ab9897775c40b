//! Requests to providers without a library of their own.

use std::time::Duration;

use super::files::VendError;

/// How long a provider may take to answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What providers without a library of their own are asked with.
pub(crate) fn client() -> Result<reqwest::Client, VendError> {
    let client = reqwest::Client::builder().timeout(ANSWER_MAX).build();
    client.map_err(|error| VendError(error.to_string()))
}

/// The text of an answer, if it is none of a failure. That of a failure may repeat what was asked: the status
/// has to do.
pub(super) async fn answer(request: reqwest::RequestBuilder) -> Result<String, VendError> {
    let answer =
        request.send().await.map_err(|error| VendError(error.without_url().to_string()))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(VendError(format!("the provider has answered {status}")));
    }
    answer.text().await.map_err(|error| VendError(error.without_url().to_string()))
}
