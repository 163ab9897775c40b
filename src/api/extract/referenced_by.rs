//! The query parameter `referenced-by`.

use super::path::decode;
use super::query::Query;
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use slateberg_catalog::RequestContext;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::separator;

/// Returns the context of a request that reads through the views in its query.
pub async fn through_views(
    state: &ApiState,
    cx: RequestContext,
    query: &Query,
) -> Result<RequestContext, ApiError> {
    let Some(chain) = query.encoded("referenced-by").filter(|chain| !chain.is_empty()) else {
        return Ok(cx);
    };
    // Clients encode each view, so a comma in a name is %2C.
    let separator = cx.warehouse.namespace_separator();
    let views = chain.split(',').map(|view| {
        let NamespaceIdent(mut levels) = separator::split_encoded(view, separator, decode)?;
        match levels.pop() {
            Some(name) if !levels.is_empty() => {
                Ok(TabularIdent { namespace: NamespaceIdent(levels), name })
            }
            _ => Err(ApiError::bad_request(
                "Invalid query parameter referenced-by: expected views with their namespaces",
            )),
        }
    });
    let views = views.collect::<Result<_, _>>()?;
    Ok(state.catalog.tabulars().through_views(cx, views).await?)
}
