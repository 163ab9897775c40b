//! The body of an error response.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of an error response: the `IcebergErrorResponse` of the specification.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorResponse {
    /// The error.
    pub error: ErrorModel,
}

/// An error.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorModel {
    /// The message: what failed, why, and what to do.
    #[schema(min_length = 1)]
    pub message: String,
    /// Name of the exception.
    #[serde(rename = "type")]
    #[schema(example = "ForbiddenException")]
    pub kind: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub code: u16,
}
