//! Converts warehouses from the form of requests and to the form of responses.

use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::warehouses::change::NewWarehouse;
use slateberg_catalog::warehouses::listing::{
    ManagedWarehouse, Source, WarehouseInfo, WarehousePage,
};
use slateberg_management::Properties;
use slateberg_management::warehouses::{
    DelegationMode, FileAccess, FileAccessRequest, StorageRequest, Warehouse, WarehouseDetails,
    WarehouseList, WarehouseSource, WarehouseStatus, WarehouseStorage,
};
use slateberg_model::warehouse::{self as model, CREDENTIALS_SECONDS, Delegation, StorageProfile};

fn requested_access(request: FileAccessRequest) -> model::FileAccess {
    let FileAccessRequest { delegation, role_arn, external_id, sts_endpoint, credentials_seconds } =
        request;
    let delegation = delegation.unwrap_or_default().into_iter().map(|mode| match mode {
        DelegationMode::VendedCredentials => Delegation::VendedCredentials,
        DelegationMode::RemoteSigning => Delegation::RemoteSigning,
    });
    model::FileAccess {
        delegation: delegation.collect(),
        role_arn,
        external_id,
        sts_endpoint,
        credentials_seconds: credentials_seconds.unwrap_or(CREDENTIALS_SECONDS),
    }
}

/// Returns the warehouse that a request describes.
pub fn requested_warehouse(
    storage: StorageRequest,
    (client_defaults, client_overrides): (Option<Properties>, Option<Properties>),
    dropped_kept_seconds: Option<u64>,
    maintenance: Option<Properties>,
) -> NewWarehouse {
    let StorageRequest { location, allowed_locations, options, credentials, access } = storage;
    NewWarehouse {
        storage: StorageProfile {
            location: location.unwrap_or_default(),
            allowed_locations: allowed_locations.unwrap_or_default(),
            options: options.unwrap_or_default(),
            credentials,
            access: access.map(requested_access).unwrap_or_default(),
        },
        client_defaults: client_defaults.unwrap_or_default(),
        client_overrides: client_overrides.unwrap_or_default(),
        dropped_kept_seconds,
        maintenance: maintenance.unwrap_or_default(),
    }
}

fn file_access(access: model::FileAccess) -> FileAccess {
    let model::FileAccess { delegation, role_arn, external_id, sts_endpoint, credentials_seconds } =
        access;
    let delegation = delegation.into_iter().map(|mode| match mode {
        Delegation::VendedCredentials => DelegationMode::VendedCredentials,
        Delegation::RemoteSigning => DelegationMode::RemoteSigning,
    });
    FileAccess {
        delegation: delegation.collect(),
        role_arn,
        external_id,
        sts_endpoint,
        credentials_seconds,
    }
}

fn warehouse_details(managed: ManagedWarehouse, keys: &ApiKeys) -> WarehouseDetails {
    let ManagedWarehouse { storage, problem, history } = managed;
    let StorageProfile { location, allowed_locations, options, credentials, access } = storage;
    let access = file_access(access);
    let (version, created_by, changed_at_ms, changed_by) = match history {
        Some(it) => {
            (Some(it.version), Some(it.created_by), Some(it.changed_ms), Some(it.changed_by))
        }
        None => (None, None, None, None),
    };
    WarehouseDetails {
        storage: WarehouseStorage { location, allowed_locations, options, credentials, access },
        problem,
        version,
        created_by_name: created_by.as_deref().and_then(|by| keys.name_of(by)),
        created_by,
        changed_at_ms,
        changed_by_name: changed_by.as_deref().and_then(|by| keys.name_of(by)),
        changed_by,
    }
}

/// Returns a warehouse, with the names of the API keys that created and changed it.
pub fn warehouse(info: WarehouseInfo, keys: &ApiKeys) -> Warehouse {
    Warehouse {
        name: info.name,
        id: info.id.to_string(),
        source: match info.source {
            Source::Configuration => WarehouseSource::Configuration,
            Source::Api => WarehouseSource::Api,
        },
        default: info.default,
        status: if info.open { WarehouseStatus::Open } else { WarehouseStatus::Unavailable },
        client_defaults: info.client_defaults,
        client_overrides: info.client_overrides,
        dropped_kept_seconds: info.dropped_kept_seconds,
        maintenance: info.maintenance,
        created_at_ms: info.created_ms,
        details: info.managed.map(|managed| warehouse_details(managed, keys)),
    }
}

/// Returns a page of warehouses.
pub fn warehouse_list(page: WarehousePage, keys: &ApiKeys) -> WarehouseList {
    let warehouses = page.warehouses.into_iter().map(|it| warehouse(it, keys)).collect();
    WarehouseList { warehouses, next_page_token: page.next }
}
