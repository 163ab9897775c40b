//! Hints about a request: the action that a misspelled name probably means, and the roles and
//! grants that would permit a denied request.

use std::sync::Arc;

use cedar_policy::Effect;

use super::decide::{Decision, Request};
use super::policy_set::PolicySet;
use super::resource::Kind;
use super::rules::covers;
use slateberg_base::similar::nearest;
use slateberg_model::members::brief;
use slateberg_model::principal::Identity;

/// Maximum number of roles to try. Grants can mention many.
const ROLES_TRIED_MAX: usize = 100;

/// Roles and grants that would permit a denied request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remedies {
    /// Roles, each of which would permit the request.
    pub roles: Vec<String>,
    /// Names of the templates that permit the action, without their prefix `grant-`. The least
    /// powerful template is first.
    pub grants: Vec<String>,
}

impl PolicySet {
    /// Rejects an action that does not exist or does not apply to the kind of resource.
    pub fn check_action(&self, action: &str, kind: Kind) -> Result<(), String> {
        let (schema, of) = (self.schema(), kind.name());
        match schema.applies(action, of) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("{} does not apply to a {of}", brief(action))),
            None => {
                let applies = |name: &&str| schema.applies(name, of) == Some(true);
                let known: Vec<_> = schema.actions().filter(applies).collect();
                let same = known.iter().copied().find(|name| name.eq_ignore_ascii_case(action));
                let meant = same.or_else(|| nearest(action, known.iter().copied()));
                let hint = meant.map(|meant| format!(" Did you mean {meant}?"));
                let (hint, known) = (hint.unwrap_or_default(), known.join(", "));
                let action = brief(action);
                Err(format!("unknown action '{action}'.{hint} The actions on a {of} are {known}"))
            }
        }
    }

    /// Returns the roles and grants that would permit a denied request. If a forbid policy or the
    /// scope of a credential denies the request, returns no remedies, because no role or grant
    /// overrides such a denial.
    pub fn remedies(&self, action: &str, request: Request<'_>, decision: &Decision) -> Remedies {
        if decision.allow || !decision.policies.is_empty() {
            return Remedies::default();
        }
        let permits = |role: &String| {
            let mut identity = Identity::clone(request.identity);
            identity.roles.insert(role.clone());
            self.decide(action, Request { identity: &Arc::new(identity), ..request }).allow
        };
        let roles = self.roles().into_iter().take(ROLES_TRIED_MAX).filter(permits).collect();
        let is_catalog = request.resource.kind() == Kind::Catalog;
        let grants = if is_catalog { Vec::new() } else { self.grants_of(action) };
        Remedies { roles, grants }
    }

    /// Returns the templates that permit an action.
    fn grants_of(&self, action: &str) -> Vec<String> {
        let (Some(uid), Some(groups)) = (self.schema.action(action), self.schema.groups_of(action))
        else {
            return Vec::new();
        };
        let permitting = self.cedar.templates().filter(|template| {
            template.effect() == Effect::Permit
                && covers(&template.action_constraint(), uid, groups)
        });
        let short_name = |id: &str| id.strip_prefix("grant-").unwrap_or(id).to_owned();
        let mut short_names: Vec<_> =
            permitting.map(|template| short_name(template.id().as_ref())).collect();
        let power = ["browse", "read", "write", "own"];
        short_names.sort_by_key(|short_name| {
            let at = power.iter().position(|known| known == short_name);
            (at.unwrap_or(power.len()), short_name.clone())
        });
        short_names
    }
}

impl Remedies {
    /// Formats the remedies for a denied principal, such as `role:analysts`, and a resource.
    pub fn text(&self, grantee: &str, resource: &str) -> String {
        let mut text = String::new();
        if !self.roles.is_empty() {
            text.push_str(&format!("the role {} would permit it\n", self.roles.join(" or ")));
        }
        if let Some(least) = self.grants.first() {
            let grants = self.grants.join(" or ");
            text.push_str(&format!(
                "a grant of {grants} would permit it, for example:\n  slateberg grant {least} --to \
                 {grantee} --on {resource}\n"
            ));
        }
        text
    }
}
