//! The request that `slateberg policy explain` evaluates: a principal, an action and a resource.

use std::net::IpAddr;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::error::Error;
use crate::cli::arguments::key_value;
use slateberg_authz::context::Context;
use slateberg_authz::resource::{Attributes, Kind, Resource};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::rfc3339;
use slateberg_model::principal::{ANY_USER_ID, Identity, IdentityKind, Method};

/// A principal, an action, a resource, and the context of the request.
#[derive(Debug, Args)]
pub(super) struct Question {
    #[command(flatten)]
    pub(super) principal_args: PrincipalArgs,
    /// Action, such as Load, Drop or `CommitData`
    #[arg(long, value_name = "ACTION")]
    pub(super) action: String,
    #[command(flatten)]
    pub(super) resource_args: ResourceArgs,
    #[command(flatten)]
    pub(super) context_args: ContextArgs,
}

#[derive(Debug, Args)]
pub(super) struct PrincipalArgs {
    /// User, as ISSUER/SUBJECT [default with a server: the caller]
    #[arg(long, value_name = "ID")]
    pub(super) user: Option<String>,
    /// Service account: the ID of an API key
    #[arg(long, value_name = "ID", conflicts_with = "user")]
    pub(super) service_account: Option<String>,
    /// ID or name of an API key that the server knows. The roles and warehouses of the key apply
    #[arg(
        long,
        value_name = "ID|NAME",
        conflicts_with_all = [
            "user", "service_account", "roles", "groups", "warehouses", "policies", "offline",
        ],
    )]
    pub(super) key: Option<String>,
    /// Role of the principal. Repeatable. Without --user and --service-account, the principal is any
    /// user with this role
    #[arg(long = "role", value_name = "ROLE")]
    pub(super) roles: Vec<String>,
    /// Group of the principal. Repeatable. Without --user and --service-account, the principal is
    /// any user in this group
    #[arg(long = "group", value_name = "GROUP")]
    pub(super) groups: Vec<String>,
    /// Assume a credential that is limited to this warehouse. Repeatable [default: all warehouses]
    #[arg(long = "scope", value_name = "WAREHOUSE")]
    pub(super) warehouses: Vec<String>,
    /// Authentication method to assume [default: jwt for a user, api-key for a service account]
    #[arg(long, value_enum)]
    pub(super) authentication: Option<Authentication>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Authentication {
    /// Token of an external issuer
    Jwt,
    /// API key
    ApiKey,
    /// Client certificate
    Mtls,
    /// No authentication: the caller runs the catalog in its own process
    Embedded,
}

