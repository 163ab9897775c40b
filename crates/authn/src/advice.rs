//! Checks the roles and grantees of a request. Warns about roles and grantees that match nothing.
//! If a grantee is the name of an API key, replaces the name by the id of the key.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::api_keys::{ApiKeys, GranteeReader};
use super::key_index::KnownKey;
use super::{Authenticator, Error, Result, client_certificates};
use slateberg_authz::action::ReadKeys;
use slateberg_authz::grants::{Grantee, GranteeKind};
use slateberg_authz::notation::{self, grantee_text};
use slateberg_authz::resource::Resource;
use slateberg_base::similar::nearest;
use slateberg_model::members::brief;
use slateberg_model::principal::EMBEDDED_ID_PREFIX;

/// Maximum number of names in a message.
const LISTED_MAX: usize = 12;

/// A grantee in its stored form, with warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvisedGrantee {
    /// The grantee. If the caller gave the name of an API key, this contains the id of the key.
    pub name: String,
    /// Reasons why the grant may have no effect.
    pub warnings: Vec<String>,
}

impl ApiKeys {
    /// Returns a warning for each role that no policy or grant in force mentions.
    pub fn role_warnings(&self, roles: &BTreeSet<String>) -> Vec<String> {
        let known = self.authority().policies().roles();
        let unknown = roles.difference(&known);
        let warning = |role: &String| {
            let hint = hint(role, &known, "Known roles");
            format!("no policy in force mentions the role '{}'{hint}", brief(role))
        };
        unknown.map(warning).collect()
    }

    /// Returns the key with this id, or else the only key with this name. Ignores revoked keys.
    pub fn by_id_or_name(&self, name: &str) -> Result<Arc<KnownKey>> {
        let by_id = Uuid::try_parse(name).ok().and_then(|id| self.index().by_id(id));
        if let Some(known) = by_id {
            return Ok(known);
        }
        let all = self.index().all();
        let mut named = all.iter().filter(|known| known.record.name == name);
        match (named.next(), named.count()) {
            (Some(known), 0) => Ok(Arc::clone(known)),
            (Some(_), _) => Err(Error::Invalid(self.candidates(name))),
            (None, _) => {
                let names = all.iter().map(|known| known.record.name.as_str());
                let hint = nearest(name, names).map(|name| format!(". Did you mean '{name}'?"));
                let hint = hint.unwrap_or_default();
                Err(Error::NoSuchKey(format!("{}{hint}", brief(name))))
            }
        }
    }

    fn candidates(&self, name: &str) -> String {
        let all = self.index().all();
        let named = all.iter().filter(|known| known.record.name == name);
        let ids: Vec<_> = named.map(|known| known.record.id.to_string()).collect();
        let listed = ids[..ids.len().min(LISTED_MAX)].join(", ");
        let count = ids.len();
        format!("{count} API keys have the name '{}'. Write the id of one: {listed}", brief(name))
    }

    /// Whether the caller may list API keys and so learn their names and ids.
    fn may_read(&self, asker: &GranteeReader<'_>) -> bool {
        let GranteeReader { principal, context, .. } = asker;
        let catalog = Resource::catalog();
        self.authority().authorize::<ReadKeys>(principal, &catalog, context).is_ok()
    }
}

impl Authenticator {
    /// Resolves a grantee. A service account may be given by the name of an API key if exactly one
    /// valid key has this name. Other principals are not looked up, because only their issuers know
    /// them. Returns an invalid grantee unchanged; the catalog rejects it.
    pub fn grantee(&self, asker: &GranteeReader<'_>, name: &str) -> Result<AdvisedGrantee> {
        let plain = |warnings| AdvisedGrantee { name: name.to_owned(), warnings };
        let Ok(grantee) = notation::grantee(name) else { return Ok(plain(Vec::new())) };
        match grantee.kind {
            GranteeKind::ServiceAccount => self.service_account(asker, grantee),
            GranteeKind::User => Ok(plain(self.user_warning(&grantee.id).into_iter().collect())),
            GranteeKind::Role => Ok(plain(self.role_warning(asker, &grantee.id))),
            GranteeKind::Group => Ok(plain(Vec::new())),
        }
    }

    fn service_account(
        &self,
        asker: &GranteeReader<'_>,
        grantee: Grantee,
    ) -> Result<AdvisedGrantee> {
        let name = grantee_text(&grantee);
        let outside =
            [client_certificates::ID_PREFIX, EMBEDDED_ID_PREFIX].map(|prefix| format!("{prefix}/"));
        if outside.iter().any(|prefix| grantee.id.starts_with(prefix)) {
            return Ok(AdvisedGrantee { name, warnings: Vec::new() });
        }
        let is_id = Uuid::try_parse(&grantee.id).is_ok();
        if !is_id && !self.keys().may_read(asker) {
            let id = brief(&grantee.id);
            let warning = format!("'{id}' is not the id of an API key: this grant has no effect");
            return Ok(AdvisedGrantee { name, warnings: vec![warning] });
        }
        match self.keys().by_id_or_name(&grantee.id) {
            Ok(known) => {
                let id = known.record.id.to_string();
                let name = grantee_text(&Grantee { id, ..grantee });
                Ok(AdvisedGrantee { name, warnings: Vec::new() })
            }
            Err(Error::NoSuchKey(hinted)) => {
                let what = if is_id { "id" } else { "id or name" };
                let warning = format!("no valid API key has this {what}: {hinted}");
                Ok(AdvisedGrantee { name, warnings: vec![warning] })
            }
            Err(error) => Err(error),
        }
    }

    fn user_warning(&self, id: &str) -> Option<String> {
        let issuers: BTreeSet<_> = self.settings().issuers.keys().cloned().collect();
        let prefix = id.split_once('/').map(|(prefix, _)| prefix);
        let built_in = [client_certificates::ID_PREFIX, EMBEDDED_ID_PREFIX];
        if prefix.is_some_and(|it| built_in.contains(&it) || issuers.contains(it)) {
            return None;
        }
        let hint = hint(prefix.unwrap_or(id), &issuers, "Configured issuers");
        let expected = "the id of a user is ISSUER/SUBJECT";
        Some(format!("'{}' does not begin with the name of an issuer: {expected}{hint}", brief(id)))
    }

    /// Warns about a role only if its name is probably misspelled. A grant to an unknown role is
    /// not necessarily a mistake: the policies, keys or issuers that use the role may be created
    /// later.
    fn role_warning(&self, asker: &GranteeReader<'_>, role: &str) -> Vec<String> {
        let mut known = self.keys().authority().policies().roles();
        if self.keys().may_read(asker) {
            let keys = self.keys().index().all();
            known.extend(keys.iter().flat_map(|key| key.record.roles.iter().cloned()));
        }
        if known.contains(role) {
            return Vec::new();
        }
        let meant = nearest(role, known.iter().map(String::as_str));
        let warning = |meant| {
            let role = brief(role);
            format!("no policy mentions the role '{role}'. Did you mean '{meant}'?")
        };
        meant.map(warning).into_iter().collect()
    }
}

/// Returns a hint to append to a message: the most similar known name, or the known names if none
/// is similar.
fn hint(name: &str, known: &BTreeSet<String>, what: &str) -> String {
    let names: Vec<_> = known.iter().map(String::as_str).collect();
    if let Some(meant) = nearest(name, names.iter().copied()) {
        return format!(". Did you mean '{meant}'?");
    }
    match names.len() {
        0 => String::new(),
        count if count > LISTED_MAX => format!(". {what}: {}, ...", names[..LISTED_MAX].join(", ")),
        _ => format!(". {what}: {}", names.join(", ")),
    }
}
