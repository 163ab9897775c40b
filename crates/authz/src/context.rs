//! Context of a request.

use std::net::IpAddr;

use cedar_policy::RestrictedExpression;

use slateberg_base::rfc3339;
use slateberg_model::principal::Method;

/// Attributes of a request other than principal, action and resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Time of the request, in milliseconds since 1970 (UTC).
    pub now_ms: i64,
    /// IP address of the client, if known.
    pub source_address: Option<IpAddr>,
    /// The `User-Agent` of the request.
    pub client: Option<String>,
}

impl Context {
    /// Returns Cedar's form of the context.
    pub(super) fn cedar(&self, method: Method) -> cedar_policy::Context {
        let text = RestrictedExpression::new_string;
        let time = rfc3339::format(self.now_ms);
        let mut pairs = vec![
            ("time".to_owned(), RestrictedExpression::new_datetime(time)),
            ("authentication".to_owned(), text(method.name().to_owned())),
        ];
        if let Some(address) = self.source_address {
            let address = RestrictedExpression::new_ip(address.to_canonical().to_string());
            pairs.push(("source_address".to_owned(), address));
        }
        if let Some(client) = &self.client {
            pairs.push(("client".to_owned(), text(client.clone())));
        }
        cedar_policy::Context::from_pairs(pairs).expect("the values are well-formed")
    }
}
