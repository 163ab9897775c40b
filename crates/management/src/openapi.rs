//! Schemas of the OpenAPI document.

use utoipa::OpenApi;

use crate::{
    api_keys, checkpoints, cluster, decisions, dropped, encryption, error, functions, grants,
    history, identity, jobs, namespaces, policies, protections, scans, search, snapshots, tables,
    warehouses, watch,
};

/// Components of the OpenAPI document: a schema for each request and response.
#[derive(Debug, OpenApi)]
#[openapi(components(schemas(
    identity::Caller,
    identity::ServerInfo,
    api_keys::CreateApiKeyRequest,
    api_keys::CreatedApiKey,
    api_keys::ApiKeyList,
    policies::PutPolicyRequest,
    policies::RollbackRequest,
    policies::PolicyList,
    policies::PolicyChange,
    policies::PolicyRevisionList,
    policies::PolicyRevisionDetails,
    policies::PolicyRevisionDiff,
    grants::CreateGrantRequest,
    grants::CreatedGrant,
    grants::GrantList,
    decisions::AuthorizeRequest,
    decisions::AuthorizeResponse,
    decisions::PermissionsResponse,
    warehouses::CreateWarehouseRequest,
    warehouses::UpdateWarehouseRequest,
    warehouses::WarehouseList,
    encryption::RewrapRequest,
    encryption::EncryptionStatus,
    jobs::StartJobRequest,
    jobs::JobList,
    history::HistoryResponse,
    watch::WatchResponse,
    snapshots::ExpireSnapshotsRequest,
    snapshots::SnapshotExpiry,
    namespaces::DropNamespaceRequest,
    namespaces::DroppedNamespace,
    protections::ProtectRequest,
    protections::ProtectionList,
    scans::ExplainScanRequest,
    scans::ScanExplanation,
    search::SearchResponse,
    tables::TableHealth,
    functions::CreateFunctionRequest,
    functions::ReplaceFunctionRequest,
    functions::FunctionState,
    dropped::UndropRequest,
    dropped::UndropResult,
    dropped::DroppedList,
    checkpoints::CreateCheckpointRequest,
    checkpoints::CheckpointList,
    cluster::ClusterStatus,
    cluster::TransferWriterRequest,
    cluster::TransferStarted,
    error::ErrorResponse,
)))]
pub struct Components;
