"""Writes docs/api.md from the OpenAPI document in this directory. With `--check`, writes nothing and fails if the page is
stale."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE / "management.json"
PAGE = HERE.parent / "api.md"
HEAD = """# API

slateberg has two APIs. They share one port, unless `[server.management]` sets a separate port for the management API:

- The catalog API, `/v1`, implements Apache Iceberg's
  [REST catalog specification](https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml), with
  and without a warehouse as `{prefix}`. `GET /v1/config` lists the supported endpoints.
- The management API, `/management/v1`, manages credentials, policies, grants, warehouses, functions, dropped tables,
  protections, jobs, webhooks, encryption and checkpoints. It also has the history, the change feed and scan
  explanations. `GET /management/v1/openapi.json` returns its [OpenAPI document](openapi/management.json) without a
  credential. The schemas in this document are generated from the types that the server and the command line share. The
  rest of this page is generated from the document.

Both APIs return errors as `{"error": {"message", "type", "code"}}`, except `/v1/oauth/tokens`, whose errors follow RFC
6749. Every response has an `X-Request-Id`: the value that the client sent, or a value that the server created.
Responses with 429 and 503 have a `Retry-After` header with the seconds to wait before a retry.
"""


def resolve(document, schema):
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def kind(schema):
    """Returns a short description of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            return (" or " if word != "allOf" else " and ").join(kind(one) for one in schema[word])
    of = schema.get("type", "anything")
    if isinstance(of, list):
        return " or ".join(of)
    if of == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if of == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"by name: {kind(schema['additionalProperties'])}"
    return of


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def operation(document, method, path, said):
    yield f"### {method.upper()} {path.removeprefix('/management/v1')}\n"
    yield cell(f"{said['summary']}. {said.get('description', '')}") + "\n"
    parameters = [resolve(document, found) for found in said.get("parameters", [])]
    for found in parameters:
        if found["in"] != "path":
            yield cell(f"- {found['in']} `{found['name']}`: {found.get('description', kind(found.get('schema', {})))}")
    body = said.get("requestBody")
    if body:
        body = resolve(document, body)
        yield f"- body: {kind(body['content']['application/json']['schema'])}"
    for status, answer in said["responses"].items():
        answer = resolve(document, answer)
        content = answer.get("content", {}).get("application/json", {}).get("schema")
        told = f" ({kind(content)})" if content and status.startswith("2") else ""
        yield cell(f"- {status}: {answer['description']}{told}")
    yield ""


def schema(name, said):
    yield f"### {name}\n"
    if "description" in said:
        yield cell(said["description"]) + "\n"
    properties = said.get("properties")
    if not properties:
        yield cell(kind(said)) + "\n"
        return
    required = said.get("required", [])
    yield "| | | |\n|---|---|---|"
    for member, of in properties.items():
        optional = "" if member in required else " (may be absent)"
        yield f"| `{member}` | {cell(kind(of))} | {cell(of.get('description', '') + optional)} |"
    yield ""


def render(document):
    lines = [HEAD]
    for tag in document["tags"]:
        lines.append(f"## {tag['name']}\n\n{tag['description']}\n")
        for path, methods in document["paths"].items():
            shared = methods.get("parameters", [])
            for method, said in methods.items():
                if method != "parameters" and tag["name"] in said["tags"]:
                    said = said | {"parameters": shared + said.get("parameters", [])}
                    lines.extend(operation(document, method, path, said))
    lines.append("## Bodies\n")
    for name, said in document["components"]["schemas"].items():
        lines.extend(schema(name, said))
    return "\n".join(lines).rstrip() + "\n"


def main():
    page = render(json.loads(DOCUMENT.read_text()))
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit(f"{PAGE} is stale: run python3 {Path(__file__)}")


if __name__ == "__main__":
    main()
