//! Context of a request.

use std::net::IpAddr;

use cedar_policy::RestrictedExpression;

use super::resource::Resource;
use super::schema::{Schema, uid};
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
    /// The views through which the client reads. The caller may load each of them.
    pub referenced_by: Vec<Resource>,
}

impl Context {
    /// Returns Cedar's form of the context.
    pub(super) fn cedar(&self, method: Method, schema: &Schema) -> cedar_policy::Context {
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
        if !self.referenced_by.is_empty() {
            let views = self.referenced_by.iter().map(|view| uid(&schema.types.view, &view.id()));
            let views = views.map(RestrictedExpression::new_entity_uid);
            pairs.push(("referenced_by".to_owned(), RestrictedExpression::new_set(views)));
        }
        cedar_policy::Context::from_pairs(pairs).expect("the values are well-formed")
    }
}