impl Authentication {
    pub(super) fn method(self) -> Method {
        match self {
            Self::Jwt => Method::Jwt,
            Self::ApiKey => Method::ApiKey,
            Self::Mtls => Method::Mtls,
            Self::Embedded => Method::Embedded,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ResourceArgs {
    #[command(flatten)]
    selector: ResourceSelector,
    /// Property of the resource. Repeatable
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) properties: Vec<(String, String)>,
    /// Location of the resource
    #[arg(long, value_name = "URL")]
    pub(super) location: Option<String>,
    /// ID of the principal that created the resource
    #[arg(long, value_name = "ID")]
    pub(super) owner: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct ResourceSelector {
    /// The resource is the catalog itself
    #[arg(long)]
    catalog: bool,
    /// The resource is this warehouse
    #[arg(long, value_name = "WAREHOUSE")]
    warehouse: Option<String>,
    /// The resource is this namespace
    #[arg(long, value_name = "WAREHOUSE/LEVEL...")]
    namespace: Option<String>,
    /// The resource is this table
    #[arg(long, value_name = "WAREHOUSE/LEVEL.../NAME")]
    table: Option<String>,
    /// The resource is this view
    #[arg(long, value_name = "WAREHOUSE/LEVEL.../NAME")]
    view: Option<String>,
    /// The resource is this function
    #[arg(long, value_name = "WAREHOUSE/LEVEL.../NAME")]
    function: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ContextArgs {
    /// Time of the request, such as 2026-01-31T09:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    pub(super) time: Option<String>,
    /// Source address of the request
    #[arg(long, value_name = "ADDRESS")]
    pub(super) source_address: Option<IpAddr>,
    /// User-Agent header of the request
    #[arg(long, value_name = "TEXT")]
    pub(super) client: Option<String>,
    /// View through which the client reads. Repeat the option for several views
    #[arg(long, value_name = "WAREHOUSE/LEVEL.../NAME")]
    pub(super) referenced_by: Vec<String>,
}

impl PrincipalArgs {
    /// Rejects principals that only a server can resolve: an API key, and the caller.
    pub(super) fn check_offline(&self) -> Result<(), Error> {
        let server = "set the server with --url or SLATEBERG_URL";
        if self.key.is_some() {
            return Err(Error::Usage(format!("--key names an API key of a server: {server}")));
        }
        if self.grantee_notation().is_none() {
            let principal_args = "name the principal: --user, --service-account, --role or --group";
            return Err(Error::Usage(format!("{principal_args}; or {server}")));
        }
        Ok(())
    }

    /// Returns the principal as a grantee, such as `role:analysts`. Returns `None` for an API key
    /// and for the caller.
    pub(super) fn grantee_notation(&self) -> Option<String> {
        let named = [
            ("user", self.user.as_ref()),
            ("service-account", self.service_account.as_ref()),
            ("role", self.roles.first()),
            ("group", self.groups.first()),
        ];
        let mut named = named.into_iter();
        named.find_map(|(kind, id)| Some(format!("{kind}:{}", id?)))
    }

    pub(super) fn identity(&self) -> Identity {
        let (kind, id, method) = match (&self.user, &self.service_account) {
            (_, Some(id)) => (IdentityKind::ServiceAccount, id.clone(), Method::ApiKey),
            (user, None) => {
                let id = user.clone().unwrap_or_else(|| ANY_USER_ID.to_owned());
                (IdentityKind::User, id, Method::Jwt)
            }
        };
        let method = self.authentication.map_or(method, Authentication::method);
        Identity {
            kind,
            name: id.clone(),
            id,
            groups: self.groups.iter().cloned().collect(),
            roles: self.roles.iter().cloned().collect(),
            method,
            warehouses: (!self.warehouses.is_empty())
                .then(|| self.warehouses.iter().cloned().collect()),
        }
    }
}

impl ResourceArgs {
    pub(super) fn resource(&self) -> Result<Resource, Error> {
        let selector = &self.selector;
        let paths = [
            (Kind::Warehouse, &selector.warehouse),
            (Kind::Namespace, &selector.namespace),
            (Kind::Table, &selector.table),
            (Kind::View, &selector.view),
            (Kind::Function, &selector.function),
        ];
        let named = paths.into_iter().find_map(|(kind, path)| Some((kind, path.as_deref()?)));
        let Some((kind, path)) = named else { return Ok(Resource::catalog()) };
        let resource =
            Resource::parse(kind, path).map_err(|error| Error::Usage(error.to_string()))?;
        Ok(resource.with(Arc::new(Attributes {
            properties: self.properties.iter().cloned().collect(),
            location: self.location.clone(),
            owner: self.owner.clone(),
        })))
    }
}

impl ContextArgs {
    pub(super) fn context(&self) -> Result<Context, Error> {
        let now_ms = match &self.time {
            None => SystemClock.now_ms(),
            Some(text) => rfc3339::parse(text).ok_or_else(|| {
                Error::Usage(format!(
                    "'{text}' is not a time: expected one like 2026-01-31T09:00:00Z"
                ))
            })?,
        };
        Ok(Context {
            now_ms,
            source_address: self.source_address,
            client: self.client.clone(),
            referenced_by: self.views()?,
        })
    }

    /// Returns the views through which the client reads.
    pub(super) fn views(&self) -> Result<Vec<Resource>, Error> {
        let views = self.referenced_by.iter().map(|path| Resource::parse(Kind::View, path));
        views.collect::<Result<_, _>>().map_err(|wrong| Error::Usage(wrong.to_string()))
    }
}
