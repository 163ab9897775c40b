//! `/v1/oauth`: the specification's token endpoint, which issues short-lived tokens for API keys.

pub mod jwks;
pub mod tokens;
