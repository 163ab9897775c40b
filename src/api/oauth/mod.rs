//! `/v1/oauth`: short-lived tokens for the holders of API keys, as the specification has them.

pub mod jwks;
pub mod tokens;
