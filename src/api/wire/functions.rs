//! Converts functions from requests and to responses.

use serde::Serialize;
use serde_json::Value;

use slateberg_catalog::functions::{FunctionInfo, FunctionReplacement};
use slateberg_management::functions as wire;
use slateberg_management::functions::{
    CreateFunctionRequest, FunctionDefinition, FunctionState, ReplaceFunctionRequest,
};
use slateberg_model::function::{
    DefinitionDraft, FunctionDraft, FunctionKind, FunctionMetadata, FunctionType, Implementation,
    OnNullInput, Parameter, Representation, RepresentationKind, Signature,
};
use slateberg_model::refusal::Refusal;

/// `LoadFunctionResult`.
#[derive(Debug, Serialize)]
pub struct LoadFunctionResult {
    metadata: FunctionMetadata,
}

/// Returns the response to a load.
pub fn load_function_result(metadata: FunctionMetadata) -> LoadFunctionResult {
    LoadFunctionResult { metadata }
}

/// Returns the name and the state of a new function.
pub fn new_function(request: CreateFunctionRequest) -> Result<(String, FunctionDraft), Refusal> {
    let CreateFunctionRequest { resource, definitions, properties, secure, doc } = request;
    let draft = FunctionDraft {
        definitions: drafts(definitions)?,
        properties: properties.unwrap_or_default(),
        secure: secure.unwrap_or_default(),
        doc,
    };
    Ok((resource, draft))
}

/// Returns the replacement that a request describes.
pub fn replacement(request: ReplaceFunctionRequest) -> Result<FunctionReplacement, Refusal> {
    let ReplaceFunctionRequest { resource, definitions, properties, secure, doc, expected_version } =
        request;
    let draft = FunctionDraft {
        definitions: drafts(definitions)?,
        properties: properties.unwrap_or_default(),
        secure: secure.unwrap_or_default(),
        doc,
    };
    Ok(FunctionReplacement { resource, draft, expected_version })
}

/// Returns the response to a change.
pub fn function_state(info: FunctionInfo) -> FunctionState {
    let FunctionInfo { resource, uuid, version } = info;
    FunctionState { resource, function_uuid: uuid, version }
}

fn drafts(definitions: Vec<FunctionDefinition>) -> Result<Vec<DefinitionDraft>, Refusal> {
    definitions.into_iter().map(draft).collect()
}

fn draft(definition: FunctionDefinition) -> Result<DefinitionDraft, Refusal> {
    let parameters: Result<Vec<_>, Refusal> =
        definition.parameters.into_iter().map(parameter).collect();
    let representations = definition.representations.into_iter().map(|it| Representation {
        kind: RepresentationKind::Sql,
        dialect: it.dialect,
        sql: it.sql,
    });
    Ok(DefinitionDraft {
        specific_name: definition.specific_name,
        signature: Signature {
            parameters: parameters?,
            return_type: data_type(&definition.return_type)?,
            return_nullable: definition.return_nullable.unwrap_or(true),
            function_type: match definition.function_type {
                Some(wire::FunctionKind::Udtf) => FunctionKind::Udtf,
                Some(wire::FunctionKind::Udf) | None => FunctionKind::Udf,
            },
        },
        implementation: Implementation {
            representations: representations.collect(),
            deterministic: definition.deterministic.unwrap_or_default(),
            on_null_input: match definition.on_null_input {
                Some(wire::OnNullInput::ReturnNull) => OnNullInput::ReturnNull,
                Some(wire::OnNullInput::Call) | None => OnNullInput::Call,
            },
        },
        doc: definition.doc,
    })
}

fn parameter(parameter: wire::FunctionParameter) -> Result<Parameter, Refusal> {
    let wire::FunctionParameter { name, data_type: json, doc } = parameter;
    Ok(Parameter { data_type: data_type(&json)?, name, doc })
}

fn data_type(json: &Value) -> Result<FunctionType, Refusal> {
    FunctionType::parse(json)
        .map_err(|reason| Refusal::invalid(format!("Invalid function: {reason}")))
}
