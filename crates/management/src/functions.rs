//! Bodies of `/management/v1/functions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// Body of `POST /management/v1/functions`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateFunctionRequest {
    /// The new function, such as `function:prod/sales/add_tax`.
    #[schema(pattern = "^function:.+$")]
    pub resource: String,
    /// The definitions, one for each signature.
    #[schema(min_items = 1)]
    pub definitions: Vec<FunctionDefinition>,
    /// Properties of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
    /// Whether engines should hide the SQL from users. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Documentation of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// Body of `PUT /management/v1/functions`. Absent members get their defaults.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReplaceFunctionRequest {
    /// The function, such as `function:prod/sales/add_tax`.
    #[schema(pattern = "^function:.+$")]
    pub resource: String,
    /// All definitions of the function, one for each signature.
    #[schema(min_items = 1)]
    pub definitions: Vec<FunctionDefinition>,
    /// Properties of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
    /// Whether engines should hide the SQL from users. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Documentation of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    /// Expected version. The request fails with 409 if the function has another version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// A signature of a function, and its SQL.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FunctionDefinition {
    /// The parameters, in the order of a call.
    #[serde(default)]
    pub parameters: Vec<FunctionParameter>,
    /// Type of the result: the name of a primitive type, or an object for a list, map or struct. The
    /// row type of a table function.
    pub return_type: Value,
    /// Whether the result can be null. Defaults to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_nullable: Option<bool>,
    /// Kind of the function. Defaults to `udf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_type: Option<FunctionKind>,
    /// The SQL, once for each dialect.
    #[schema(min_items = 1)]
    pub representations: Vec<FunctionRepresentation>,
    /// Whether equal arguments always have equal results. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// Result for null arguments. Defaults to `call`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_null_input: Option<OnNullInput>,
    /// Another name of the definition, unique within the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specific_name: Option<String>,
    /// Documentation of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// A parameter of a function.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FunctionParameter {
    /// Name of the parameter.
    #[schema(min_length = 1)]
    pub name: String,
    /// Type of the parameter: the name of a primitive type, or an object for a list, map or struct.
    #[serde(rename = "type")]
    pub data_type: Value,
    /// Documentation of the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// The SQL of a function in one dialect.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FunctionRepresentation {
    /// The SQL dialect, such as `spark` or `trino`.
    #[schema(min_length = 1)]
    pub dialect: String,
    /// The SQL. The server does not parse it.
    #[schema(min_length = 1)]
    pub sql: String,
}

/// Kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FunctionKind {
    /// Returns a value.
    Udf,
    /// Returns a table.
    Udtf,
}

/// Result of a function for null arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnNullInput {
    /// The engine calls the function.
    Call,
    /// The result is null, and the engine does not need to call the function.
    ReturnNull,
}

/// Response to the creation or replacement of a function.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FunctionState {
    /// The function, such as `function:prod/sales/add_tax`.
    pub resource: String,
    /// UUID of the function.
    pub function_uuid: Uuid,
    /// Version, which increases by one with each change.
    pub version: u64,
}
