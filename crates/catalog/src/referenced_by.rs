//! The views through which a client reads a table or view: `referenced-by` of the specification.

use crate::tabular::Tabulars;
use crate::tabular::target::Target;
use crate::{Error, RequestContext, Result};
use slateberg_authz::action::Load;
use slateberg_authz::authority::Decider;
use slateberg_authz::resource::{Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};

/// Maximum number of views.
const VIEWS_MAX: usize = 32;

impl Tabulars {
    /// Returns the context of a request that reads through these views, beginning with the view that
    /// the user has named. Policies see the views only if the caller may load each of them, directly
    /// or through the views before it. If policies see the views, decisions on the table may depend
    /// on them, so the server cannot plan its scans: a request for a plan does not name the views.
    #[boxed]
    pub async fn through_views(
        &self,
        cx: RequestContext,
        views: Vec<TabularIdent>,
    ) -> Result<RequestContext> {
        if views.len() > VIEWS_MAX {
            return Err(Error::Invalid(format!(
                "Invalid query parameter referenced-by: expected at most {VIEWS_MAX} views, got {}",
                views.len()
            )));
        }
        match self.core.access.ask(&cx.operation)? {
            Decider::Policies(asking) if asking.asks_for_views() => {}
            Decider::Policies(_) | Decider::Unrestricted(_) => return Ok(cx),
        }
        let RequestContext { mut operation, warehouse } = cx.clone();
        for ident in views {
            let target = Target { warehouse: &warehouse, kind: TabularKind::View, ident: &ident };
            match self.existing::<Load>(&operation, target).await {
                Ok(_) => {}
                Err(failure) if failure.is_failure() => return Err(failure),
                Err(_) => return Ok(cx),
            }
            let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
            let view = inside.tabular(TabularKind::View, Node::named(&ident.name));
            operation.context.referenced_by.push(view);
        }
        Ok(RequestContext { operation, warehouse })
    }
}
